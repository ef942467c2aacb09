//! What a Deployment and its GrayRollout allow at one moment.

use serde_json::Value;

use crate::{
    Json, Snapshot,
    snapshot::{controller, same_template},
};

/// One Deployment with all that belongs to it.
pub(super) struct Facts<'a> {
    pub deployment: &'a Value,
    pub gr: &'a Value,
    pub sets: Vec<&'a Value>,
}

impl<'a> Facts<'a> {
    /// The facts about the Deployment that controls a ReplicaSet, if there is one.
    pub fn of_set(snapshot: &'a Snapshot, set: &Value) -> Option<Self> {
        let owner = controller(set)?;
        let deployment = snapshot
            .all(crate::Kind::Deployment)
            .find(|deployment| deployment.text("/metadata/uid") == owner)?;
        Some(Self::of(snapshot, deployment))
    }

    pub fn of(snapshot: &'a Snapshot, deployment: &'a Value) -> Self {
        let name = deployment.text("/metadata/name");
        Self {
            deployment,
            gr: snapshot.gr_of(name).unwrap_or(&Value::Null),
            sets: snapshot.replica_sets(deployment),
        }
    }

    /// Whether a GrayRollout works on this very Deployment.
    pub fn managed(&self) -> bool {
        let uid = self.deployment.text("/metadata/uid");
        !self.gr.is_null() && self.gr.text("/status/targetUID") == uid
    }

    pub fn replicas(&self) -> i64 {
        self.deployment.int("/spec/replicas")
    }

    pub fn new_set(&self) -> Option<&'a Value> {
        self.sets.iter().find(|set| same_template(set, self.deployment)).copied()
    }

    /// Pods asked of all revisions together.
    pub fn asked(&self) -> i64 {
        self.sets.iter().map(|set| set.int("/spec/replicas")).sum()
    }

    /// The strategy as the user has it.
    fn own_strategy(&self) -> Value {
        self.deployment
            .annotation("grayrollout.dev/original")
            .and_then(|text| serde_json::from_str::<Value>(text).ok())
            .map(|original| original.at("/strategy").clone())
            .filter(Value::is_object)
            .unwrap_or_else(|| self.deployment.at("/spec/strategy").clone())
    }

    fn own(&self, field: &str, replicas: i64, up: bool) -> i64 {
        let strategy = self.own_strategy();
        let value = strategy.at(&format!("/rollingUpdate/{field}"));
        resolve(value, replicas, up).unwrap_or_else(|| share(25, replicas, up))
    }

    /// Most pods above R.
    pub fn surge(&self, replicas: i64) -> i64 {
        resolve(self.gr.at("/spec/maxSurge"), replicas, true)
            .unwrap_or_else(|| self.own("maxSurge", replicas, true))
    }

    /// Most pods of R that may be missing.
    pub fn unavailable(&self, replicas: i64) -> i64 {
        let asked = resolve(self.gr.at("/spec/maxUnavailable"), replicas, false);
        if self.surge(replicas) > 0 {
            return asked.unwrap_or(0);
        }
        asked.unwrap_or_else(|| self.own("maxUnavailable", replicas, false)).max(1)
    }

    /// Whether the operator leaves the sizes alone, with a reason that people are told.
    pub fn left_alone(&self) -> bool {
        self.gr.text("/status/phase") == "Stalled"
            && self.gr.list("/status/conditions").iter().any(|c| {
                c.text("/type") == "Stalled"
                    && ["StableLost", "TargetConflict", "UnsupportedStrategy", "InvalidTemplate"]
                        .contains(&c.text("/reason"))
            })
    }

    /// Most pods of the Deployment's template; `None` where nothing limits them.
    pub fn cap(&self, replicas: i64) -> Option<i64> {
        let status = self.gr.at("/status");
        let hash = self.new_set()?.text("/metadata/labels/pod-template-hash");
        let first = status.list("/conditions").iter().any(|c| c.text("/reason") == "FirstDeploy");
        if !self.managed() || first || hash == status.text("/stableRevision") {
            return None;
        }
        // A name that was foreseen may be taken; the status names the other one a moment later.
        let foreseen = status.text("/updateRevision");
        let mut sets = self.sets.iter();
        let is = |set: &&Value| set.text("/metadata/labels/pod-template-hash") == foreseen;
        if hash != foreseen && sets.any(is) {
            return Some(0);
        }
        let stage = match status.text("/phase") {
            "Completed" => return None,
            "RollingBack" | "RolledBack" => 0,
            _ => status.int("/stage"),
        };
        let by_stage = usize::try_from(stage - 1).map_or(0, |index| {
            let percents = status.list("/stagePercents");
            let percent = percents.get(index).and_then(Value::as_i64);
            let percent =
                percent.unwrap_or_else(|| self.gr.int(&format!("/spec/stages/{index}/percent")));
            count(replicas, percent, self.surge(replicas))
        });
        Some(by_stage.max(split_share(status.at("/split"), replicas)))
    }
}

/// New pods at a stage.
pub(super) fn count(replicas: i64, percent: i64, surge: i64) -> i64 {
    match (percent, replicas) {
        (100, _) | (_, 0) => replicas,
        (_, 1) => i64::from(surge > 0),
        _ => share(percent, replicas, true).clamp(1, replicas - 1),
    }
}

/// A split that is kept, carried over to another R.
fn split_share(split: &Value, replicas: i64) -> i64 {
    let (of, update) = (split.int("/replicas"), split.int("/update"));
    if of == 0 {
        return 0;
    }
    (update * replicas + of - 1) / of
}

fn share(percent: i64, replicas: i64, up: bool) -> i64 {
    (percent * replicas + if up { 99 } else { 0 }) / 100
}

fn resolve(value: &Value, replicas: i64, up: bool) -> Option<i64> {
    match value {
        Value::Number(count) => count.as_i64(),
        Value::String(text) => {
            let percent = text.strip_suffix('%')?.parse().ok()?;
            Some(share(percent, replicas, up))
        }
        _ => None,
    }
}
