//! Starts every task, and ends all of them when one fails or the process is asked to end.

use std::{
    future::Future,
    sync::{Arc, Mutex},
    time::Duration,
};

use kube::Client;
use tokio::{
    net::TcpListener,
    signal::unix::{Signal, SignalKind, signal},
    sync::{oneshot, watch},
    task::JoinSet,
    time::timeout,
};
use tracing::{info, warn};

use super::{
    Options,
    queue::Queue,
    reconcile::{Reconciler, stopped},
};
use crate::{
    cluster::{
        admission::{PolicyWatcher, policies::PolicyKind},
        apply::Applier,
        calls::{Calls, connect},
        events::Events,
        index::{Index, WorkKey},
        leadership::{Leadership, Term},
        lease::{Candidate, Elector},
        slim::{Deployments, ReplicaSets, Rollouts},
        watch::Watcher,
    },
    outbound::Outbound,
    telemetry::{Health, Metrics, MetricsAuth, RequestsLayer, Status, serve},
};

/// How many kinds are watched in each namespace.
const KINDS: usize = 3;
/// After being asked to end, the time for what is in flight.
const FINISH: Duration = Duration::from_secs(3);
/// And then for the last events, and for giving back the lease.
const FLUSH: Duration = Duration::from_millis(800);

/// What every task uses.
struct Parts {
    options: Options,
    client: Client,
    index: Arc<Index>,
    queue: Arc<Queue>,
    metrics: Arc<Metrics>,
    health: Arc<Health>,
    leadership: Leadership,
    identity: String,
}

/// Runs the operator until it is asked to end.
///
/// # Errors
///
/// Fails where it cannot start, where a task ends that never should, and where the lease is lost:
/// the process is then to be started anew.
pub async fn run(options: Options) -> Result<(), String> {
    let ends = ends().map_err(|error| format!("signals cannot be received: {error}"))?;
    let listener = TcpListener::bind(options.listen)
        .await
        .map_err(|error| format!("--listen {}: {error}", options.listen))?;
    info!(
        version = env!("CARGO_PKG_VERSION"),
        listen = %listener.local_addr().unwrap_or(options.listen),
        namespaces = options.namespaces.join(","),
        "starting"
    );
    let parts = Parts::new(options).await?;

    // These never end by themselves; each gives the reason if it does.
    let mut tasks = JoinSet::new();
    parts.serve(listener, &mut tasks);
    parts.watch(&mut tasks);
    let (give_back, handed_back) = oneshot::channel();
    let mut leader = tokio::spawn(parts.elector(handed_back));
    let (calls, stop) = (parts.calls(), watch::Sender::new(false));
    let (events, publisher) =
        Events::new(calls.clone(), parts.metrics.clone(), parts.identity.clone());
    let publisher = tokio::spawn(publisher.run());
    let mut workers = parts.work(calls, events, &stop);

    let outcome = tokio::select! {
        () = ends => Ok(()),
        lost = &mut leader => Err(lost.unwrap_or_else(|error| error.to_string())),
        Some(ended) = tasks.join_next() => Err(ended.unwrap_or_else(|error| error.to_string())),
        Some(_) = workers.join_next() => Err("a worker ended".to_owned()),
    };
    if outcome.is_ok() {
        info!("ending, as asked");
    }
    stop.send_replace(true);
    let finish = async { while workers.join_next().await.is_some() {} };
    if timeout(FINISH, finish).await.is_err() {
        warn!("work in flight did not end in time; the lease is left to run out");
        return outcome;
    }
    drop(parts);
    let _ = timeout(FLUSH, publisher).await;
    if give_back.send(()).is_ok() {
        let _ = timeout(FLUSH, leader).await;
    }
    outcome
}

/// Resolves on SIGTERM and SIGINT.
fn ends() -> std::io::Result<impl Future<Output = ()>> {
    async fn either(mut terminate: Signal, mut interrupt: Signal) {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    }
    Ok(either(signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?))
}

impl Parts {
    async fn new(options: Options) -> Result<Self, String> {
        let metrics = Arc::new(Metrics::new().map_err(|error| error.to_string())?);
        let client = connect(&RequestsLayer(metrics.clone())).await?;
        let queue = Arc::new(Queue::default());
        let watches = options.watched().len() * KINDS + PolicyWatcher::KINDS;
        let index = Index::new(watches, {
            let queue = queue.clone();
            move |key| queue.wake(&key)
        });
        let term = if options.leader_elect { Term::None } else { Term::Forever };
        Ok(Self {
            identity: options.identity(),
            leadership: Leadership::new(term),
            health: Arc::default(),
            options,
            client,
            index,
            queue,
            metrics,
        })
    }

    fn calls(&self) -> Calls {
        Calls::new(self.client.clone(), self.leadership.clone())
    }

    fn serve(&self, listener: TcpListener, tasks: &mut JoinSet<String>) {
        let status = Status {
            metrics: self.metrics.clone(),
            health: self.health.clone(),
            index: self.index.clone(),
            auth: self.options.metrics_auth.then(|| MetricsAuth::new(self.calls())),
        };
        tasks.spawn(async move {
            match serve(listener, status).await {
                Ok(()) => "the endpoints ended".to_owned(),
                Err(error) => format!("the endpoints ended: {error}"),
            }
        });
    }

    fn watch(&self, tasks: &mut JoinSet<String>) {
        for namespace in self.options.watched() {
            let watcher = Watcher {
                client: self.client.clone(),
                index: self.index.clone(),
                metrics: self.metrics.clone(),
                health: self.health.clone(),
                resync: self.options.resync(),
            };
            tasks.spawn(watcher.clone().run::<Rollouts>(namespace.clone()));
            tasks.spawn(watcher.clone().run::<Deployments>(namespace.clone()));
            tasks.spawn(watcher.run::<ReplicaSets>(namespace));
        }
        for kind in PolicyKind::ALL {
            let watcher = PolicyWatcher {
                client: self.client.clone(),
                index: self.index.clone(),
                metrics: self.metrics.clone(),
            };
            tasks.spawn(watcher.run(kind));
        }
    }

    /// Leads for as long as possible; gives why it no longer does.
    fn elector(&self, handed_back: oneshot::Receiver<()>) -> impl Future<Output = String> + use<> {
        let metrics = self.metrics.clone();
        let elector = self.options.leader_elect.then(|| {
            let namespace = self.options.lease_namespace.clone();
            let candidate = Candidate {
                namespace: namespace.unwrap_or_else(|| self.client.default_namespace().to_owned()),
                name: self.options.lease_name.clone(),
                identity: self.identity.clone(),
                duration: Duration::from_secs(self.options.lease_duration_seconds.into()),
            };
            let calls = Calls::new(self.client.clone(), Leadership::new(Term::Forever));
            Elector::new(candidate, calls, self.leadership.clone())
        });
        async move {
            let Some(mut elector) = elector else {
                metrics.leader.set(1);
                let _ = handed_back.await;
                return String::new();
            };
            let lead = async {
                elector.acquire().await;
                metrics.leader.set(1);
                elector.hold().await
            };
            let lost = tokio::select! {
                lost = lead => lost,
                _ = handed_back => {
                    elector.release().await;
                    String::new()
                }
            };
            metrics.leader.set(0);
            lost
        }
    }

    fn work(&self, calls: Calls, events: Events, stop: &watch::Sender<bool>) -> JoinSet<()> {
        let queue = self.queue.clone();
        let outbound = Outbound::new(
            self.options.allowed(),
            self.leadership.clone(),
            self.metrics.clone(),
            move |key| queue.wake(&WorkKey::Rollout(key.clone())),
        );
        let reconciler = Arc::new(Reconciler {
            outbound,
            index: self.index.clone(),
            queue: self.queue.clone(),
            applier: Applier::new(calls, self.index.clone()),
            events,
            metrics: self.metrics.clone(),
            health: self.health.clone(),
            resync: self.options.resync(),
            memos: Mutex::default(),
        });
        let mut workers = JoinSet::new();
        for _ in 0..self.options.concurrency {
            let (index, leadership) = (self.index.clone(), self.leadership.clone());
            let (reconciler, stop) = (reconciler.clone(), stop.subscribe());
            workers.spawn(async move {
                let begun = async {
                    index.complete().await;
                    leadership.begun().await;
                };
                let mut waiting = stop.clone();
                tokio::select! {
                    () = begun => reconciler.work(stop).await,
                    () = stopped(&mut waiting) => {}
                }
            });
        }
        workers
    }
}
