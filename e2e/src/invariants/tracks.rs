//! What has to be remembered about earlier states to judge a later one.

use std::{collections::BTreeMap, time::Duration};

use serde_json::Value;

use super::LAG;
use crate::{Json, Kind, Stored};

/// The values a number had, with the times from which it had them.
#[derive(Clone, Default)]
struct Values(Vec<(Duration, i64)>);

impl Values {
    fn push(&mut self, at: Duration, value: i64) {
        self.0.push((at, value));
        // One value from before the window is still in force at its beginning.
        while self.0.len() > 1 && self.0[1].0 + LAG < at {
            self.0.remove(0);
        }
    }

    /// The values in force within the last moments.
    fn recent(&self, at: Duration) -> impl Iterator<Item = i64> {
        let first = self.0.iter().rposition(|(from, _)| *from + LAG < at).unwrap_or(0);
        self.0[first..].iter().map(|(_, value)| *value)
    }
}

#[derive(Clone, Default)]
struct SetTrack {
    /// The least spec.replicas since status.observedGeneration was current: pods above it may be
    /// on their way out although the status still counts them.
    least: i64,
    available: Values,
}

/// What is remembered, by UID.
#[derive(Clone, Default)]
pub(super) struct Tracks {
    sets: BTreeMap<String, SetTrack>,
    replicas: BTreeMap<String, Values>,
}

impl Tracks {
    pub fn take(&mut self, stored: &Stored) {
        let object = &stored.object;
        let uid = object.text("/metadata/uid").to_owned();
        match stored.kind {
            Kind::ReplicaSet => {
                let asked = object.int("/spec/replicas");
                let track = self
                    .sets
                    .entry(uid)
                    .or_insert_with(|| SetTrack { least: asked, ..SetTrack::default() });
                let current = is_current(object);
                track.least = if current { asked } else { track.least.min(asked) };
                track.available.push(stored.at, object.int("/status/availableReplicas"));
            }
            Kind::Deployment => {
                let replicas = self.replicas.entry(uid).or_default();
                replicas.push(stored.at, object.int("/spec/replicas"));
            }
            _ => {}
        }
    }

    /// The most pods of a ReplicaSet that were available of late, and that are sure to stay.
    pub fn guaranteed(&self, set: &Value, at: Duration) -> i64 {
        self.sets.get(set.text("/metadata/uid")).map_or(0, |track| {
            let available = track.available.recent(at).max().unwrap_or(0);
            available.min(track.least)
        })
    }

    /// The fewest pods of a ReplicaSet that were available of late.
    pub fn fewest(&self, set: &Value, at: Duration) -> i64 {
        let track = self.sets.get(set.text("/metadata/uid"));
        track.and_then(|track| track.available.recent(at).min()).unwrap_or(0)
    }

    /// The values of a Deployment's spec.replicas that a write may rest on.
    pub fn replicas(&self, deployment: &Value, at: Duration) -> Vec<i64> {
        self.replicas
            .get(deployment.text("/metadata/uid"))
            .map_or_else(Vec::new, |values| values.recent(at).collect())
    }
}

/// Whether the status speaks of the present spec.
pub(super) fn is_current(object: &Value) -> bool {
    object.int("/status/observedGeneration") >= object.int("/metadata/generation")
}
