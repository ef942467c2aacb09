//! Watching: one task per kind and namespace, each with its own backoff.

use std::{pin::pin, sync::Arc, time::Duration};

use futures::StreamExt;
use kube::{
    Api, Client,
    runtime::watcher::{self, Event},
};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep, timeout};
use tracing::{debug, info, warn};

use super::{
    backoff::{self, Backoff},
    index::{Index, Indexed},
    slim::Slim,
};
use crate::telemetry::{Health, Metrics};

/// How long the API server keeps one watch open, in seconds. Some load balancers drop connections
/// that are silent for 240 s.
const WATCH_SECONDS: u32 = 200;
/// How many objects one page of a list has: enough for few requests, few enough for little memory.
const PAGE: u32 = 250;
/// After a failure, a silence of this long means that the watch works again: every failing step
/// ends within 30 s.
const RECOVERED: Duration = Duration::from_secs(35);
/// Bounds of the wait between two tries.
const BACKOFF: Backoff =
    Backoff { first: Duration::from_millis(200), most: Duration::from_secs(5) };

/// What a watch needs.
#[derive(Clone)]
pub struct Watcher {
    /// Where to watch.
    pub client: Client,
    /// Where objects go.
    pub index: Arc<Index>,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// Where failures are reported.
    pub health: Arc<Health>,
    /// After this long everything is listed anew, which repairs a lost event.
    pub resync: Duration,
}

impl Watcher {
    /// Watches a kind in one namespace, or in all. It never ends by itself; if it did, it would
    /// give the reason.
    pub async fn run<K: Indexed>(self, namespace: Option<String>) -> String
    where
        Slim<K>: DeserializeOwned,
    {
        let trouble = match &namespace {
            Some(namespace) => format!("the watch of {} in {namespace} is broken", K::PLURAL),
            None => format!("the watch of {} is broken", K::PLURAL),
        };
        let mut listed = false;
        loop {
            let api: Api<Slim<K>> = match &namespace {
                Some(namespace) => Api::namespaced(self.client.clone(), namespace),
                None => Api::all(self.client.clone()),
            };
            let until = Instant::now() + backoff::jitter(self.resync);
            self.watch::<K>(api, namespace.as_deref(), &trouble, &mut listed, until).await;
        }
    }

    /// Lists and watches until the next list is due.
    async fn watch<K: Indexed>(
        &self,
        api: Api<Slim<K>>,
        namespace: Option<&str>,
        trouble: &str,
        listed: &mut bool,
        until: Instant,
    ) where
        Slim<K>: DeserializeOwned,
    {
        let config = watcher::Config::default().timeout(WATCH_SECONDS).page_size(PAGE);
        let mut stream = pin!(watcher::watcher(api, config));
        let mut relist = None;
        let mut failures = 0;
        loop {
            let rest = until.saturating_duration_since(Instant::now());
            // The first list and a broken watch are seen through before another begins.
            if rest.is_zero() && relist.is_none() && failures == 0 {
                return;
            }
            let patience = if failures > 0 || rest.is_zero() { RECOVERED } else { rest };
            match timeout(patience, stream.next()).await {
                Err(_) if failures > 0 => {
                    failures = 0;
                    self.health.over(trouble);
                }
                Err(_) => {}
                Ok(None) => return,
                Ok(Some(Ok(event))) => {
                    if !matches!(event, Event::Init) {
                        failures = 0;
                        self.health.over(trouble);
                    }
                    self.take::<K>(event, namespace, &mut relist, listed);
                }
                Ok(Some(Err(error))) => {
                    relist = None;
                    failures += 1;
                    self.health.since_now(trouble);
                    let labels = [K::PLURAL];
                    self.metrics.watch_restarts.with_label_values(&labels).inc();
                    report::<K>(&error, *listed);
                    sleep(BACKOFF.after(failures)).await;
                }
            }
        }
    }

    fn take<K: Indexed>(
        &self,
        event: Event<Slim<K>>,
        namespace: Option<&str>,
        relist: &mut Option<super::index::Relist>,
        listed: &mut bool,
    ) where
        Slim<K>: DeserializeOwned,
    {
        match event {
            Event::Init => *relist = Some(self.index.begin_list::<K>(namespace)),
            Event::InitApply(slim) => {
                self.count::<K>();
                if let Some(relist) = relist {
                    self.index.put_listed(relist, slim);
                }
            }
            Event::InitDone => {
                if let Some(relist) = relist.take() {
                    self.index.end_list::<K>(&relist);
                }
                if !*listed {
                    *listed = true;
                    info!(resource = K::PLURAL, namespace, "listed");
                    self.index.listed_first();
                }
            }
            Event::Apply(slim) => {
                self.count::<K>();
                self.index.put(slim);
            }
            Event::Delete(slim) => {
                self.count::<K>();
                self.index.remove::<K>(&slim.key(), slim.uid());
            }
        }
    }

    fn count<K: Indexed>(&self) {
        let labels = [K::PLURAL];
        self.metrics.watch_events.with_label_values(&labels).inc();
    }
}

fn report<K: Indexed>(error: &watcher::Error, listed: bool) {
    if let watcher::Error::WatchError(status) = error
        && status.code == 410
    {
        debug!(
            resource = K::PLURAL,
            "the API server no longer has the point to go on from; listing anew"
        );
    } else if let watcher::Error::InitialListFailed(kube::Error::Api(status)) = error
        && status.code == 404
    {
        warn!(
            resource = K::PLURAL,
            "the API server does not know this resource: install the CRD with \
             kubectl apply -f crds/grayrollouts.yaml"
        );
    } else {
        warn!(resource = K::PLURAL, listed, %error, "the watch failed and is tried again");
    }
}
