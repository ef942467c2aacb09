//! The objects of one namespace at one moment.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::{self, Write as _},
    sync::Arc,
};

use serde_json::Value;

use crate::{Json, Stored};

/// What is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// apps/v1 Deployment.
    Deployment,
    /// apps/v1 ReplicaSet.
    ReplicaSet,
    /// grayrollout.dev/v1alpha1 GrayRollout.
    GrayRollout,
    /// v1 Pod.
    Pod,
    /// v1 Event.
    Event,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 5] =
        [Self::Deployment, Self::ReplicaSet, Self::GrayRollout, Self::Pod, Self::Event];

    /// apiVersion and plural.
    pub fn resource(self) -> (&'static str, &'static str) {
        match self {
            Self::Deployment => ("apps/v1", "deployments"),
            Self::ReplicaSet => ("apps/v1", "replicasets"),
            Self::GrayRollout => ("grayrollout.dev/v1alpha1", "grayrollouts"),
            Self::Pod => ("v1", "pods"),
            Self::Event => ("v1", "events"),
        }
    }
}

/// The pods of a Deployment, as asked for in its ReplicaSets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Split {
    /// Pods asked of the ReplicaSet of the Deployment's template.
    pub new: i64,
    /// Pods asked of all others.
    pub old: i64,
}

/// The objects of one namespace at one moment.
#[derive(Clone, Default)]
pub struct Snapshot {
    objects: BTreeMap<(Kind, String), Arc<Value>>,
    ended: BTreeSet<String>,
}

impl Snapshot {
    /// Takes one stored state in.
    pub fn apply(&mut self, stored: &Stored) {
        let key = (stored.kind, stored.name().to_owned());
        if stored.deleted {
            self.objects.remove(&key);
            self.ended.insert(stored.object.text("/metadata/uid").to_owned());
        } else {
            self.objects.insert(key, Arc::clone(&stored.object));
        }
    }

    /// Whether an object has come to its end.
    pub fn has_ended(&self, uid: &str) -> bool {
        self.ended.contains(uid)
    }

    /// One object.
    pub fn get(&self, kind: Kind, name: &str) -> Option<&Value> {
        self.objects.get(&(kind, name.to_owned())).map(AsRef::as_ref)
    }

    /// All objects of a kind.
    pub fn all(&self, kind: Kind) -> impl Iterator<Item = &Value> {
        self.objects
            .range((kind, String::new())..)
            .take_while(move |((at, _), _)| *at == kind)
            .map(|(_, object)| object.as_ref())
    }

    /// A Deployment; null where there is none.
    pub fn deployment(&self, name: &str) -> &Value {
        self.get(Kind::Deployment, name).unwrap_or(&Value::Null)
    }

    /// A GrayRollout; null where there is none.
    pub fn gr(&self, name: &str) -> &Value {
        self.get(Kind::GrayRollout, name).unwrap_or(&Value::Null)
    }

    /// The GrayRollout that works on a Deployment: the oldest that names it.
    pub fn gr_of(&self, deployment: &str) -> Option<&Value> {
        self.all(Kind::GrayRollout)
            .filter(|gr| gr.text("/spec/targetRef/name") == deployment)
            .min_by_key(|gr| {
                let conflict = gr
                    .list("/status/conditions")
                    .iter()
                    .any(|c| c.text("/reason") == "TargetConflict");
                (conflict, gr.text("/metadata/creationTimestamp").to_owned())
            })
    }

    /// The ReplicaSets that the Deployment controls, oldest first.
    pub fn replica_sets(&self, deployment: &Value) -> Vec<&Value> {
        let uid = deployment.text("/metadata/uid");
        let mut sets: Vec<&Value> =
            self.all(Kind::ReplicaSet).filter(|set| controller(set) == Some(uid)).collect();
        sets.sort_by_key(|set| {
            (set.text("/metadata/creationTimestamp"), set.text("/metadata/name"))
        });
        sets
    }

    /// The ReplicaSet of the Deployment's template.
    pub fn new_set(&self, deployment: &Value) -> Option<&Value> {
        self.replica_sets(deployment).into_iter().find(|set| same_template(set, deployment))
    }

    /// How the pods of a Deployment are split between its template and all others.
    pub fn split(&self, deployment: &str) -> Split {
        let deployment = self.deployment(deployment);
        let new = self.new_set(deployment).map_or(0, |set| set.int("/spec/replicas"));
        let all: i64 =
            self.replica_sets(deployment).iter().map(|set| set.int("/spec/replicas")).sum();
        Split { new, old: all - new }
    }

    /// Pods asked of the ReplicaSet of an image such as `v2`.
    pub fn asked(&self, deployment: &str, version: &str) -> i64 {
        self.sum(deployment, version, "/spec/replicas")
    }

    /// Pods that the ReplicaSet of an image such as `v2` counts as available.
    pub fn available(&self, deployment: &str, version: &str) -> i64 {
        self.sum(deployment, version, "/status/availableReplicas")
    }

    fn sum(&self, deployment: &str, version: &str, pointer: &str) -> i64 {
        let image = format!("app:{version}");
        self.replica_sets(self.deployment(deployment))
            .iter()
            .filter(|set| set.text("/spec/template/spec/containers/0/image") == image)
            .map(|set| set.int(pointer))
            .sum()
    }

    /// Whether a GrayRollout's status tells what there is of the revisions that it speaks of.
    pub fn told(&self, name: &str) -> bool {
        let gr = self.gr(name);
        let sets = self.replica_sets(self.deployment(gr.text("/spec/targetRef/name")));
        ["/status/stable", "/status/update"].iter().all(|track| {
            let told = gr.at(track);
            let set =
                sets.iter().find(|set| set.text("/metadata/name") == told.text("/replicaSet"));
            set.is_none_or(|set| {
                told.int("/current") == set.int("/status/replicas")
                    && told.int("/available") == set.int("/status/availableReplicas")
            })
        })
    }

    /// Whether every ReplicaSet of a Deployment has exactly the pods it asks for, all available.
    pub fn settled(&self, deployment: &str) -> bool {
        self.replica_sets(self.deployment(deployment)).iter().all(|set| {
            let asked = set.int("/spec/replicas");
            set.int("/status/replicas") == asked && set.int("/status/availableReplicas") == asked
        })
    }
}

/// UID of the object that controls this one.
pub fn controller(object: &Value) -> Option<&str> {
    object
        .list("/metadata/ownerReferences")
        .iter()
        .find(|owner| owner.flag("/controller"))
        .map(|owner| owner.text("/uid"))
}

/// Whether a ReplicaSet's template is the Deployment's, but for the label pod-template-hash.
pub fn same_template(set: &Value, deployment: &Value) -> bool {
    template(set) == template(deployment)
}

/// The pod template without the label pod-template-hash.
pub fn template(object: &Value) -> Value {
    object
        .at("/spec/template")
        .clone()
        .with(serde_json::json!({"metadata": {"labels": {"pod-template-hash": null}}}))
}

impl fmt::Display for Snapshot {
    /// A line for each Deployment, ReplicaSet and GrayRollout.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for kind in [Kind::Deployment, Kind::ReplicaSet, Kind::GrayRollout] {
            for object in self.all(kind) {
                writeln!(f, "    {}", one_line(kind, object))?;
            }
        }
        Ok(())
    }
}

/// What matters of an object, in one line.
pub fn one_line(kind: Kind, object: &Value) -> String {
    let name = object.text("/metadata/name");
    let (spec, status) = (object.at("/spec"), object.at("/status"));
    let mut line = String::new();
    let _ = match kind {
        Kind::Deployment => {
            let rolling = spec.at("/strategy/rollingUpdate");
            let _ = write!(
                line,
                "deploy/{name} R={} gen={}/{} {}{} image={}",
                spec.int("/replicas"),
                status.int("/observedGeneration"),
                object.int("/metadata/generation"),
                if spec.flag("/paused") { "paused " } else { "" },
                spec.text("/strategy/type"),
                spec.text("/template/spec/containers/0/image"),
            );
            if !rolling.is_null() {
                let _ = write!(
                    line,
                    "{{{},{}}}",
                    rolling.at("/maxSurge"),
                    rolling.at("/maxUnavailable")
                );
            }
            for key in ["grayrollout.dev/rollout", "grayrollout.dev/original"] {
                if let Some(value) = object.annotation(key) {
                    let _ = write!(line, " {key}={value}");
                }
            }
            Ok(())
        }
        Kind::ReplicaSet => write!(
            line,
            "rs/{name} spec={} current={} available={} gen={}/{} desired={} max={} image={}",
            spec.int("/replicas"),
            status.int("/replicas"),
            status.int("/availableReplicas"),
            status.int("/observedGeneration"),
            object.int("/metadata/generation"),
            object.annotation("deployment.kubernetes.io/desired-replicas").unwrap_or("-"),
            object.annotation("deployment.kubernetes.io/max-replicas").unwrap_or("-"),
            spec.text("/template/spec/containers/0/image"),
        ),
        Kind::GrayRollout => {
            let conditions: Vec<String> = status
                .list("/conditions")
                .iter()
                .map(|c| format!("{}={}/{}", c.text("/type"), c.text("/status"), c.text("/reason")))
                .collect();
            write!(
                line,
                "gr/{name} {} rollout={} stage={}/{} approval={} abort={} retry={} split={} [{}] {:?}",
                status.text("/phase"),
                status.at("/rollout"),
                status.at("/stage"),
                status.at("/stages"),
                status.at("/approval"),
                status.at("/abort"),
                status.at("/retry"),
                status.at("/split"),
                conditions.join(" "),
                status.text("/message"),
            )
        }
        Kind::Pod => write!(line, "pod/{name} {}", status.text("/phase")),
        Kind::Event => write!(
            line,
            "event {}/{} {}: {}",
            object.text("/involvedObject/kind"),
            object.text("/involvedObject/name"),
            object.text("/reason"),
            object.text("/message")
        ),
    };
    line
}
