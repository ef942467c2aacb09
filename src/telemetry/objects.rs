//! The gauges of single GrayRollouts, written from the index at each scrape: nothing is kept twice,
//! and a deleted object's series end with it.

use std::fmt::Write;

use crate::{
    api::{ConditionStatus, ConditionType, Track},
    cluster::index::Index,
    plan::{ReplicaSet, Rollout},
};

/// Name and meaning of each family, in the order of [`series`].
const FAMILIES: [(&str, &str); 7] = [
    ("grayrollout_phase", "1 for the present phase."),
    ("grayrollout_stage", "The stage being moved to or held."),
    ("grayrollout_stages", "How many stages the rollout has."),
    ("grayrollout_desired_ratio", "Share of the pods that the stage asks for on the new revision."),
    ("grayrollout_actual_ratio", "Share of the pods that run the new revision."),
    ("grayrollout_replicas", "Pods by revision and state."),
    (
        "grayrollout_awaiting_approval_since_timestamp_seconds",
        "Since when the next stage waits for an approval.",
    ),
];

/// Writes the gauges of every GrayRollout in the text format.
pub fn encode(index: &Index, text: &mut String) {
    let mut families: [String; 7] = Default::default();
    for key in index.rollouts() {
        // One at a time, so that a scrape never holds up the decisions.
        index.look(&key, |rollout, replica_sets| {
            series(rollout, replica_sets, &mut families);
        });
    }
    for ((name, help), lines) in FAMILIES.iter().zip(&families) {
        let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} gauge\n{lines}");
    }
}

fn series(
    rollout: &Rollout,
    replica_sets: &mut dyn Iterator<Item = &ReplicaSet>,
    families: &mut [String; 7],
) {
    let [phase, stage, stages, desired, actual, replicas, awaiting] = families;
    // Names of Kubernetes objects need no escaping.
    let labels = format!("namespace=\"{}\",name=\"{}\"", rollout.namespace, rollout.name);
    let line = |family: &mut String, index: usize, extra: &str, value: f64| {
        let name = FAMILIES.get(index).map_or("", |(name, _)| name);
        let _ = writeln!(family, "{name}{{{labels}{extra}}} {value}");
    };
    let status = &rollout.status;
    if let Some(name) = status.phase {
        line(phase, 0, &format!(",phase=\"{}\"", name.as_str()), 1.0);
    }
    if let Some(number) = status.stage {
        line(stage, 1, "", f64::from(number));
        if let Some(count) = status.stages {
            line(stages, 2, "", f64::from(count));
        }
        if let Some(percent) = status.desired_percent {
            line(desired, 3, "", f64::from(percent) / 100.0);
        }
        if let Some(percent) = status.actual_percent {
            line(actual, 4, "", f64::from(percent) / 100.0);
        }
    }
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
    for (track, counts) in tracks.into_iter().filter_map(|(n, t)| t.map(|t| (n, t))) {
        for (state, count) in [
            ("desired", counts.desired),
            ("current", counts.current),
            ("available", counts.available),
        ] {
            let extra = format!(",track=\"{track}\",state=\"{state}\"");
            line(replicas, 5, &extra, f64::from(count));
        }
    }
    let waits = status.conditions.iter().find(|condition| {
        condition.type_ == ConditionType::AwaitingApproval
            && condition.status == ConditionStatus::True
    });
    if let Some(condition) = waits {
        let since = condition.last_transition_time.as_duration().as_secs_f64();
        line(awaiting, 6, "", since);
    }
}
