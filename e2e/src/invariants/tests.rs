//! Made-up histories that break one rule each, so that it is known that the check would complain.

use std::{sync::Arc, time::Duration};

use serde_json::{Map, Value, json};

use super::{Context, check};
use crate::{Json, Kind, OPERATOR, Stored, deployment, grayrollout};

const NATIVE: &str = "kube-controller-manager";
const USER: &str = "kubectl-patch";

/// A history that is told write by write.
#[derive(Clone, Default)]
struct Story {
    history: Vec<Stored>,
    at: Duration,
    context: Context,
}

impl Story {
    /// 10 pods, one of them new and approved: stage 1 of 10/50/100 is held.
    fn held() -> Self {
        let mut story = Self::default();
        story.context.up = vec![(Duration::ZERO, None)];
        let mut web = deployment("web", 10);
        web = web.with(json!({
            "metadata": {"uid": "d", "generation": 1, "annotations": {
                "grayrollout.dev/rollout": "web",
                "grayrollout.dev/original": original().to_string(),
            }},
            "spec": {
                "paused": true,
                "strategy": {"type": "Recreate"},
                "template": {"spec": {"containers": [{"name": "app", "image": "app:v2"}]}},
            },
            "status": {"observedGeneration": 1},
        }));
        story.write(Kind::Deployment, "web", USER, web);
        story.set("old", "v1", 9, NATIVE);
        story.set("new", "v2", 1, OPERATOR);
        let status = json!({
            "targetUID": "d", "phase": "AwaitingApproval", "message": "approve stage 2",
            "rollout": 2, "stage": 1, "stages": 3, "stagePercents": [10, 50, 100],
            "stableRevision": "old", "updateRevision": "new",
            "conditions": conditions("AwaitingApproval"),
        });
        let gr = grayrollout("web", &[10, 50, 100]);
        story.write(Kind::GrayRollout, "web", USER, gr.with(json!({"metadata": {"uid": "g"}})));
        story.write(Kind::GrayRollout, "web", OPERATOR, json!({ "status": status }));
        story.wait(5.0);
        story
    }

    fn wait(&mut self, seconds: f32) -> &mut Self {
        self.at += Duration::from_secs_f32(seconds);
        self
    }

    /// A settled ReplicaSet of the Deployment `web`.
    fn set(&mut self, name: &str, version: &str, size: i64, by: &str) -> &mut Self {
        let mut template = deployment("web", 0).at("/spec/template").clone();
        template["metadata"]["labels"]["pod-template-hash"] = json!(name);
        template["spec"]["containers"][0]["image"] = json!(format!("app:{version}"));
        let set = json!({
            "metadata": {
                "uid": name, "generation": 1, "labels": {"pod-template-hash": name},
                "ownerReferences": [{"uid": "d", "controller": true}],
            },
            "spec": {"replicas": size, "selector": {"of": name}, "template": template},
            "status": settled(size),
        });
        self.write(Kind::ReplicaSet, name, by, set)
    }

    fn size(&mut self, name: &str, size: i64, by: &str) -> &mut Self {
        let patch = json!({"metadata": {"generation": 2}, "spec": {"replicas": size}});
        self.write(Kind::ReplicaSet, name, by, patch)
    }

    fn gr_status(&mut self, by: &str, status: Value) -> &mut Self {
        self.write(Kind::GrayRollout, "web", by, json!({ "status": status }))
    }

    fn write(&mut self, kind: Kind, name: &str, by: &str, patch: Value) -> &mut Self {
        self.wait(0.01);
        let version = self.history.len() as u64 + 1;
        let now = self.last(kind, name);
        let mut fields = now.at("/metadata/managedFields").clone();
        own(&mut fields, by, &patch, self.at);
        let object = now.with(patch).with(json!({"metadata": {
            "name": name, "resourceVersion": version.to_string(), "managedFields": fields,
        }}));
        self.push(kind, false, object)
    }

    fn delete(&mut self, kind: Kind, name: &str) -> &mut Self {
        let object = self.last(kind, name);
        self.push(kind, true, object)
    }

    fn last(&self, kind: Kind, name: &str) -> Value {
        let mut all = self.history.iter().rev();
        all.find(|stored| stored.kind == kind && stored.name() == name)
            .map_or(Value::Null, |stored| stored.object.as_ref().clone())
    }

    fn push(&mut self, kind: Kind, deleted: bool, object: Value) -> &mut Self {
        self.history.push(Stored {
            version: self.history.len() as u64 + 1,
            at: self.at,
            kind,
            deleted,
            object: Arc::new(object),
        });
        self
    }

    /// The rules that the history breaks.
    fn broken(&mut self) -> Vec<&'static str> {
        self.context.end = self.at;
        let found = check(&self.history, &self.context);
        found.iter().map(|violation| violation.rule).collect()
    }
}

fn original() -> Value {
    json!({"name": "web", "uid": "g", "rollout": 2, "paused": false, "onDelete": "Hold",
        "strategy": strategy("25%")})
}

fn strategy(surge: &str) -> Value {
    json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": "25%"}})
}

fn settled(size: i64) -> Value {
    json!({"observedGeneration": 1, "replicas": size, "availableReplicas": size})
}

fn conditions(phase: &str) -> Value {
    let (moving, awaiting, reason) = match phase {
        "AwaitingApproval" => ("False", "True", "StageReached"),
        _ => ("True", "False", "StageMoving"),
    };
    let other = if phase == "Progressing" { "StageMoving" } else { phase };
    let ready = if phase == "Progressing" { "RolloutInProgress" } else { phase };
    let one = |kind: &str, status: &str, reason: &str| {
        json!({"type": kind, "status": status, "reason": reason, "observedGeneration": 1,
            "lastTransitionTime": "2026-01-01T00:00:00Z", "message": "m"})
    };
    json!([
        one("Ready", "False", ready),
        one("Progressing", moving, other),
        one("AwaitingApproval", awaiting, reason),
        one("Stalled", "False", other),
    ])
}

/// Gives what a patch sets to its writer, as the API server does.
fn own(entries: &mut Value, by: &str, patch: &Value, at: Duration) {
    if !entries.is_array() {
        *entries = json!([]);
    }
    let entries = entries.as_array_mut().unwrap();
    for entry in entries.iter_mut() {
        lose(&mut entry["fieldsV1"], &fields_of(patch, true));
    }
    let fields = fields_of(patch, false);
    let time = json!(format!("{:010}", at.as_secs()));
    if let Some(entry) = entries.iter_mut().find(|entry| entry["manager"] == by) {
        entry["time"] = time;
        entry["fieldsV1"] = entry["fieldsV1"].clone().with(fields);
    } else {
        entries.push(json!({"manager": by, "time": time, "fieldsV1": fields}));
    }
}

fn fields_of(patch: &Value, removed_too: bool) -> Value {
    let Value::Object(map) = patch else {
        return json!({});
    };
    let named = map.iter().filter(|(_, value)| removed_too || !value.is_null());
    let fields: Map<String, Value> =
        named.map(|(key, value)| (format!("f:{key}"), fields_of(value, removed_too))).collect();
    Value::Object(fields)
}

fn lose(fields: &mut Value, lost: &Value) {
    let (Some(fields), Some(lost)) = (fields.as_object_mut(), lost.as_object()) else {
        return;
    };
    for (key, below) in lost {
        if let Some(field) = fields.get_mut(key) {
            lose(field, below);
        }
        if *below == json!({}) || fields.get(key) == Some(&json!({})) {
            fields.remove(key);
        }
    }
}

#[test]
fn a_good_rollout_breaks_nothing() {
    let mut story = Story::held();
    story.gr_status(USER, json!({"approval": {"rollout": 2, "stage": 2}}));
    let moving =
        json!({"phase": "Progressing", "stage": 2, "conditions": conditions("Progressing")});
    story.gr_status(OPERATOR, moving).wait(2.0);
    story.size("new", 4, OPERATOR).wait(2.0);
    let available = json!({"observedGeneration": 2, "replicas": 4, "availableReplicas": 4});
    story.write(Kind::ReplicaSet, "new", NATIVE, json!({"status": available}));
    story.wait(2.0).size("old", 6, OPERATOR).wait(2.0);
    assert_eq!(story.broken(), [""; 0]);
}

#[test]
fn s1_more_new_pods_than_approved_by_us() {
    let mut story = Story::held();
    story.size("new", 2, OPERATOR);
    assert_eq!(story.broken(), ["S1"]);
    let first = check(&story.history, &story.context).remove(0).to_string();
    assert!(first.contains("we made 2 new pods where 1 are approved"), "{first}");
    assert!(first.contains("rs/new spec=1") && first.contains("rs/new spec=2"), "{first}");
}

#[test]
fn s1_a_new_set_before_anything_is_known_of_it() {
    let mut story = Story::held();
    let template = json!({"spec": {"template": {"spec": {"containers": [{"image": "app:v3"}]}}}});
    story.write(Kind::Deployment, "web", USER, template);
    story.set("newer", "v3", 1, OPERATOR);
    let mut set = story.last(Kind::ReplicaSet, "newer");
    set["spec"]["template"]["spec"]["containers"] = json!([{"image": "app:v3"}]);
    story.history.pop();
    story.write(Kind::ReplicaSet, "newer", OPERATOR, set);
    assert_eq!(story.broken(), ["S1"]);
}

#[test]
fn s1_more_new_pods_than_approved_by_others_for_long() {
    let mut story = Story::held();
    story.size("new", 3, NATIVE).wait(1.9);
    assert_eq!(story.broken(), [""; 0], "for a moment it may be");
    story.wait(1.0);
    assert_eq!(story.broken(), ["S1"]);
    story.context.up =
        vec![(Duration::ZERO, Some(story.at.saturating_sub(Duration::from_secs(2))))];
    assert_eq!(story.broken(), [""; 0], "nobody was there to put it right");
}

#[test]
fn s2_more_pods_than_the_surge_allows() {
    let mut story = Story::held();
    story.size("old", 12, OPERATOR);
    assert_eq!(story.broken(), [""; 0], "10 and 25% are 13");
    story.size("old", 13, OPERATOR);
    assert_eq!(story.broken(), ["S2"]);
}

#[test]
fn s2_terminating_pods_count_where_they_are_waited_for() {
    let mut story = Story::held();
    let terminating = json!({"status": {"terminatingReplicas": 3}});
    story.write(Kind::ReplicaSet, "old", NATIVE, terminating);
    let mut waiting = story.clone();
    story.size("old", 10, OPERATOR);
    assert_eq!(story.broken(), [""; 0]);
    let patch = json!({"spec": {"waitForTermination": true}});
    waiting.write(Kind::GrayRollout, "web", USER, patch);
    waiting.size("old", 10, OPERATOR);
    assert_eq!(waiting.broken(), ["S2"]);
}

#[test]
fn s3_fewer_available_pods_than_promised() {
    let mut story = Story::held();
    story.size("old", 8, OPERATOR);
    assert_eq!(story.broken(), ["S3"]);
}

#[test]
fn s3_a_change_too_young_to_be_known_is_no_breach() {
    let mut story = Story::held();
    story.set("old", "v1", 10, NATIVE).wait(5.0);
    let fewer = json!({"status": {"availableReplicas": 9}});
    story.write(Kind::ReplicaSet, "old", NATIVE, fewer);
    let mut later = story.clone();
    story.size("old", 9, OPERATOR);
    assert_eq!(story.broken(), [""; 0]);
    later.wait(5.0).size("old", 8, OPERATOR);
    assert_eq!(later.broken(), ["S3"]);
}

#[test]
fn s3_pods_that_have_just_become_unavailable_are_no_loss() {
    let mut story = Story::held();
    let fewer = json!({"status": {"availableReplicas": 8}});
    story.write(Kind::ReplicaSet, "old", NATIVE, fewer);
    let mut more = story.clone();
    story.size("old", 8, OPERATOR);
    assert_eq!(story.broken(), [""; 0]);
    more.size("old", 7, OPERATOR);
    assert_eq!(more.broken(), ["S3"]);
}

#[test]
fn s3_pods_on_their_way_out_do_not_count() {
    let mut story = Story::held();
    story.set("old", "v1", 11, NATIVE).wait(5.0);
    story.size("old", 9, OPERATOR).size("old", 11, OPERATOR);
    story.wait(5.0).size("new", 0, OPERATOR);
    assert_eq!(story.broken(), ["S3"], "the status of old still speaks of 11 from before");
}

#[test]
fn s4_back_a_stage_or_a_number() {
    let mut story = Story::held();
    story.gr_status(OPERATOR, json!({"stage": 2}));
    story.gr_status(OPERATOR, json!({"stage": 1}));
    assert_eq!(story.broken(), ["S4"]);
    let mut story = Story::held();
    story.gr_status(OPERATOR, json!({"rollout": 1}));
    assert_eq!(story.broken(), ["S4"]);
}

#[test]
fn s6_peoples_fields_changed_by_us() {
    for change in [json!({"rollout": 2, "stage": 3}), Value::Null] {
        let mut story = Story::held();
        story.gr_status(USER, json!({"approval": {"rollout": 2, "stage": 2}}));
        story.wait(2.0).gr_status(OPERATOR, json!({"approval": change, "message": "x"}));
        assert_eq!(story.broken(), ["S6"]);
    }
}

#[test]
fn s7_two_sets_of_ours_for_one_template() {
    let mut story = Story::held();
    story.set("twin", "v2", 0, OPERATOR);
    assert_eq!(story.broken(), ["S7"]);
}

#[test]
fn s8_a_write_to_a_set_of_another_deployment() {
    let mut story = Story::held();
    let other = json!({"metadata": {"uid": "other"}});
    story.write(Kind::Deployment, "web", USER, other);
    story.size("old", 7, OPERATOR);
    assert_eq!(story.broken(), ["S8"]);
}

#[test]
fn s9_a_set_with_pods_deleted() {
    let mut story = Story::held();
    story.delete(Kind::ReplicaSet, "new");
    assert_eq!(story.broken(), ["S9"]);
    let mut empty = Story::held();
    empty.set("empty", "v0", 0, NATIVE);
    empty.delete(Kind::ReplicaSet, "empty");
    assert_eq!(empty.broken(), [""; 0]);
}

#[test]
fn s10_unpaused_or_given_back_by_halves() {
    let unpaused = json!({"spec": {"paused": null}});
    let back = json!({"spec": {"paused": null, "strategy": strategy("25%")},
        "metadata": {"annotations": {
            "grayrollout.dev/rollout": null, "grayrollout.dev/original": null}}});
    let mut other = back.clone();
    other["spec"]["strategy"] = strategy("50%");
    let mut half = back.clone();
    half["metadata"]["annotations"] = json!({"grayrollout.dev/original": null});
    for patch in [unpaused, back, other, half] {
        let mut story = Story::held();
        story.write(Kind::Deployment, "web", OPERATOR, patch.clone());
        assert_eq!(story.broken().first(), Some(&"S10"), "{patch}");
    }
    let mut story = Story::held();
    story.write(Kind::Deployment, "web", USER, json!({"spec": {"paused": null}}));
    assert_eq!(story.broken(), [""; 0], "others may do as they please");
}

#[test]
fn s11_the_number_of_replicas_written_by_us() {
    let mut story = Story::held();
    story.write(Kind::Deployment, "web", OPERATOR, json!({"spec": {"replicas": 9}}));
    assert_eq!(story.broken(), ["S11"]);
}

#[test]
fn s17_completed_too_early() {
    let mut story = Story::held();
    let mut done = conditions("Completed");
    done[0]["status"] = json!("True");
    done[1]["status"] = json!("False");
    done[2]["reason"] = json!("Completed");
    story.gr_status(OPERATOR, json!({"phase": "Completed", "conditions": done}));
    assert_eq!(story.broken(), ["S17", "S17"], "old pods are there, and the form is ours");
}

#[test]
fn conditions_against_the_table() {
    let mut story = Story::held();
    story.gr_status(OPERATOR, json!({"phase": "Paused"}));
    assert_eq!(story.broken(), ["conditions", "conditions"]);
    let mut story = Story::held();
    let mut moved = conditions("AwaitingApproval");
    moved[0]["lastTransitionTime"] = json!("2026-01-01T00:00:09Z");
    story.gr_status(OPERATOR, json!({"conditions": moved}));
    assert_eq!(story.broken(), ["conditions"]);
}

#[test]
fn an_exempt_rule_is_not_reported() {
    let mut story = Story::held();
    story.delete(Kind::ReplicaSet, "new");
    story.context.exempt.push("S9");
    assert_eq!(story.broken(), [""; 0]);
}
