//! Leader election on a Lease.
//!
//! Every write carries the resourceVersion that was read, so that of two candidates one fails.
//! Whether another's lease has run out is told by the time for which it was not seen to change,
//! never by comparing clocks.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
};
use kube::{
    Resource,
    api::{GetParams, Patch, PatchParams, PostParams},
    core::request::Request,
};
use serde_json::json;
use tokio::time::{sleep, timeout};
use tracing::{debug, info, warn};

use super::{
    backoff::jitter,
    calls::{CallError, Calls},
    leadership::{Leadership, Term},
};
use crate::api::FIELD_MANAGER;

/// How often a follower looks: a lease that is given back is taken up within a second.
const FOLLOW: Duration = Duration::from_millis(300);
/// How soon a failed renewal is tried again, and how long giving the lease back may take.
const LOOK: Duration = Duration::from_secs(1);

/// Which lease, and who wants it.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// The lease's namespace.
    pub namespace: String,
    /// The lease's name.
    pub name: String,
    /// Who this process is.
    pub identity: String,
    /// After this long without a renewal another may lead.
    pub duration: Duration,
}

/// Takes and keeps the lease.
pub struct Elector {
    candidate: Candidate,
    calls: Calls,
    leadership: Leadership,
    /// The lease as last seen to change, and when.
    seen: Option<(Record, Instant)>,
}

/// What is read of a lease.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Record {
    version: String,
    holder: String,
    duration: Duration,
    transitions: i32,
}

impl Record {
    fn of(lease: Lease, usual: Duration) -> Self {
        let spec = lease.spec.unwrap_or_default();
        let seconds = spec.lease_duration_seconds.map(i64::from);
        Self {
            version: lease.metadata.resource_version.unwrap_or_default(),
            holder: spec.holder_identity.unwrap_or_default(),
            duration: seconds
                .and_then(|seconds| u64::try_from(seconds).ok())
                .map_or(usual, Duration::from_secs),
            transitions: spec.lease_transitions.unwrap_or_default(),
        }
    }

    /// Whether someone of this name may take the lease, having seen no change of it for so long.
    fn is_free(&self, identity: &str, unchanged: Duration) -> bool {
        self.holder.is_empty() || self.holder == identity || unchanged > self.duration
    }
}

impl Elector {
    /// `calls` must be free to write without leading.
    #[must_use]
    pub fn new(candidate: Candidate, calls: Calls, leadership: Leadership) -> Self {
        Self { candidate, calls, leadership, seen: None }
    }

    /// A renewal is due after this long.
    fn renew_every(&self) -> Duration {
        self.candidate.duration / 3
    }

    /// Without a renewal for this long nothing is written any more.
    fn give_up_after(&self) -> Duration {
        self.candidate.duration * 2 / 3
    }

    /// Waits until the lease is this process's.
    pub async fn acquire(&mut self) {
        info!(
            identity = self.candidate.identity,
            lease = format!("{}/{}", self.candidate.namespace, self.candidate.name),
            "waiting for the lease"
        );
        let mut failures = 0_u32;
        loop {
            match self.try_acquire().await {
                Ok(true) => {
                    info!(identity = self.candidate.identity, "leading");
                    return;
                }
                Ok(false) => failures = 0,
                Err(CallError::Conflict(message) | CallError::AlreadyExists(message)) => {
                    debug!(message, "another candidate was faster");
                }
                Err(error) => {
                    failures += 1;
                    // One line a minute is enough.
                    if failures % 200 == 1 {
                        warn!(%error, "the lease cannot be read or written; trying again");
                    }
                }
            }
            sleep(jitter(FOLLOW)).await;
        }
    }

    async fn try_acquire(&mut self) -> Result<bool, CallError> {
        let began = Instant::now();
        let record = match self.read().await {
            Ok(record) => record,
            Err(CallError::NotFound(_)) => {
                let record = self.create().await?;
                self.lead(record, began);
                return Ok(true);
            }
            Err(error) => return Err(error),
        };
        let since = self.note(record.clone(), began);
        let identity = &self.candidate.identity;
        if !record.is_free(identity, began.duration_since(since)) {
            return Ok(false);
        }
        let taken = record.holder != *identity;
        let record = self.write(&record, taken).await?;
        self.lead(record, began);
        Ok(true)
    }

    /// Remembers the lease; gives since when it has not changed.
    fn note(&mut self, record: Record, now: Instant) -> Instant {
        if let Some((seen, since)) = &self.seen
            && *seen == record
        {
            return *since;
        }
        self.seen = Some((record, now));
        now
    }

    /// Leads from the time at which the request that renewed the lease began.
    fn lead(&mut self, record: Record, began: Instant) {
        self.leadership.set(Term::Until {
            begin: began + self.give_up_after(),
            end: began + self.candidate.duration,
        });
        self.seen = Some((record, began));
    }

    /// Renews the lease for as long as that works; gives why it no longer does.
    pub async fn hold(&mut self) -> String {
        let mut renewed = Instant::now();
        loop {
            sleep(self.renew_every()).await;
            loop {
                let began = Instant::now();
                let error = match timeout(self.renew_every(), self.renew()).await {
                    Ok(Ok(Some(record))) => {
                        self.lead(record, began);
                        renewed = began;
                        break;
                    }
                    Ok(Ok(None)) => {
                        self.leadership.set(Term::None);
                        return "another process took the lease".to_owned();
                    }
                    Ok(Err(error)) => error.to_string(),
                    Err(_) => "no answer in time".to_owned(),
                };
                warn!(error, "the lease could not be renewed");
                if renewed.elapsed() + LOOK > self.give_up_after() {
                    self.leadership.set(Term::None);
                    return format!(
                        "the lease could not be renewed for {} s: {error}",
                        renewed.elapsed().as_secs()
                    );
                }
                sleep(LOOK).await;
            }
        }
    }

    /// One renewal; `None` where the lease is another's.
    async fn renew(&mut self) -> Result<Option<Record>, CallError> {
        if let Some((record, _)) = self.seen.clone() {
            match self.write(&record, false).await {
                Err(CallError::Conflict(_) | CallError::NotFound(_)) => {}
                other => return other.map(Some),
            }
        }
        let record = match self.read().await {
            Err(CallError::NotFound(_)) => return self.create().await.map(Some),
            other => other?,
        };
        if record.holder != self.candidate.identity {
            return Ok(None);
        }
        self.write(&record, false).await.map(Some)
    }

    /// Gives the lease back, so that another can lead at once. Nothing is written afterwards.
    pub async fn release(&mut self) {
        self.leadership.set(Term::None);
        let release = async {
            let record = self.read().await?;
            if record.holder != self.candidate.identity {
                return Ok(());
            }
            let spec = json!({ "holderIdentity": "", "leaseDurationSeconds": 1 });
            self.patch(&record.version, spec).await.map(|_| ())
        };
        match timeout(LOOK, release).await {
            Ok(Ok(())) => info!("the lease is given back"),
            Ok(Err(error)) => {
                let error: CallError = error;
                warn!(%error, "the lease could not be given back and runs out by itself");
            }
            Err(_) => warn!("the lease could not be given back in time and runs out by itself"),
        }
    }

    fn path(&self) -> Request {
        Request::new(Lease::url_path(&(), Some(&self.candidate.namespace)))
    }

    fn spec(&self, transitions: i32, taken: bool) -> LeaseSpec {
        let now = MicroTime(Timestamp::now());
        let seconds = self.candidate.duration.as_secs();
        LeaseSpec {
            holder_identity: Some(self.candidate.identity.clone()),
            lease_duration_seconds: Some(i32::try_from(seconds).unwrap_or(i32::MAX)),
            renew_time: Some(now.clone()),
            acquire_time: taken.then_some(now),
            lease_transitions: Some(transitions.saturating_add(i32::from(taken))),
            ..LeaseSpec::default()
        }
    }

    async fn read(&self) -> Result<Record, CallError> {
        let request = self.path().get(&self.candidate.name, &GetParams::default())?;
        let lease = self.calls.read(request).await?;
        Ok(Record::of(lease, self.candidate.duration))
    }

    async fn create(&self) -> Result<Record, CallError> {
        let lease = Lease {
            metadata: ObjectMeta {
                name: Some(self.candidate.name.clone()),
                namespace: Some(self.candidate.namespace.clone()),
                ..ObjectMeta::default()
            },
            spec: Some(self.spec(0, true)),
        };
        let body =
            serde_json::to_vec(&lease).map_err(|error| CallError::Transport(error.to_string()))?;
        let params =
            PostParams { field_manager: Some(FIELD_MANAGER.into()), ..PostParams::default() };
        let request = self.path().create(&params, body)?;
        let lease = self.calls.write(request).await?;
        Ok(Record::of(lease, self.candidate.duration))
    }

    async fn write(&self, record: &Record, taken: bool) -> Result<Record, CallError> {
        let spec = serde_json::to_value(self.spec(record.transitions, taken))
            .map_err(|error| CallError::Transport(error.to_string()))?;
        self.patch(&record.version, spec).await
    }

    async fn patch(&self, version: &str, spec: serde_json::Value) -> Result<Record, CallError> {
        let body = json!({ "metadata": { "resourceVersion": version }, "spec": spec });
        let params =
            PatchParams { field_manager: Some(FIELD_MANAGER.into()), ..PatchParams::default() };
        let patch = Patch::Merge(&body);
        let request = self.path().patch(&self.candidate.name, &params, &patch)?;
        let lease = self.calls.write(request).await?;
        Ok(Record::of(lease, self.candidate.duration))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn held_by(holder: &str) -> Record {
        Record { version: "5".into(), holder: holder.into(), duration: 15 * SECOND, transitions: 0 }
    }

    #[test]
    fn anothers_lease_is_free_only_after_its_whole_time_without_a_change() {
        assert!(!held_by("other").is_free("me", Duration::ZERO));
        assert!(!held_by("other").is_free("me", 15 * SECOND));
        assert!(held_by("other").is_free("me", 16 * SECOND));
    }

    #[test]
    fn ones_own_and_a_released_lease_are_free_at_once() {
        assert!(held_by("me").is_free("me", Duration::ZERO));
        assert!(held_by("").is_free("me", Duration::ZERO));
    }

    #[test]
    fn a_lease_without_a_time_counts_as_ours_would() {
        let record = Record::of(Lease::default(), 15 * SECOND);
        assert_eq!(record.duration, 15 * SECOND);
        let negative = Lease {
            spec: Some(LeaseSpec { lease_duration_seconds: Some(-1), ..LeaseSpec::default() }),
            ..Lease::default()
        };
        assert_eq!(Record::of(negative, 15 * SECOND).duration, 15 * SECOND);
    }
}
