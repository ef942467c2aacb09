//! S7 to S11: which ReplicaSets we make, write and delete, and what we do to the Deployment.

use serde_json::Value;

use super::{Step, Violation, facts::Facts};
use crate::{
    Json, Kind,
    snapshot::{controller, template},
};

pub(super) fn check_set(step: &Step<'_>) -> Vec<Violation> {
    let set = &step.stored.object;
    let mut found = Vec::new();
    let owner = controller(set).unwrap_or_default();
    let owned_by_live = step.after.all(Kind::Deployment).any(|deployment| {
        deployment.text("/metadata/uid") == owner
            && deployment.at("/metadata/deletionTimestamp").is_null()
    });
    if step.stored.deleted {
        let last = step.earlier.unwrap_or(set);
        let pods = last.int("/spec/replicas").max(last.int("/status/replicas"));
        if owned_by_live && pods > 0 {
            let text = format!("a ReplicaSet with {pods} pods was deleted");
            found.push(step.violation("S9", text));
        }
        return found;
    }
    let sized = step.changed("/spec/replicas") && step.ours(&["spec", "replicas"]);
    if sized && !owned_by_live {
        let text = "we wrote a ReplicaSet of a Deployment that is gone".to_owned();
        found.push(step.violation("S8", text));
    }
    if step.earlier.is_none() && made_by_us(set) {
        let twins = step.after.all(Kind::ReplicaSet).filter(|other| {
            made_by_us(other)
                && controller(other) == Some(owner)
                && template(other) == template(set)
        });
        let twins = twins.count();
        if twins > 1 {
            let text = format!("{twins} ReplicaSets of ours have the same template");
            found.push(step.violation("S7", text));
        }
    }
    found
}

/// Whether we created it: nobody else ever sets a ReplicaSet's selector.
fn made_by_us(set: &Value) -> bool {
    crate::writer(None, set, &["spec", "selector"]) == Some(crate::OPERATOR)
}

pub(super) fn check_deployment(step: &Step<'_>) -> Vec<Violation> {
    let mut found = Vec::new();
    let Some(earlier) = step.earlier.filter(|_| !step.stored.deleted) else {
        return found;
    };
    let now = &step.stored.object;
    if earlier.at("/metadata/uid") != now.at("/metadata/uid") {
        return found;
    }
    if step.changed("/spec/replicas") && step.ours(&["spec", "replicas"]) {
        found.push(step.violation("S11", "we wrote the Deployment's spec.replicas".into()));
    }
    let formed = step.changed("/spec/paused")
        || step.changed("/spec/strategy")
        || step.changed("/metadata/annotations/grayrollout.dev~1original");
    if formed && step.ours(form_field(step)) {
        found.extend(check_form(step, earlier, now));
    }
    found
}

/// The field whose owner tells who changed the form.
fn form_field(step: &Step<'_>) -> &'static [&'static str] {
    if step.changed("/spec/paused") {
        &["spec", "paused"]
    } else if step.changed("/spec/strategy") {
        &["spec", "strategy", "type"]
    } else {
        &["metadata", "annotations", "grayrollout.dev/original"]
    }
}

fn check_form(step: &Step<'_>, earlier: &Value, now: &Value) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut breach = |text: &str| found.push(step.violation("S10", text.to_owned()));
    let (was, is) = (original(earlier), original(now));
    let kept_strategy = !was.at("/strategy").is_null();
    let strategy = now.at("/spec/strategy");
    if kept_strategy && is.at("/strategy").is_null() && was.at("/strategy") != strategy {
        breach("the saved strategy was dropped without being restored");
    }
    if !was.is_null() && is.is_null() {
        if now.annotation("grayrollout.dev/rollout").is_some() {
            breach("grayrollout.dev/original went, grayrollout.dev/rollout stayed");
        }
        let mid_rollout = earlier.annotation("grayrollout.dev/rollout").is_some();
        if !mid_rollout && was.flag("/paused") != now.flag("/spec/paused") {
            breach("paused was not given back as it was");
        }
    }
    if now.flag("/spec/paused") {
        return found;
    }
    if strategy.text("/type") == "Recreate" {
        breach("unpaused while the strategy is our Recreate");
    }
    if earlier.flag("/spec/paused") {
        let facts = Facts::of(step.after, now);
        let hash = facts.new_set().map_or("", |set| set.text("/metadata/labels/pod-template-hash"));
        let status = facts.gr.at("/status");
        let last = status.int("/stage") == status.int("/stages");
        if facts.managed() && hash != status.text("/stableRevision") && !last {
            breach("unpaused with a template that is not approved to the end");
        }
    }
    found
}

/// What grayrollout.dev/original holds; null where there is none.
fn original(deployment: &Value) -> Value {
    deployment
        .annotation("grayrollout.dev/original")
        .and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default()
}
