//! S4, S6, S17 and the table of phases and conditions.

use serde_json::Value;

use super::{Step, Violation, facts::Facts, tracks::is_current};
use crate::Json;

pub(super) fn check(step: &Step<'_>) -> Vec<Violation> {
    let mut found = Vec::new();
    let now = &step.stored.object;
    if step.stored.deleted || now.at("/status").is_null() {
        return found;
    }
    for field in ["approval", "abort", "retry"] {
        let changed = step.changed(&format!("/status/{field}"));
        if changed && step.earlier.is_some() && step.ours(&["status", field]) {
            let text = format!("we changed status.{field}, which is for people to write");
            found.push(step.violation("S6", text));
        }
    }
    if let Some(earlier) = step.earlier {
        found.extend(forward(step, earlier.at("/status"), now.at("/status")));
        found.extend(transitions(step, earlier, now));
    }
    if step.changed("/status/conditions") || step.changed("/status/phase") {
        found.extend(table(step, now.at("/status")));
    }
    if now.text("/status/phase") == "Completed" && step.changed("/status/phase") {
        found.extend(completed(step, now));
    }
    found
}

fn forward(step: &Step<'_>, was: &Value, is: &Value) -> Vec<Violation> {
    let mut found = Vec::new();
    let (old, new) = (was.int("/rollout"), is.int("/rollout"));
    if new < old && step.ours(&["status", "rollout"]) {
        let text = format!("the rollout number went back from {old} to {new}");
        found.push(step.violation("S4", text));
    }
    let same = old == new && was.at("/targetUID") == is.at("/targetUID");
    if let (Some(from), Some(to)) = (was.at("/stage").as_i64(), is.at("/stage").as_i64())
        && same
        && to < from
    {
        let text = format!("the stage went back from {from} to {to} within rollout {new}");
        found.push(step.violation("S4", text));
    }
    found
}

fn condition<'a>(status: &'a Value, kind: &str) -> &'a Value {
    status.list("/conditions").iter().find(|c| c.text("/type") == kind).unwrap_or(&Value::Null)
}

const CONDITIONS: [&str; 4] = ["Ready", "Progressing", "AwaitingApproval", "Stalled"];

/// lastTransitionTime moves with the status of a condition and not otherwise.
fn transitions(step: &Step<'_>, earlier: &Value, now: &Value) -> Vec<Violation> {
    let mut found = Vec::new();
    for kind in CONDITIONS {
        let was = condition(earlier.at("/status"), kind);
        let is = condition(now.at("/status"), kind);
        if was.is_null() || is.is_null() {
            continue;
        }
        let moved = was.at("/lastTransitionTime") != is.at("/lastTransitionTime");
        let same = was.at("/status") == is.at("/status");
        if moved && same {
            let text = format!("{kind}: lastTransitionTime moved though the status did not");
            found.push(step.violation("conditions", text));
        }
    }
    found
}

/// What each condition must say in a phase: its status, and the reasons it may have.
fn expected(phase: &str) -> Option<[(&'static str, &'static [&'static str]); 4]> {
    const MOVING: &[&str] =
        &["StageMoving", "Soaking", "AwaitingChecks", "ScaledToZero", "FirstDeploy"];
    const STALLED: &[&str] = &[
        "ProgressDeadlineExceeded",
        "InvalidSpec",
        "InvalidTemplate",
        "UnsupportedStrategy",
        "TargetConflict",
        "ReplicaFailure",
        "ChecksFailed",
        "StableLost",
    ];
    /// Every reason will do.
    const ANY: &[&str] = &[];
    Some(match phase {
        "Pending" => [("False", &["TargetNotFound"]); 4],
        "Progressing" => {
            [("False", &["RolloutInProgress"]), ("True", MOVING), ("False", MOVING), ("False", ANY)]
        }
        "AwaitingApproval" => [
            ("False", &["AwaitingApproval"]),
            ("False", &["AwaitingApproval"]),
            ("True", &["StageReached"]),
            ("False", &["AwaitingApproval"]),
        ],
        "Paused" => [("False", &["Paused"]); 4],
        "Stalled" => {
            [("False", STALLED), ("False", STALLED), ("False", STALLED), ("True", STALLED)]
        }
        "RollingBack" => [
            ("False", &["RollingBack"]),
            ("True", &["RollingBack"]),
            ("False", &["RollingBack"]),
            ("False", &["RollingBack"]),
        ],
        "RolledBack" => [("False", &["RolledBack"]); 4],
        "Completed" => [
            ("", &["Completed", "PodsUnavailable"]),
            ("False", &["Completed"]),
            ("False", &["Completed"]),
            ("False", &["Completed"]),
        ],
        _ => return None,
    })
}

fn table(step: &Step<'_>, status: &Value) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut breach = |text: String| found.push(step.violation("conditions", text));
    let phase = status.text("/phase");
    let Some(row) = expected(phase) else {
        breach(format!("the phase {phase:?} does not exist"));
        return found;
    };
    for (kind, (value, reasons)) in CONDITIONS.into_iter().zip(row) {
        let is = condition(status, kind);
        let (said, reason) = (is.text("/status"), is.text("/reason"));
        let value = match value {
            "" if reason == "Completed" => "True",
            "" => "False",
            other => other,
        };
        if said != value || !(reasons.is_empty() || reasons.contains(&reason)) {
            breach(format!(
                "phase {phase} has {kind}={said:?}/{reason:?}, not {value}/{reasons:?}"
            ));
        }
        if is.at("/observedGeneration").is_null() {
            breach(format!("{kind} has no observedGeneration"));
        }
    }
    if status.text("/message").is_empty() {
        breach(format!("phase {phase} without a message"));
    }
    found
}

/// S17: what must be true at the moment a rollout is called completed.
fn completed(step: &Step<'_>, gr: &Value) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut breach = |text: &str| found.push(step.violation("S17", text.to_owned()));
    let deployment = step.after.deployment(gr.text("/spec/targetRef/name"));
    if deployment.is_null() {
        breach("completed without a Deployment");
        return found;
    }
    // Where even the native controller has not seen a change, the operator cannot have.
    if !is_current(deployment) {
        return found;
    }
    let facts = Facts::of(step.after, deployment);
    let new = facts.new_set();
    let size = new.map_or(0, |set| set.int("/spec/replicas"));
    if size != facts.replicas() || facts.asked() != size {
        breach("completed, but new is not all there is");
    }
    let was = step.earlier.unwrap_or(&Value::Null).at("/status");
    let last = was.int("/stage") > 0 && was.int("/stage") == was.int("/stages");
    let available = new.map_or(0, |set| set.int("/status/availableReplicas"));
    if last && was.text("/phase") == "Progressing" && available < facts.replicas() {
        breach("completed with pods that are not available");
    }
    if deployment.annotation("grayrollout.dev/rollout").is_some()
        || deployment.text("/spec/strategy/type") == "Recreate"
    {
        breach("completed before the Deployment was given back");
    }
    found
}
