//! What is sent for a Deployment's annotation.

use super::*;
use crate::{cluster::slim::Rollouts, plan::AdoptionAction};

fn made(version: &str) -> Value {
    json!({
        "metadata": {
            "namespace": "shop", "name": "web", "uid": "g-1", "resourceVersion": version,
            "annotations": {"grayrollout.dev/stages": "10,100"},
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "Deployment", "uid": "d-1", "controller": true},
            ],
        },
        "spec": {"targetRef": {"name": "web"}, "stages": [{"percent": 10}, {"percent": 100}]},
    })
}

fn is_cached(api: &Api) -> bool {
    api.index.rollouts() == [ObjectKey::new("shop", "web")]
}

const PATH: &str = "/apis/grayrollout.dev/v1alpha1/namespaces/shop/grayrollouts";

#[tokio::test]
async fn it_is_made_with_its_owner_and_nothing_but_stages() {
    let api = Api::new(vec![(201, made("9"))]);
    let action = AdoptionAction::Create { stages: vec![10, 100] };
    api.applier.adopt(&target(), &action).await.unwrap();
    let (method, path, body) = api.sent().remove(0);
    assert_eq!((method.as_str(), path), ("POST", format!("{PATH}?&fieldManager=grayrollout")));
    assert_eq!(
        body,
        json!({
            "apiVersion": "grayrollout.dev/v1alpha1", "kind": "GrayRollout",
            "metadata": {
                "namespace": "shop", "name": "web",
                "annotations": {"grayrollout.dev/stages": "10,100"},
                "ownerReferences": [{
                    "apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "d-1",
                    "controller": true, "blockOwnerDeletion": true,
                }],
            },
            "spec": {
                "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
                "stages": [{"percent": 10}, {"percent": 100}],
            },
        })
    );
    assert!(is_cached(&api));
}

#[tokio::test]
async fn one_that_someone_made_meanwhile_is_looked_at_and_not_taken_over() {
    let api = Api::new(vec![failed(409, "AlreadyExists"), (200, made("9"))]);
    let action = AdoptionAction::Create { stages: vec![10, 100] };
    let error = api.applier.adopt(&target(), &action).await.unwrap_err();
    assert!(matches!(error, CallError::Conflict(_)), "{error:?}");
    assert_eq!(api.sent()[1].0, "GET");
    assert!(is_cached(&api));
}

#[tokio::test]
async fn an_edit_and_a_deletion_are_of_the_one_that_was_seen() {
    let api = Api::new(vec![(200, made("10")), (200, json!({"kind": "Status"}))]);
    let (uid, resource_version) = (String::from("g-1"), String::from("9"));
    let apply = AdoptionAction::Apply {
        uid: uid.clone(),
        resource_version: resource_version.clone(),
        stages: vec![10, 100],
    };
    api.applier.adopt(&target(), &apply).await.unwrap();
    assert!(is_cached(&api));
    let delete = AdoptionAction::Delete { uid, resource_version };
    api.applier.adopt(&target(), &delete).await.unwrap();
    assert_eq!(api.index.rollouts(), []);
    let sent = api.sent();
    assert_eq!(sent[0].0, "PATCH");
    assert!(sent[0].1.contains("force=true"), "the annotation counts: {}", sent[0].1);
    assert_eq!(sent[0].2["metadata"]["uid"], "g-1");
    assert_eq!(sent[0].2["metadata"]["resourceVersion"], "9");
    assert_eq!(sent[1].0, "DELETE");
    assert_eq!(sent[1].2["preconditions"], json!({"uid": "g-1", "resourceVersion": "9"}));
    // Gone is gone: late news of it is old.
    api.index.put::<Rollouts>(serde_json::from_value(made("11")).unwrap());
    assert_eq!(api.index.rollouts(), []);
}

#[tokio::test]
async fn an_edit_of_one_that_changed_meanwhile_is_planned_again() {
    let api = Api::new(vec![failed(409, "Conflict"), (200, made("10"))]);
    let (uid, resource_version) = ("g-1".into(), "9".into());
    let apply = AdoptionAction::Apply { uid, resource_version, stages: vec![10, 100] };
    let error = api.applier.adopt(&target(), &apply).await.unwrap_err();
    assert!(matches!(error, CallError::Conflict(_)), "{error:?}");
    assert_eq!(api.sent()[1].0, "GET");
    assert!(is_cached(&api));
}
