//! Waiting for what a user would see.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{Json, Kind, Snapshot, Split, Test};

/// How long anything may take that waits for nobody.
const PATIENCE: Duration = Duration::from_secs(30);

impl Test {
    /// Waits until the objects meet a condition.
    pub async fn until(&self, what: &str, met: impl FnMut(&Snapshot) -> bool) {
        self.until_within(what, PATIENCE, met).await;
    }

    /// The same with a deadline that matters.
    pub async fn until_within(
        &self,
        what: &str,
        within: Duration,
        met: impl FnMut(&Snapshot) -> bool,
    ) {
        if let Err(why) = self.record.until(within, met).await {
            panic!("waited for: {what}: {why}\n{}", self.record.look(ToString::to_string));
        }
    }

    /// Sees to it that something stays true for a while, and fails as soon as it is not.
    pub async fn always(&self, what: &str, during: Duration, holds: impl Fn(&Snapshot) -> bool) {
        let broken = self.record.until(during, |now| !holds(now)).await.is_ok();
        assert!(!broken, "did not stay true: {what}\n{}", self.record.look(ToString::to_string));
    }

    /// Waits until a GrayRollout's status meets a condition.
    pub async fn status(&self, name: &str, what: &str, mut met: impl FnMut(&Value) -> bool) {
        self.until(what, |now| met(now.gr(name).at("/status"))).await;
    }

    /// Waits for a phase.
    pub async fn phase(&self, name: &str, phase: &str) {
        self.status(name, phase, |status| status.text("/phase") == phase).await;
    }

    /// Waits for the phase Stalled with a reason.
    pub async fn stalled(&self, name: &str, reason: &str) {
        self.status(name, reason, |status| {
            status.text("/phase") == "Stalled" && reason_of(status, "Stalled") == reason
        })
        .await;
    }

    /// Waits until a stage is held for approval with this split, all of it available, and in the
    /// form in which the native controller, which has taken note of it, keeps it whatever happens.
    pub async fn held(&self, name: &str, stage: i64, new: i64, old: i64) {
        let what = format!("stage {stage} held with {new} new, {old} old");
        self.until(&what, |now| {
            let status = now.gr(name).at("/status");
            status.text("/phase") == "AwaitingApproval"
                && status.int("/stage") == stage
                && reason_of(status, "AwaitingApproval") == "StageReached"
                && now.split(name) == Split { new, old }
                && now.settled(name)
                && has_held_form(now.deployment(name), Split { new, old })
        })
        .await;
    }

    /// Waits until the sizes are these, whatever else.
    pub async fn split(&self, name: &str, new: i64, old: i64) {
        let what = format!("{new} new, {old} old");
        self.until(&what, |now| now.split(name) == Split { new, old }).await;
    }

    /// Waits until nothing rolls out, all pods run the Deployment's template, and the Deployment
    /// rests as its owner made it, but for the hold.
    pub async fn completed(&self, name: &str) {
        self.until("completed and given back", |now| {
            let deployment = now.deployment(name);
            let status = now.gr(name).at("/status");
            let replicas = deployment.int("/spec/replicas");
            let all = Split { new: replicas, old: 0 };
            status.text("/phase") == "Completed"
                && reason_of(status, "Ready") == "Completed"
                && status.at("/stableRevision") == status.at("/updateRevision")
                && now.split(name) == all
                && now.settled(name)
                && at_rest(deployment, status)
        })
        .await;
    }

    /// Waits until a rollout has gone back and rests.
    pub async fn rolled_back(&self, name: &str) {
        self.until("rolled back", |now| {
            let deployment = now.deployment(name);
            let replicas = deployment.int("/spec/replicas");
            let back = Split { new: 0, old: replicas };
            now.gr(name).text("/status/phase") == "RolledBack"
                && now.split(name) == back
                && now.settled(name)
                && now.new_set(deployment).is_none()
        })
        .await;
    }

    /// Waits until the status has the last counts, which may come late, and nobody writes any more;
    /// the newest version then.
    pub async fn quiet(&self, name: &str) -> u64 {
        for _ in 0..20 {
            self.until("the counts are told", |now| now.told(name)).await;
            let newest = self.record.newest();
            tokio::time::sleep(Duration::from_millis(1500)).await;
            if newest == self.record.newest() {
                return newest;
            }
        }
        panic!("somebody writes without an end\n{}", self.record.look(ToString::to_string));
    }

    /// Waits for an event about an object of this name.
    pub async fn event(&self, name: &str, reason: &str) -> Value {
        self.until(&format!("an event {reason}"), |now| find_event(now, name, reason).is_some())
            .await;
        self.record.look(|now| find_event(now, name, reason).cloned().unwrap_or_default())
    }

    /// Whether there is an event about an object of this name.
    pub fn has_event(&self, name: &str, reason: &str) -> bool {
        self.record.look(|now| find_event(now, name, reason).is_some())
    }

    /// A GrayRollout's status now.
    pub fn status_now(&self, name: &str) -> Value {
        self.record.look(|now| now.gr(name).at("/status").clone())
    }

    /// A Deployment now.
    pub fn deployment_now(&self, name: &str) -> Value {
        self.record.look(|now| now.deployment(name).clone())
    }

    /// The most that `value` was in any stored state after `version`, the state at it included.
    pub fn most_since(&self, version: u64, value: impl Fn(&Snapshot) -> i64) -> i64 {
        self.since(version, value).into_iter().max().unwrap_or(0)
    }

    /// The least that `value` was in any stored state after `version`, the state at it included.
    pub fn least_since(&self, version: u64, value: impl Fn(&Snapshot) -> i64) -> i64 {
        self.since(version, value).into_iter().min().unwrap_or(0)
    }

    /// What `value` was in each stored state after `version`, the state at it included.
    pub fn since<T>(&self, version: u64, value: impl Fn(&Snapshot) -> T) -> Vec<T> {
        let mut now = Snapshot::default();
        let mut values = Vec::new();
        let history = self.record.history();
        let first = history.partition_point(|stored| stored.version <= version);
        for (index, stored) in history.iter().enumerate() {
            now.apply(stored);
            if index + 1 >= first {
                values.push(value(&now));
            }
        }
        values
    }
}

/// The reason of a condition.
pub fn reason_of<'a>(status: &'a Value, condition: &str) -> &'a str {
    status
        .list("/conditions")
        .iter()
        .find(|c| c.text("/type") == condition)
        .map_or("", |c| c.text("/reason"))
}

/// Whether the native controller changes nothing of a split: it is paused, and follows replicas in
/// proportion. With one replica, or a single revision, it must not act at all.
fn has_held_form(deployment: &Value, split: Split) -> bool {
    let strategy = deployment.at("/spec/strategy");
    let both = split.new > 0 && split.old > 0 && deployment.int("/spec/replicas") > 1;
    let rolling = strategy.text("/type") == "RollingUpdate";
    let noted = deployment.int("/status/observedGeneration");
    deployment.flag("/spec/paused")
        && (!both || noted == deployment.int("/metadata/generation"))
        && (!both || rolling && strategy.at("/rollingUpdate/maxSurge") == &json!(0))
}

/// Whether the Deployment has its own strategy again and only the hold of a Deployment at rest.
fn at_rest(deployment: &Value, status: &Value) -> bool {
    let paused = deployment.flag("/spec/paused");
    let original = deployment.annotation("grayrollout.dev/original");
    let kept: Value = original.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    let held = match status.text("/hold") {
        "Admission" => !paused && original.is_none(),
        "Paused" => paused && original.is_some() && kept.at("/strategy").is_null(),
        _ => false,
    };
    held && deployment.text("/spec/strategy/type") == "RollingUpdate"
        && deployment.annotation("grayrollout.dev/rollout").is_none()
}

fn find_event<'a>(now: &'a Snapshot, name: &str, reason: &str) -> Option<&'a Value> {
    now.all(Kind::Event)
        .find(|event| event.text("/involvedObject/name") == name && event.text("/reason") == reason)
}
