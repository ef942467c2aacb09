//! One decision: snapshot, plan, apply, status, events.

use std::{
    collections::HashMap,
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use futures::{FutureExt, future::join};
use jiff::Timestamp;
use tokio::sync::watch;
use tracing::{debug, error, warn};

use super::{
    memo::{Memo, after_failure, patience},
    queue::{Again, Queue},
};
use crate::{
    cluster::{
        admission::proofs::Trial,
        apply::{Applied, Applier},
        backoff::jitter,
        calls::CallError,
        events::Events,
        index::{Index, WorkKey},
        slim::{ObjectKey, ReplicaSets, Rollouts},
    },
    outbound::Outbound,
    plan::{
        self, Action, Admission, Event, EventKind, EventOn, Plan, Snapshot, StatusWrite, Target,
    },
    telemetry::{Health, Metrics},
};

/// How often one object is planned again at once before the others get their turn.
const PASSES: u32 = 8;
/// A ReplicaSet write so long after an approval is not counted as its consequence: the approval
/// may have changed no size at all.
const APPROVAL_NEWS: Duration = Duration::from_mins(1);

/// Makes decisions.
pub struct Reconciler {
    /// What was seen.
    pub index: Arc<Index>,
    /// What to decide about next.
    pub queue: Arc<Queue>,
    /// Carries out.
    pub applier: Applier,
    /// Tells people.
    pub events: Events,
    /// Calls webhooks and Prometheus.
    pub outbound: Outbound,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// Where stuck work is reported.
    pub health: Arc<Health>,
    /// After this long without a change an object is decided about anew.
    pub resync: Duration,
    /// What is remembered of objects between decisions.
    pub memos: Mutex<HashMap<WorkKey, Memo>>,
}

/// What one pass came to.
pub(super) enum Pass {
    /// Something was written: what follows is to be planned at once.
    Wrote,
    /// There was nothing to do; when to look again though nothing changes.
    Rest(Option<Duration>),
    /// There is no such object any more.
    Gone,
}

impl Reconciler {
    /// Decides about one object after the other until told to stop.
    pub async fn work(&self, mut stop: watch::Receiver<bool>) {
        loop {
            tokio::select! {
                biased;
                () = stopped(&mut stop) => return,
                key = self.queue.next() => self.decide(key).await,
            }
        }
    }

    /// Decides about one object.
    async fn decide(&self, key: WorkKey) {
        let began = Instant::now();
        let busy = format!("the work on {} is stuck", key.object());
        self.health.since_now(&busy);
        let mut memo = self.take_memo(&key);
        let attempt = AssertUnwindSafe(self.passes(&key, &mut memo)).catch_unwind();
        let (again, result) = match attempt.await {
            Ok(Ok(again)) => {
                memo.succeeded();
                (again, "success")
            }
            Ok(Err(failure)) => {
                let reason = failure.reason();
                self.metrics.reconcile_errors.with_label_values(&[reason]).inc();
                let again = after_failure(&mut memo, &failure);
                let key = key.object();
                if let CallError::Conflict(message) = failure {
                    debug!(%key, message, "conflict");
                } else {
                    warn!(%key, reason, error = %failure, ?again, "failed");
                }
                (again, "error")
            }
            Err(_) => {
                error!(key = %key.object(), "a decision panicked; the object is tried again later");
                let labels = ["Panic"];
                self.metrics.reconcile_errors.with_label_values(&labels).inc();
                (memo.failed(), "panic")
            }
        };
        self.metrics
            .reconcile_duration
            .with_label_values(&[result])
            .observe(began.elapsed().as_secs_f64());
        self.health.over(&busy);
        if again != Again::Never && !memo.is_blank() {
            self.put_memo(key.clone(), memo);
        }
        self.queue.done(&key, again);
    }

    fn take_memo(&self, key: &WorkKey) -> Memo {
        let mut memos = self.memos.lock().unwrap_or_else(PoisonError::into_inner);
        memos.remove(key).unwrap_or_default()
    }

    fn put_memo(&self, key: WorkKey, memo: Memo) {
        let mut memos = self.memos.lock().unwrap_or_else(PoisonError::into_inner);
        memos.insert(key, memo);
    }

    /// Plans and carries out until there is nothing more to do for now.
    async fn passes(&self, key: &WorkKey, memo: &mut Memo) -> Result<Again, CallError> {
        for _ in 0..PASSES {
            let pass = match key {
                WorkKey::Rollout(_) => self.rollout(key, memo).await,
                WorkKey::Orphan(_) => self.orphan(key, memo).await,
                WorkKey::Adoption(_) => self.adopt(key.object(), memo).await,
            };
            match pass {
                Ok(Pass::Wrote) => {
                    memo.succeeded();
                    if let Some(rest) = memo.rest_after_write(Instant::now()) {
                        return Ok(Again::NotBefore(rest));
                    }
                }
                Ok(Pass::Rest(after)) => {
                    let resync = jitter(self.resync);
                    return Ok(Again::After(after.map_or(resync, |a| a.min(resync))));
                }
                Ok(Pass::Gone) => return Ok(Again::Never),
                // The index has the object as it is now.
                Err(CallError::Conflict(message)) if memo.may_try_at_once() => {
                    debug!(key = %key.object(), message, "planned on something older; again");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Again::Now)
    }

    async fn rollout(&self, key: &WorkKey, memo: &mut Memo) -> Result<Pass, CallError> {
        let Some(mut snapshot) = self.index.snapshot(key.object(), Timestamp::now()) else {
            self.outbound.set(key.object(), "", &[]);
            return Ok(Pass::Gone);
        };
        // How the Deployment is to rest is found out before it is changed; what moves does not
        // wait for that.
        if snapshot.admission == Admission::Unknown
            && snapshot.rollout.status.stage.is_none()
            && self.try_admission(key.object()).await
        {
            let Some(again) = self.index.snapshot(key.object(), Timestamp::now()) else {
                return Ok(Pass::Gone);
            };
            snapshot = again;
        }
        memo.meet(&snapshot.rollout.uid);
        // Else another revision would be taken for the one to go back to.
        let unseen = self.index.unseen_stable(key.object());
        if let Some(name) = memo.news_of_unseen(unseen) {
            self.applier.look::<ReplicaSets>(name).await?;
            let Some(again) = self.index.snapshot(key.object(), Timestamp::now()) else {
                return Ok(Pass::Gone);
            };
            snapshot = again;
        }
        (snapshot.begun, snapshot.answers) =
            self.outbound.state(key.object(), &snapshot.rollout.uid);
        let plan = plan::plan(&snapshot);
        self.outbound.set(key.object(), &snapshot.rollout.uid, &plan.calls);
        let approves = |event: &Event| matches!(event.kind, EventKind::StageApproved { .. });
        if let Some(seen) = self.index.take_approved(key.object())
            && plan.recorded.iter().chain(&plan.acted).any(approves)
        {
            memo.approved = Some(seen);
        }
        let mut wrote = false;
        if plan.write == StatusWrite::First {
            wrote |= memo.wrote_status(self.record(&snapshot, &plan).await?);
        }
        if let Some(target) = &snapshot.target
            && !plan.actions.is_empty()
        {
            wrote = true;
            let applied = if plan.write == StatusWrite::Beside {
                let acts = self.act(target, &snapshot, &plan, memo);
                let (recorded, applied) = join(self.record(&snapshot, &plan), acts).await;
                memo.wrote_status(recorded?);
                applied?
            } else {
                self.act(target, &snapshot, &plan, memo).await?
            };
            if applied == Applied::Found {
                return Ok(Pass::Wrote);
            }
            for event in &plan.acted {
                let target = snapshot.target.as_ref();
                self.events.on_rollout(&snapshot.rollout, target, event);
            }
        }
        let mut after = patience(&plan.status, plan.requeue_after);
        match plan.write {
            StatusWrite::Now => wrote |= memo.wrote_status(self.record(&snapshot, &plan).await?),
            StatusWrite::Soon => {
                let left = memo.soon(Instant::now());
                if left.is_zero() {
                    wrote |= memo.wrote_status(self.record(&snapshot, &plan).await?);
                    memo.soon_since = None;
                } else {
                    after = Some(after.map_or(left, |after| after.min(left)));
                }
            }
            StatusWrite::None | StatusWrite::First | StatusWrite::Beside => {}
        }
        if plan.write != StatusWrite::Soon {
            memo.soon_since = None;
        }
        if wrote || self.try_admission(key.object()).await {
            return Ok(Pass::Wrote);
        }
        let due = self.index.trial_due(key.object());
        Ok(Pass::Rest(after.into_iter().chain(due).min()))
    }

    /// Tries, where that is due, whether the API server holds a new template; whether the next
    /// decision sees something new.
    async fn try_admission(&self, key: &ObjectKey) -> bool {
        if self.index.trial_due(key) != Some(Duration::ZERO) {
            return false;
        }
        let Some(to_try) = self.index.to_try(key) else {
            return false;
        };
        let trial = self.applier.try_admission(&to_try.rollout, &to_try.target).await;
        let trial = trial.unwrap_or_else(|| Trial::Failed("the Deployment has changed".into()));
        debug!(%key, ?trial, "tried admission");
        self.index.tried(key, &to_try, trial, self.resync)
    }

    /// Writes the status and tells of what it records; how long the write took, if there was one.
    async fn record(
        &self,
        snapshot: &Snapshot,
        plan: &Plan,
    ) -> Result<Option<Duration>, CallError> {
        let (rollout, began) = (&snapshot.rollout, Instant::now());
        if !self.applier.write_status(rollout, &plan.status).await? {
            return Ok(None);
        }
        self.metrics.observe_status(&rollout.namespace, &rollout.status, &plan.status);
        for event in &plan.recorded {
            let target = snapshot.target.as_ref();
            self.events.on_rollout(rollout, target, event);
        }
        Ok(Some(began.elapsed()))
    }

    /// Carries out the planned writes in order.
    async fn act(
        &self,
        target: &Target,
        snapshot: &Snapshot,
        plan: &Plan,
        memo: &mut Memo,
    ) -> Result<Applied, CallError> {
        for action in &plan.actions {
            let applied = match self.applier.apply(target, action).await {
                Ok(applied) => applied,
                Err(error) => {
                    if let CallError::Refused { message, .. } = &error {
                        // Else nobody would see why nothing goes on.
                        let event = Event {
                            kind: EventKind::ReplicaFailure,
                            message: format!("{} was refused: {message}", what(action)),
                            on: EventOn::Rollout,
                        };
                        self.events.on_rollout(&snapshot.rollout, Some(target), &event);
                    }
                    return Err(error);
                }
            };
            debug!(target = %target.name, ?action, "written");
            if !matches!(action, Action::PatchDeployment(_))
                && let Some(age) = memo.approved.take().map(|seen| seen.elapsed())
                && age < APPROVAL_NEWS
            {
                self.metrics.approve_to_scale.observe(age.as_secs_f64());
            }
            if applied == Applied::Found {
                return Ok(Applied::Found);
            }
        }
        Ok(Applied::Written)
    }

    async fn orphan(&self, key: &WorkKey, memo: &mut Memo) -> Result<Pass, CallError> {
        let Some(orphan) = self.index.orphan(key.object(), Timestamp::now()) else {
            return Ok(Pass::Gone);
        };
        memo.meet(&orphan.target.uid);
        if orphan.target.original.is_none()
            && let Some(name) = &orphan.target.rollout_annotation
        {
            // What admission held may be seen before the GrayRollout that was just made.
            let rollout = ObjectKey::new(&orphan.target.namespace, name);
            self.applier.look::<Rollouts>(&rollout).await?;
            if self.index.orphan(key.object(), Timestamp::now()).is_none() {
                return Ok(Pass::Gone);
            }
        }
        let plan = plan::release(&orphan);
        for action in &plan.actions {
            if self.applier.apply(&orphan.target, action).await? == Applied::Found {
                return Ok(Pass::Wrote);
            }
        }
        for event in &plan.events {
            self.events.on_target(&orphan.target, event);
        }
        Ok(if plan.actions.is_empty() { Pass::Rest(plan.requeue_after) } else { Pass::Wrote })
    }
}

/// Waits until told to stop, or until nobody is left to tell.
pub async fn stopped(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}

/// A planned write in words.
fn what(action: &Action) -> String {
    match action {
        Action::PatchDeployment(_) => "changing the Deployment".to_owned(),
        Action::CreateReplicaSet { .. } => "creating the new ReplicaSet".to_owned(),
        Action::ScaleReplicaSet { name, replicas, .. } => {
            format!("scaling ReplicaSet {name} to {replicas}")
        }
        Action::DeleteReplicaSet { name, .. } => format!("deleting ReplicaSet {name}"),
    }
}
