//! Telling people what happened, as events of the cluster.
//!
//! It is a task of its own behind a bounded channel, so that nothing waits for it.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use k8s_openapi::{
    api::{
        core::v1::ObjectReference,
        events::v1::{Event as ClusterEvent, EventSeries},
    },
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
};
use kube::{
    Resource,
    api::{Patch, PatchParams, PostParams},
    core::request::Request,
};
use serde_json::json;
use tokio::sync::mpsc;
use tracing::debug;

use super::{
    calls::{CallError, Calls},
    slim::{Deployments, Kind, Rollouts},
};
use crate::{
    api::FIELD_MANAGER,
    plan::{Event, EventOn, Rollout, Target},
    telemetry::Metrics,
};

/// Who reports.
const CONTROLLER: &str = "grayrollout.dev/grayrollout";
/// How many events may wait; more are dropped.
const QUEUE: usize = 1024;
/// The same event is told at most once in this time.
const REPEAT: Duration = Duration::from_secs(10);
/// An event waits this long, so that the writes it tells of have the API server for themselves.
const DEFER: Duration = Duration::from_millis(100);
/// For how long a repeated event counts as one with the earlier ones.
const SERIES: Duration = Duration::from_mins(30);
/// How many events are remembered at most.
const MEMORY: usize = 4096;
/// Longest note of an event, in bytes.
const MAX_NOTE: usize = 1024;

/// What an event speaks of.
#[derive(Debug, Clone)]
struct Regarding {
    api_version: String,
    kind: &'static str,
    namespace: String,
    name: String,
    uid: String,
}

impl Regarding {
    fn new<K: Kind>(namespace: &str, name: &str, uid: &str) -> Self {
        Self {
            api_version: format!("{}/{}", K::GROUP, K::VERSION),
            kind: K::KIND,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            uid: uid.to_owned(),
        }
    }

    fn reference(&self) -> ObjectReference {
        ObjectReference {
            api_version: Some(self.api_version.clone()),
            kind: Some(self.kind.to_owned()),
            namespace: Some(self.namespace.clone()),
            name: Some(self.name.clone()),
            uid: Some(self.uid.clone()),
            ..ObjectReference::default()
        }
    }
}

struct Message {
    regarding: Regarding,
    warning: bool,
    reason: &'static str,
    note: String,
    at: Timestamp,
    due: Instant,
}

/// Takes events in.
#[derive(Clone)]
pub struct Events {
    sender: mpsc::Sender<Message>,
    metrics: Arc<Metrics>,
}

impl Events {
    /// The way in, and the task to run.
    #[must_use]
    pub fn new(calls: Calls, metrics: Arc<Metrics>, identity: String) -> (Self, Publisher) {
        let (sender, receiver) = mpsc::channel(QUEUE);
        let publisher =
            Publisher { receiver, calls, metrics: metrics.clone(), identity, told: HashMap::new() };
        (Self { sender, metrics }, publisher)
    }

    /// Tells of something on the GrayRollout, on its Deployment, or on both.
    pub fn on_rollout(&self, rollout: &Rollout, target: Option<&Target>, event: &Event) {
        self.metrics.observe(&rollout.namespace, event);
        if event.on != EventOn::Target {
            let Rollout { namespace, name, uid, .. } = rollout;
            self.send(Regarding::new::<Rollouts>(namespace, name, uid), event);
        }
        if let Some(target) = target.filter(|_| event.on != EventOn::Rollout) {
            self.send(regarding_target(target), event);
        }
    }

    /// Tells of something on a Deployment alone, as where its GrayRollout is gone.
    pub fn on_target(&self, target: &Target, event: &Event) {
        self.metrics.observe(&target.namespace, event);
        self.send(regarding_target(target), event);
    }

    fn send(&self, regarding: Regarding, event: &Event) {
        let reason = event.kind.reason();
        let message = Message {
            regarding,
            warning: event.kind.is_warning(),
            reason,
            note: cut(&event.message).to_owned(),
            at: Timestamp::now(),
            due: Instant::now() + DEFER,
        };
        if self.sender.try_send(message).is_err() {
            let labels = [reason, "dropped"];
            self.metrics.events.with_label_values(&labels).inc();
        }
    }
}

fn regarding_target(target: &Target) -> Regarding {
    Regarding::new::<Deployments>(&target.namespace, &target.name, &target.uid)
}

fn cut(note: &str) -> &str {
    let end = note.floor_char_boundary(MAX_NOTE);
    note.get(..end).unwrap_or(note)
}

/// Writes events to the cluster.
pub struct Publisher {
    receiver: mpsc::Receiver<Message>,
    calls: Calls,
    metrics: Arc<Metrics>,
    identity: String,
    /// What was told lately, by what makes an event the same.
    told: HashMap<u64, Told>,
}

struct Told {
    name: String,
    first: Instant,
    last: Instant,
    count: i32,
}

/// What is to be done about an event.
#[derive(Debug, PartialEq)]
enum Telling {
    /// It was told a moment ago.
    Skip,
    /// It is a new one.
    Create,
    /// It is the same as an earlier one, told so many times now.
    Repeat { name: String, count: i32 },
}

impl Publisher {
    /// Publishes until every way in is gone.
    pub async fn run(mut self) {
        while let Some(message) = self.receiver.recv().await {
            tokio::time::sleep_until(message.due.into()).await;
            let result = match self.publish(&message).await {
                Ok(result) => result,
                Err(error) => {
                    debug!(reason = message.reason, %error, "an event could not be written");
                    "failed"
                }
            };
            let labels = [message.reason, result];
            self.metrics.events.with_label_values(&labels).inc();
        }
    }

    async fn publish(&mut self, message: &Message) -> Result<&'static str, CallError> {
        let mut hasher = DefaultHasher::new();
        (&message.regarding.uid, message.reason, &message.note).hash(&mut hasher);
        let same = hasher.finish();
        let namespace = &message.regarding.namespace;
        let request = Request::new(ClusterEvent::url_path(&(), Some(namespace)));
        let params =
            PostParams { field_manager: Some(FIELD_MANAGER.into()), ..PostParams::default() };
        match self.telling(same, Instant::now()) {
            Telling::Skip => Ok("repeated"),
            Telling::Repeat { name, count } => {
                let series = EventSeries { count, last_observed_time: MicroTime(message.at) };
                let patch = Patch::Merge(json!({ "series": series }));
                let params = PatchParams {
                    field_manager: Some(FIELD_MANAGER.into()),
                    ..PatchParams::default()
                };
                let request = request.patch(&name, &params, &patch)?;
                let written = self.calls.write::<serde_json::Value>(request).await;
                if written.is_err() {
                    // The event may have expired: the next one is a new one.
                    self.told.remove(&same);
                }
                written.map(|_| "published")
            }
            Telling::Create => {
                let name = event_name(&message.regarding.name, same ^ fastrand::u64(..));
                let event = self.event(message, &name);
                let body = serde_json::to_vec(&event)
                    .map_err(|error| CallError::Transport(error.to_string()))?;
                let request = request.create(&params, body)?;
                self.calls.write::<serde_json::Value>(request).await?;
                self.remember(same, name, Instant::now());
                Ok("published")
            }
        }
    }

    fn telling(&mut self, same: u64, now: Instant) -> Telling {
        let Some(told) = self.told.get_mut(&same) else {
            return Telling::Create;
        };
        if now.duration_since(told.last) < REPEAT {
            return Telling::Skip;
        }
        if now.duration_since(told.first) > SERIES {
            return Telling::Create;
        }
        told.last = now;
        told.count = told.count.saturating_add(1);
        Telling::Repeat { name: told.name.clone(), count: told.count }
    }

    fn remember(&mut self, same: u64, name: String, now: Instant) {
        if self.told.len() >= MEMORY {
            self.told.retain(|_, told| now.duration_since(told.last) < REPEAT);
        }
        if self.told.len() < MEMORY {
            let told = Told { name, first: now, last: now, count: 1 };
            self.told.insert(same, told);
        }
    }

    fn event(&self, message: &Message, name: &str) -> ClusterEvent {
        ClusterEvent {
            metadata: ObjectMeta {
                namespace: Some(message.regarding.namespace.clone()),
                name: Some(name.to_owned()),
                ..ObjectMeta::default()
            },
            event_time: Some(MicroTime(message.at)),
            type_: Some(if message.warning { "Warning" } else { "Normal" }.to_owned()),
            reason: Some(message.reason.to_owned()),
            action: Some(message.reason.to_owned()),
            note: Some(message.note.clone()),
            regarding: Some(message.regarding.reference()),
            reporting_controller: Some(CONTROLLER.to_owned()),
            reporting_instance: Some(self.identity.clone()),
            ..ClusterEvent::default()
        }
    }
}

/// A name that no other event has.
fn event_name(object: &str, id: u64) -> String {
    let base = object.get(..200).unwrap_or(object);
    format!("{}.{id:016x}", base.trim_end_matches(['-', '.']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_cut_between_characters() {
        let note = "ä".repeat(600);
        assert_eq!(cut(&note).len(), MAX_NOTE);
        assert_eq!(cut("short"), "short");
        let odd = format!("x{note}");
        assert_eq!(cut(&odd).len(), MAX_NOTE - 1);
    }

    #[test]
    fn names_of_events_are_valid() {
        let name = event_name(&format!("{}.-{}", "a".repeat(198), "b".repeat(50)), 7);
        assert_eq!(name, format!("{}.0000000000000007", "a".repeat(198)));
    }
}
