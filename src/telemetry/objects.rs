//! The gauges of single GrayRollouts, written from the index at each scrape: nothing is kept twice,
//! and a deleted object's series end with it.

use std::{fmt::Write, sync::Arc};

use super::metrics::Described;
use crate::{
    api::{ConditionStatus, ConditionType, Track},
    cluster::{index::Index, slim::ObjectKey},
    plan::{ReplicaSet, Rollout},
};

/// How many GrayRollouts go into one piece of text.
const CHUNK: usize = 256;

/// One family of gauges.
struct Family {
    name: &'static str,
    help: &'static str,
    /// Labels beside namespace and name.
    labels: &'static [&'static str],
    series: fn(&Rollout, &mut dyn Iterator<Item = &ReplicaSet>, &mut Lines<'_>),
}

const FAMILIES: [Family; 7] = [
    Family {
        name: "grayrollout_phase",
        help: "1 for the present phase.",
        labels: &["phase"],
        series: |rollout, _, lines| {
            if let Some(phase) = rollout.status.phase {
                lines.add(&format!(",phase=\"{}\"", phase.as_str()), 1.0);
            }
        },
    },
    Family {
        name: "grayrollout_stage",
        help: "The stage being moved to or held.",
        labels: &[],
        series: |rollout, _, lines| lines.while_rolling(rollout, rollout.status.stage, 1.0),
    },
    Family {
        name: "grayrollout_stages",
        help: "How many stages the rollout has.",
        labels: &[],
        series: |rollout, _, lines| lines.while_rolling(rollout, rollout.status.stages, 1.0),
    },
    Family {
        name: "grayrollout_desired_ratio",
        help: "Share of the pods that the stage asks for on the new revision.",
        labels: &[],
        series: |rollout, _, lines| {
            lines.while_rolling(rollout, rollout.status.desired_percent, 100.0);
        },
    },
    Family {
        name: "grayrollout_actual_ratio",
        help: "Share of the pods that run the new revision.",
        labels: &[],
        series: |rollout, _, lines| {
            lines.while_rolling(rollout, rollout.status.actual_percent, 100.0);
        },
    },
    Family {
        name: "grayrollout_replicas",
        help: "Pods by revision and state.",
        labels: &["track", "state"],
        series: replicas,
    },
    Family {
        name: "grayrollout_awaiting_approval_since_timestamp_seconds",
        help: "Since when the next stage waits for an approval.",
        labels: &[],
        series: awaiting,
    },
];

/// What the reference tells of these gauges.
pub fn described() -> impl Iterator<Item = Described> {
    FAMILIES.iter().map(|family| Described {
        name: family.name.to_owned(),
        kind: "gauge",
        labels: ["namespace", "name"]
            .iter()
            .chain(family.labels)
            .map(|label| (*label).to_owned())
            .collect(),
        help: family.help.to_owned(),
    })
}

/// The lines of one family.
struct Lines<'a> {
    text: &'a mut String,
    name: &'static str,
    namespace: &'a str,
    rollout: &'a str,
}

impl Lines<'_> {
    fn add(&mut self, labels: &str, value: f64) {
        let Self { name, namespace, rollout, .. } = self;
        // Names of Kubernetes objects need no escaping, and writing to a String cannot fail.
        let _ = writeln!(
            self.text,
            "{name}{{namespace=\"{namespace}\",name=\"{rollout}\"{labels}}} {value}"
        );
    }

    fn while_rolling(&mut self, rollout: &Rollout, value: Option<i32>, unit: f64) {
        if let (Some(_), Some(value)) = (rollout.status.stage, value) {
            self.add("", f64::from(value) / unit);
        }
    }
}

/// The gauges of every GrayRollout in the text format, piece by piece: the index is never locked
/// for long, and the whole is never in memory at once.
pub fn pieces(index: Arc<Index>) -> impl Iterator<Item = String> + Send {
    let keys: Arc<[ObjectKey]> = index.rollouts().into();
    FAMILIES.iter().flat_map(move |family| {
        let (index, keys) = (index.clone(), keys.clone());
        let header = format!("# HELP {0} {1}\n# TYPE {0} gauge\n", family.name, family.help);
        let starts = (0..keys.len()).step_by(CHUNK);
        let chunks = starts.map(move |start| {
            let mut text = String::new();
            for key in keys.iter().skip(start).take(CHUNK) {
                index.look(key, |rollout, replica_sets| {
                    let mut lines = Lines {
                        text: &mut text,
                        name: family.name,
                        namespace: &rollout.namespace,
                        rollout: &rollout.name,
                    };
                    (family.series)(rollout, replica_sets, &mut lines);
                });
            }
            text
        });
        std::iter::once(header).chain(chunks)
    })
}

fn replicas(
    rollout: &Rollout,
    replica_sets: &mut dyn Iterator<Item = &ReplicaSet>,
    lines: &mut Lines<'_>,
) {
    let status = &rollout.status;
    let names = [&status.stable, &status.update]
        .map(|track| track.as_ref().and_then(|t| t.replica_set.as_deref()));
    let mut other = Track::default();
    for rs in replica_sets.filter(|rs| !names.contains(&Some(rs.name.as_str()))) {
        other.desired += rs.replicas;
        other.current += rs.current;
        other.available += rs.available;
    }
    let tracks = [
        ("stable", status.stable.as_ref()),
        ("update", status.update.as_ref()),
        ("other", Some(&other)),
    ];
    for (track, counts) in tracks {
        let Some(counts) = counts else { continue };
        for (state, count) in [
            ("desired", counts.desired),
            ("current", counts.current),
            ("available", counts.available),
        ] {
            lines.add(&format!(",track=\"{track}\",state=\"{state}\""), f64::from(count));
        }
    }
}

fn awaiting(rollout: &Rollout, _: &mut dyn Iterator<Item = &ReplicaSet>, lines: &mut Lines<'_>) {
    let waits = rollout.status.conditions.iter().find(|condition| {
        condition.type_ == ConditionType::AwaitingApproval
            && condition.status == ConditionStatus::True
    });
    if let Some(condition) = waits {
        lines.add("", condition.last_transition_time.as_duration().as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cluster::slim::{Deployments, ReplicaSets, Rollouts, Slim};

    fn shop() -> Arc<Index> {
        let index = Index::new(0, |_| ());
        let rollout = json!({
            "metadata": {"namespace": "shop", "name": "web", "uid": "g", "resourceVersion": "1"},
            "spec": {"targetRef": {"name": "web"}, "stages": [{"percent": 100}]},
            "status": {
                "phase": "AwaitingApproval", "stage": 1, "stages": 3,
                "desiredPercent": 10, "actualPercent": 12,
                "stable": {"replicaSet": "web-a", "desired": 9, "current": 9, "available": 8},
                "update": {"replicaSet": "web-b", "desired": 1, "current": 1, "available": 1},
                "conditions": [{
                    "type": "AwaitingApproval", "status": "True", "reason": "StageReached",
                    "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
                }],
            },
        });
        index.put::<Rollouts>(serde_json::from_value(rollout).unwrap());
        let deployment = json!({
            "metadata": {"namespace": "shop", "name": "web", "uid": "d", "resourceVersion": "2"},
        });
        index.put::<Deployments>(serde_json::from_value(deployment).unwrap());
        for (name, replicas) in [("web-a", 9), ("web-b", 1), ("web-c", 2)] {
            let set: Slim<ReplicaSets> = serde_json::from_value(json!({
                "metadata": {
                    "namespace": "shop", "name": name, "uid": name, "resourceVersion": "3",
                    "ownerReferences": [{
                        "apiVersion": "apps/v1", "kind": "Deployment", "uid": "d", "controller": true,
                    }],
                },
                "spec": {"replicas": replicas},
                "status": {"replicas": 1},
            }))
            .unwrap();
            index.put(set);
        }
        index
    }

    #[test]
    fn every_gauge_is_there_while_something_rolls_out() {
        let text: String = pieces(shop()).collect();
        let of = "namespace=\"shop\",name=\"web\"";
        for line in [
            format!("grayrollout_phase{{{of},phase=\"AwaitingApproval\"}} 1"),
            format!("grayrollout_stage{{{of}}} 1"),
            format!("grayrollout_stages{{{of}}} 3"),
            format!("grayrollout_desired_ratio{{{of}}} 0.1"),
            format!("grayrollout_actual_ratio{{{of}}} 0.12"),
            format!("grayrollout_replicas{{{of},track=\"stable\",state=\"available\"}} 8"),
            format!("grayrollout_replicas{{{of},track=\"update\",state=\"desired\"}} 1"),
            format!("grayrollout_replicas{{{of},track=\"other\",state=\"desired\"}} 2"),
            format!("grayrollout_replicas{{{of},track=\"other\",state=\"current\"}} 1"),
            format!("grayrollout_awaiting_approval_since_timestamp_seconds{{{of}}} 1767225600"),
        ] {
            assert!(text.lines().any(|l| l == line), "{line} is missing in\n{text}");
        }
    }

    #[test]
    fn a_deleted_objects_series_end() {
        let index = shop();
        index.remove::<Rollouts>(&ObjectKey::new("shop", "web"), "g");
        let text: String = pieces(index).collect();
        assert!(text.lines().all(|line| line.starts_with('#')), "{text}");
        assert_eq!(text.matches("# TYPE").count(), 7);
    }
}
