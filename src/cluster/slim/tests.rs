use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::plan::{RollingUpdate, Strategy as Rolling};

fn deployment(value: &Value) -> crate::plan::Target {
    serde_json::from_str::<Slim<Deployments>>(&value.to_string()).unwrap().object
}

fn replica_set(value: &Value) -> crate::plan::ReplicaSet {
    serde_json::from_str::<Slim<ReplicaSets>>(&value.to_string()).unwrap().object
}

fn rollout(value: &Value) -> crate::plan::Rollout {
    serde_json::from_str::<Slim<Rollouts>>(&value.to_string()).unwrap().object
}

#[test]
fn a_deployment_is_read() {
    let read = deployment(&json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {
            "namespace": "shop", "name": "web", "uid": "u-1", "generation": 4,
            "resourceVersion": "77",
            "managedFields": [{"fieldsV1": {"f:metadata": {}}}],
            "annotations": {
                "grayrollout.dev/original": r#"{"name":"g","uid":"u-2","strategy":{"type":"RollingUpdate","rollingUpdate":{"maxSurge":1,"maxUnavailable":"10%"}}}"#,
                "grayrollout.dev/rollout": "g",
            },
        },
        "spec": {
            "replicas": 10, "paused": true, "progressDeadlineSeconds": 600, "revisionHistoryLimit": 0,
            "strategy": {"type": "Recreate"},
            "template": {"metadata": {"labels": {"pod-template-hash": "x"}}},
        },
        "status": {"observedGeneration": 3},
    }));
    assert_eq!((read.namespace.as_str(), read.name.as_str()), ("shop", "web"));
    assert_eq!((read.generation, read.observed_generation), (4, 3));
    assert_eq!((read.replicas, read.paused), (10, true));
    assert_eq!(read.strategy, Rolling::Recreate);
    assert!(read.template_labelled);
    assert_eq!(read.revision_history_limit, Some(0));
    let original = read.original.unwrap().unwrap();
    assert_eq!(original.uid, "u-2");
    assert_eq!(
        original.strategy,
        Some(Rolling::RollingUpdate {
            rolling_update: RollingUpdate {
                max_surge: 1.into(),
                max_unavailable: crate::api::IntOrPercent::Percent("10%".into()),
            }
        })
    );
    assert_eq!(read.rollout_annotation.as_deref(), Some("g"));
}

#[test]
fn a_replica_set_is_read() {
    let read = replica_set(&json!({
        "metadata": {
            "name": "web-1", "uid": "u-3", "generation": 2, "resourceVersion": "9",
            "creationTimestamp": "2026-01-02T03:04:05Z",
            "deletionTimestamp": "2026-01-02T03:04:06Z",
            "labels": {"app": "web", "pod-template-hash": "abc"},
            "annotations": {
                "deployment.kubernetes.io/desired-replicas": "10",
                "deployment.kubernetes.io/max-replicas": "many",
            },
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "Deployment", "uid": "not-it"},
                {"apiVersion": "apps/v1", "kind": "Deployment", "uid": "u-1", "controller": true},
            ],
        },
        "spec": {"replicas": 3},
        "status": {
            "observedGeneration": 2, "replicas": 3, "availableReplicas": 2, "terminatingReplicas": 1,
            "conditions": [
                {"type": "Other", "status": "True", "message": "no"},
                {"type": "ReplicaFailure", "status": "True", "message": "exceeded quota"},
            ],
        },
    }));
    assert_eq!(read.owner_uid, "u-1", "only a controller owns");
    assert_eq!(read.revision, "abc");
    assert_eq!(read.created.to_string(), "2026-01-02T03:04:05Z");
    assert!(read.deleting);
    assert_eq!((read.desired_annotation, read.max_annotation), (Some(10), None));
    assert_eq!((read.replicas, read.current, read.available, read.terminating), (3, 3, 2, 1));
    assert_eq!(read.failure.as_deref(), Some("exceeded quota"));
}

#[test]
fn anothers_replica_set_is_nobodys() {
    for owner in [
        json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "uid": "u", "controller": true}),
        json!({"apiVersion": "example.com/v1", "kind": "Deployment", "uid": "u", "controller": true}),
    ] {
        let read = replica_set(&json!({"metadata": {"ownerReferences": [owner]}}));
        assert_eq!(read.owner_uid, "");
    }
}

#[test]
fn a_deployment_and_its_replica_set_have_the_same_fingerprint() {
    let target = deployment(&json!({"spec": {"template": {
        "metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "a"}]}}}}));
    let owned = replica_set(&json!({"spec": {"template": {
        "spec": {"containers": [{"name": "a"}]},
        "metadata": {"creationTimestamp": null, "labels": {"pod-template-hash": "x", "app": "web"}}}}}));
    assert_eq!(target.template, owned.template);
    assert!(!target.template_labelled);
}

#[test]
fn a_spec_that_cannot_be_read_says_why_and_keeps_its_target() {
    let read = rollout(&json!({
        "metadata": {"namespace": "shop", "name": "web", "generation": 7},
        "spec": {"targetRef": {"name": "web"}, "stages": "all"},
        "status": {"rollout": 3},
    }));
    let error = read.spec.unwrap_err();
    assert!(error.contains("stages") || error.contains("sequence"), "{error}");
    assert_eq!(read.target_name, "web");
    assert_eq!(read.status.rollout, Some(3));
    assert_eq!(read.generation, 7);
}

#[test]
fn a_status_that_cannot_be_read_counts_as_lost() {
    let read = rollout(&json!({
        "spec": {"targetRef": {"name": "web"}, "stages": [{"percent": 100}]},
        "status": {"rollout": "three", "phase": "Dancing"},
    }));
    assert_eq!(read.status, crate::api::GrayRolloutStatus::default());
    assert_eq!(read.spec.unwrap().stages.len(), 1);
}

#[test]
fn odd_numbers_are_cut_to_what_makes_sense() {
    let read = deployment(&json!({"spec": {"replicas": -4}}));
    assert_eq!(read.replicas, 0);
    let read =
        deployment(&json!({"spec": {"replicas": 99_999_999_999_i64, "strategy": {"type": "New"}}}));
    assert_eq!(read.replicas, i32::MAX);
    assert_eq!(read.strategy, Rolling::Other);
    let read = replica_set(&json!({"status": {"availableReplicas": -1, "replicas": 1.5}}));
    assert_eq!((read.available, read.current), (0, 1));
}

#[test]
fn being_deleted_is_seen() {
    let slim: Slim<Rollouts> =
        serde_json::from_value(json!({"metadata": {"deletionTimestamp": "2026-01-02T03:04:06Z"}}))
            .unwrap();
    assert!(slim.deleting);
}

/// JSON in which the words that are read stand at many places.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,6}".prop_map(Value::from),
        Just(json!("{\"name\": 3}")),
    ];
    let word = proptest::sample::select(vec![
        "metadata",
        "spec",
        "status",
        "name",
        "uid",
        "annotations",
        "labels",
        "ownerReferences",
        "controller",
        "template",
        "replicas",
        "strategy",
        "type",
        "rollingUpdate",
        "conditions",
        "targetRef",
        "stages",
        "percent",
        "approval",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "resourceVersion",
        "grayrollout.dev/original",
        "message",
        "deployment.kubernetes.io/desired-replicas",
        "pod-template-hash",
        "availableReplicas",
    ]);
    leaf.prop_recursive(6, 96, 8, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::vec((word.clone(), inner), 0..8).prop_map(|entries| {
                Value::Object(entries.into_iter().map(|(k, v)| (k.to_owned(), v)).collect())
            }),
        ]
    })
}

type Event<K> = kube::core::WatchEvent<Slim<K>>;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn no_json_ends_a_watch(metadata in any_json(), spec in any_json(), status in any_json(), whole in any_json()) {
        let object = json!({"metadata": metadata, "spec": spec, "status": status});
        for value in [&object, &whole] {
            let event = json!({"type": "MODIFIED", "object": value}).to_string();
            prop_assert!(serde_json::from_str::<Event<Rollouts>>(&event).is_ok());
            prop_assert!(serde_json::from_str::<Event<Deployments>>(&event).is_ok());
            prop_assert!(serde_json::from_str::<Event<ReplicaSets>>(&event).is_ok());
            let list = json!({"kind": "List", "metadata": {}, "items": [value]}).to_string();
            prop_assert!(serde_json::from_str::<kube::core::ObjectList<Slim<Deployments>>>(&list).is_ok());
        }
    }
}
