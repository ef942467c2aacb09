//! Manifests that the API server refuses, and what it tells the user to do.

use grayrollout_e2e::{Json, Test, grayrollout, run_without_operator};
use serde_json::{Value, json};

fn valid() -> Value {
    grayrollout("web", &[10, 50, 100])
}

fn percents(percents: &[i64]) -> Value {
    grayrollout("web", percents)
}

fn spec(patch: Value) -> Value {
    valid().with(json!({ "spec": patch }))
}

/// A manifest, and the part of the message that helps.
fn invalid() -> Vec<(Value, &'static str)> {
    let many: Vec<i64> = (1..=21).map(|stage| if stage == 21 { 100 } else { stage }).collect();
    vec![
        (percents(&[]), "should have at least 1 items"),
        (spec(json!({"stages": null})), "spec.stages: Required value"),
        (percents(&many), "must have at most 20 items"),
        (percents(&[10, 50]), "the last stage must have percent: 100"),
        (percents(&[50, 10, 100]), "every stage must have a higher percent than the one before it"),
        (percents(&[50, 50, 100]), "every stage must have a higher percent than the one before it"),
        (percents(&[0, 100]), "should be greater than or equal to 1"),
        (percents(&[10, 101]), "should be less than or equal to 100"),
        (spec(json!({"stages": [{"soakSeconds": 5}]})), "percent: Required value"),
        (
            spec(json!({"stages": [{"percent": 100, "soakSeconds": -1}]})),
            "soakSeconds in body should be greater than or equal to 0",
        ),
        (
            spec(json!({"stages": [{"percent": 100, "approval": "Maybe"}]})),
            r#"supported values: "Required", "Automatic""#,
        ),
        (spec(json!({"targetRef": null})), "spec.targetRef: Required value"),
        (spec(json!({"targetRef": {"name": ""}})), "should be at least 1 chars long"),
        (
            spec(json!({"targetRef": {"kind": "StatefulSet"}})),
            "only a Deployment can be rolled out",
        ),
        (
            spec(json!({"targetRef": {"apiVersion": "apps/v2"}})),
            "leave apiVersion and kind out, or set them to apps/v1 and Deployment",
        ),
        (
            spec(json!({"maxSurge": "many"})),
            r#"maxSurge must be a number of pods, 0 or more, or a percentage such as "25%""#,
        ),
        (spec(json!({"maxSurge": -1})), "maxSurge must be a number of pods, 0 or more"),
        (spec(json!({"maxUnavailable": "101%"})), r#"or a percentage from "0%" to "100%""#),
        (
            spec(json!({"maxSurge": "0%", "maxUnavailable": 0})),
            "cannot both be 0: no pod could ever be replaced; raise one of them",
        ),
        (
            spec(json!({"progressDeadlineSeconds": 0})),
            "progressDeadlineSeconds in body should be greater than or equal to 1",
        ),
        (
            spec(json!({"stepIntervalSeconds": -1})),
            "stepIntervalSeconds in body should be greater than or equal to 0",
        ),
        (spec(json!({"onFailure": "Retry"})), r#"supported values: "Pause", "Rollback""#),
        (spec(json!({"onDelete": "Keep"})), r#"supported values: "Hold", "Rollback", "Promote""#),
        (
            spec(json!({"approval": {"rollout": 1, "stage": 1}})),
            "spec.approval.revision: Required value",
        ),
        (
            spec(json!({"approval": {"rollout": 1, "stage": 4, "revision": "x"}})),
            "approval.stage names a stage that does not exist",
        ),
        (spec(json!({"paused": "yes"})), "must be of type boolean"),
    ]
}

/// Each of them is refused with a message that says what to do.
#[test]
fn invalid_manifests_are_refused() {
    run_without_operator(async |t: &Test| {
        for (manifest, helpful) in invalid() {
            let said = t.create_refused(&manifest).await;
            assert!(said.contains(helpful), "{}: {said}", manifest["spec"]);
        }
        t.create(&valid()).await;
    });
}

/// A field that does not exist is named, as kubectl asks the API server for it.
#[test]
fn a_mistyped_field_is_named() {
    run_without_operator(async |t: &Test| {
        let mistyped = spec(json!({"stage": [{"percent": 100}]}));
        let file = t.cluster.dir.join(format!("{}.json", t.namespace));
        std::fs::write(&file, mistyped.to_string()).unwrap();
        let said = t.kubectl_refused(&["create", "-f", file.to_str().unwrap()]).await;
        assert!(said.contains(r#"unknown field "spec.stage""#), "{said}");
    });
}

/// The target cannot be changed; everything else can.
#[test]
fn the_target_cannot_be_changed() {
    run_without_operator(async |t: &Test| {
        t.create(&valid()).await;
        let said = t
            .kubectl_refused(&[
                "patch",
                "gr",
                "web",
                "--type=merge",
                "-p",
                r#"{"spec":{"targetRef":{"name":"other"}}}"#,
            ])
            .await;
        assert!(said.contains("targetRef cannot be changed: delete this GrayRollout"), "{said}");
        let edited = json!({"spec": {"paused": true, "onDelete": "Promote", "maxSurge": 3}});
        t.patch_gr("web", &edited).await;
    });
}

/// What is left out has the documented default.
#[test]
fn defaults() {
    run_without_operator(async |t: &Test| {
        let made = t.create(&valid()).await;
        assert_eq!(made.text("/spec/targetRef/apiVersion"), "apps/v1");
        assert_eq!(made.text("/spec/targetRef/kind"), "Deployment");
        let listed = t.kubectl(&["get", "all", "-o", "name"]).await;
        assert!(listed.contains("grayrollout.grayrollout.dev/web"), "category all: {listed}");
    });
}
