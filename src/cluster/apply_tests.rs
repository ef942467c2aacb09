use std::{
    collections::VecDeque,
    convert::Infallible,
    sync::{Arc, Mutex},
};

use http::{Request as HttpRequest, Response};
use kube::{
    Client,
    client::{Body, ClientBuilder},
};
use serde_json::{Value, json};

use super::*;
use crate::{
    api::{OnDelete, RollingUpdate},
    cluster::leadership::{Leadership, Term},
    plan::Original,
};

/// A request that was sent: method, path with query, body.
type Sent = (String, String, Value);

/// An applier whose requests are written down and answered from a list.
struct Api {
    applier: Applier,
    index: Arc<Index>,
    leadership: Leadership,
    sent: Arc<Mutex<Vec<Sent>>>,
}

impl Api {
    fn new(answers: Vec<(u16, Value)>) -> Self {
        let sent: Arc<Mutex<Vec<Sent>>> = Arc::default();
        let answers = Arc::new(Mutex::new(VecDeque::from(answers)));
        let service = tower::service_fn({
            let sent = sent.clone();
            move |request: HttpRequest<Body>| {
                let (sent, answers) = (sent.clone(), answers.clone());
                async move {
                    let (parts, body) = request.into_parts();
                    let body = body.collect_bytes().await.unwrap();
                    let body = serde_json::from_slice(&body).unwrap_or_default();
                    let line = (parts.method.to_string(), parts.uri.to_string(), body);
                    sent.lock().unwrap().push(line);
                    let (code, answer) = answers.lock().unwrap().pop_front().unwrap();
                    let body = Body::from(answer.to_string().into_bytes());
                    Ok::<_, Infallible>(Response::builder().status(code).body(body).unwrap())
                }
            }
        });
        let client: Client = ClientBuilder::new(service, "default").build();
        let leadership = Leadership::new(Term::Forever);
        let index = Index::new(0, |_| ());
        let applier = Applier::new(Calls::new(client, leadership.clone()), index.clone());
        Self { applier, index, leadership, sent }
    }

    async fn apply(&self, action: Action) -> Result<Applied, CallError> {
        self.applier.apply(&target(), &action).await
    }

    fn sent(&self) -> Vec<Sent> {
        self.sent.lock().unwrap().clone()
    }

    fn cached(&self, name: &str) -> Option<String> {
        self.index.replica_set_uid(&ObjectKey::new("shop", name))
    }
}

fn deployment(version: &str, image: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"namespace": "shop", "name": "web", "uid": "d-1", "resourceVersion": version},
        "spec": {
            "replicas": 10, "selector": {"matchLabels": {"app": "web"}}, "minReadySeconds": 3,
            "template": template(image),
        },
    })
}

fn template(image: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "web", "image": image, "brandNew": true}]},
    })
}

fn replica_set(name: &str, uid: &str, owner: &str, image: &str) -> Value {
    let mut template = template(image);
    template["metadata"]["labels"]["pod-template-hash"] = json!("x");
    json!({
        "metadata": {
            "namespace": "shop", "name": name, "uid": uid, "resourceVersion": "8",
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "Deployment", "uid": owner, "controller": true},
            ],
        },
        "spec": {"replicas": 2, "template": template},
    })
}

fn target() -> Target {
    let slim: Slim<Deployments> = serde_json::from_value(deployment("7", "web:2")).unwrap();
    slim.object
}

fn failed(code: u16, reason: &str) -> (u16, Value) {
    (code, json!({"kind": "Status", "code": code, "reason": reason, "message": reason}))
}

fn not_found(name: &str) -> (u16, Value) {
    let (code, mut status) = failed(404, "NotFound");
    status["details"] = json!({ "name": name });
    (code, status)
}

fn scale() -> Action {
    Action::ScaleReplicaSet {
        name: "web-a".into(),
        uid: "r-1".into(),
        resource_version: "5".into(),
        replicas: 2,
        desired: Some(10),
        max: None,
    }
}

fn create() -> Action {
    Action::CreateReplicaSet {
        template: target().template,
        replicas: 1,
        desired: Some(10),
        max: None,
    }
}

fn patch() -> DeploymentPatch {
    DeploymentPatch {
        uid: "d-1".into(),
        resource_version: "7".into(),
        paused: None,
        strategy: None,
        original: AnnotationChange::Keep,
        rollout: AnnotationChange::Keep,
        template_of: None,
    }
}

#[tokio::test]
async fn scaling_names_the_object_it_was_planned_for() {
    let api = Api::new(vec![(200, replica_set("web-a", "r-1", "d-1", "web:1"))]);
    assert_eq!(api.apply(scale()).await.unwrap(), Applied::Written);
    let body = json!({
        "metadata": {
            "uid": "r-1", "resourceVersion": "5",
            "annotations": {
                "deployment.kubernetes.io/desired-replicas": "10",
                "deployment.kubernetes.io/max-replicas": null,
            },
        },
        "spec": {"replicas": 2},
    });
    let path = "/apis/apps/v1/namespaces/shop/replicasets/web-a?&fieldManager=grayrollout";
    assert_eq!(api.sent(), [("PATCH".to_owned(), path.to_owned(), body)]);
    assert_eq!(api.cached("web-a").as_deref(), Some("r-1"), "the answer is known at once");
}

#[tokio::test]
async fn after_a_conflict_the_object_is_known_as_it_is() {
    let fresh = replica_set("web-a", "r-1", "d-1", "web:1");
    let api = Api::new(vec![failed(409, "Conflict"), (200, fresh)]);
    let error = api.apply(scale()).await.unwrap_err();
    assert!(matches!(error, CallError::Conflict(_)), "{error:?}");
    assert_eq!(api.sent()[1].0, "GET");
    assert_eq!(api.cached("web-a").as_deref(), Some("r-1"));
}

#[tokio::test]
async fn what_is_gone_is_forgotten_and_planned_again() {
    for action in [
        scale(),
        Action::DeleteReplicaSet {
            name: "web-a".into(),
            uid: "r-1".into(),
            resource_version: "5".into(),
        },
    ] {
        let api = Api::new(vec![not_found("web-a")]);
        let mut known = replica_set("web-a", "r-1", "d-1", "web:1");
        known["metadata"]["resourceVersion"] = json!("5");
        api.index.put::<ReplicaSets>(serde_json::from_value(known).unwrap());
        let error = api.apply(action).await.unwrap_err();
        assert!(matches!(error, CallError::Conflict(_)), "{error:?}");
        assert_eq!(api.sent().len(), 1);
        assert_eq!(api.cached("web-a"), None);
    }
}

#[tokio::test]
async fn what_is_known_to_have_changed_is_planned_again_without_asking() {
    let api = Api::new(vec![]);
    let known = replica_set("web-a", "r-1", "d-1", "web:1");
    api.index.put::<ReplicaSets>(serde_json::from_value(known).unwrap());
    api.index.put::<Deployments>(serde_json::from_value(deployment("8", "web:2")).unwrap());
    api.index.put::<crate::cluster::slim::Rollouts>(
        serde_json::from_value(rollout("5", &json!({"rollout": 3}))).unwrap(),
    );
    let delete = Action::DeleteReplicaSet {
        name: "web-a".into(),
        uid: "r-1".into(),
        resource_version: "5".into(),
    };
    for action in [scale(), delete, Action::PatchDeployment(patch())] {
        let error = api.apply(action).await.unwrap_err();
        assert!(matches!(error, CallError::Conflict(_)), "{error:?}");
    }
    let before = seen("4", &json!({"rollout": 3}));
    let after = seen("4", &json!({"rollout": 4}));
    let error = api.applier.write_status(&before, &after.status).await.unwrap_err();
    assert!(matches!(error, CallError::Conflict(_)), "{error:?}");
    assert!(api.sent().is_empty());
    assert_eq!(api.cached("web-a").as_deref(), Some("r-1"));
}

#[tokio::test]
async fn deleting_has_both_preconditions() {
    let api = Api::new(vec![(200, json!({"kind": "Status", "status": "Success"}))]);
    let action = Action::DeleteReplicaSet {
        name: "web-a".into(),
        uid: "r-1".into(),
        resource_version: "5".into(),
    };
    api.apply(action).await.unwrap();
    let (method, _, body) = api.sent().remove(0);
    assert_eq!(method, "DELETE");
    assert_eq!(
        body,
        json!({
            "propagationPolicy": "Background",
            "preconditions": {"uid": "r-1", "resourceVersion": "5"},
        })
    );
}

#[tokio::test]
async fn a_deployments_strategy_is_replaced_as_a_whole() {
    let mut paused = deployment("8", "web:2");
    paused["spec"]["paused"] = true.into();
    paused["spec"]["strategy"] = json!({"type": "Recreate"});
    let api = Api::new(vec![(200, paused), (200, deployment("9", "web:2"))]);
    let moving = DeploymentPatch {
        paused: Some(true),
        strategy: Some(Strategy::Recreate),
        original: AnnotationChange::Set(Original {
            name: "web".into(),
            uid: "g-1".into(),
            rollout: 3,
            paused: false,
            strategy: None,
            stable: None,
            on_delete: OnDelete::Hold,
        }),
        rollout: AnnotationChange::Set("web".into()),
        ..patch()
    };
    api.apply(Action::PatchDeployment(moving)).await.unwrap();
    let back = DeploymentPatch {
        strategy: Some(Strategy::RollingUpdate { rolling_update: RollingUpdate::default() }),
        original: AnnotationChange::Remove,
        rollout: AnnotationChange::Remove,
        resource_version: "8".into(),
        ..patch()
    };
    api.apply(Action::PatchDeployment(back)).await.unwrap();
    let bodies: Vec<_> = api.sent().into_iter().map(|(_, _, body)| body).collect();
    let original = r#"{"name":"web","uid":"g-1","rollout":3,"paused":false,"onDelete":"Hold"}"#;
    assert_eq!(
        bodies,
        [
            json!({
                "metadata": {
                    "uid": "d-1", "resourceVersion": "7",
                    "annotations": {
                        "grayrollout.dev/original": original,
                        "grayrollout.dev/rollout": "web",
                    },
                },
                "spec": {"paused": true, "strategy": {"type": "Recreate", "rollingUpdate": null}},
            }),
            json!({
                "metadata": {
                    "uid": "d-1", "resourceVersion": "8",
                    "annotations": {
                        "grayrollout.dev/original": null,
                        "grayrollout.dev/rollout": null,
                    },
                },
                "spec": {"strategy": {
                    "type": "RollingUpdate",
                    "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"},
                }},
            }),
        ]
    );
}

/// Where a policy takes the operator for anyone else, it is told instead of tried again and again.
#[tokio::test]
async fn what_a_policy_undoes_is_an_error() {
    let api = Api::new(vec![(200, deployment("8", "web:2"))]);
    let pause = DeploymentPatch { paused: Some(true), ..patch() };
    let error = api.apply(Action::PatchDeployment(pause)).await.unwrap_err();
    assert!(error.to_string().contains("grayrollout-guard must name the user"), "{error}");
}

#[tokio::test]
async fn an_earlier_template_is_put_back_without_the_label() {
    let mut live = deployment("7", "web:2");
    live["spec"]["template"]["metadata"]["annotations"] = json!({"only": "here"});
    let api = Api::new(vec![
        (200, live),
        (200, replica_set("web-a", "r-1", "d-1", "web:1")),
        (200, deployment("8", "web:1")),
    ]);
    let back = DeploymentPatch { template_of: Some("web-a".into()), ..patch() };
    api.apply(Action::PatchDeployment(back)).await.unwrap();
    let (_, _, body) = api.sent().remove(2);
    assert_eq!(
        body["spec"]["template"],
        json!({
            "metadata": {"annotations": null},
            "spec": {"containers": [{"name": "web", "image": "web:1", "brandNew": true}]},
        })
    );
}

#[tokio::test]
async fn a_new_replica_set_has_the_servers_template() {
    let made = replica_set("web-new", "r-9", "d-1", "web:2");
    let api = Api::new(vec![(200, deployment("8", "web:2")), (201, made)]);
    assert_eq!(api.apply(create()).await.unwrap(), Applied::Written);
    let sent = api.sent();
    let (method, path, body) = &sent[1];
    assert_eq!(method, "POST");
    assert_eq!(path, "/apis/apps/v1/namespaces/shop/replicasets?&fieldManager=grayrollout");
    assert_eq!(body["metadata"]["name"], format!("web-{}", target().template.short()));
    assert_eq!(body["spec"]["template"]["spec"], template("web:2")["spec"]);
    assert_eq!(api.cached("web-new").as_deref(), Some("r-9"));
}

#[tokio::test]
async fn a_template_that_changed_meanwhile_is_not_created() {
    let api = Api::new(vec![(200, deployment("8", "web:3"))]);
    let error = api.apply(create()).await.unwrap_err();
    assert!(matches!(error, CallError::Conflict(_)), "{error:?}");
    assert_eq!(api.sent().len(), 1, "nothing is written");
}

#[tokio::test]
async fn a_deployment_that_changed_meanwhile_gets_no_replica_set() {
    let mut changed = deployment("8", "web:2");
    changed["metadata"]["generation"] = json!(2);
    let api = Api::new(vec![(200, changed)]);
    let error = api.apply(create()).await.unwrap_err();
    assert!(matches!(error, CallError::Conflict(_)), "{error:?}");
    assert_eq!(api.sent().len(), 1, "nothing is written");
}

#[tokio::test]
async fn another_deployment_of_the_name_gets_nothing() {
    let mut other = deployment("8", "web:2");
    other["metadata"]["uid"] = json!("d-2");
    let api = Api::new(vec![(200, other)]);
    let error = api.apply(create()).await.unwrap_err();
    assert!(matches!(error, CallError::Conflict(_)), "{error:?}");
    assert_eq!(api.sent().len(), 1, "nothing is written");
}

#[tokio::test]
async fn a_replica_set_that_is_there_already_is_used() {
    let there = replica_set("web-x", "r-1", "d-1", "web:2");
    let api =
        Api::new(vec![(200, deployment("8", "web:2")), failed(409, "AlreadyExists"), (200, there)]);
    assert_eq!(api.apply(create()).await.unwrap(), Applied::Found);
    assert_eq!(api.cached("web-x").as_deref(), Some("r-1"));
}

#[tokio::test]
async fn a_name_that_anothers_replica_set_has_gives_way() {
    for theirs in
        [replica_set("web-x", "r-1", "d-2", "web:2"), replica_set("web-x", "r-1", "d-1", "web:1")]
    {
        let api = Api::new(vec![
            (200, deployment("8", "web:2")),
            failed(409, "AlreadyExists"),
            (200, theirs),
            (201, replica_set("web-y", "r-2", "d-1", "web:2")),
        ]);
        assert_eq!(api.apply(create()).await.unwrap(), Applied::Written);
        let sent = api.sent();
        let (first, second) = (&sent[1].2, &sent[3].2);
        assert_ne!(first["metadata"]["name"], second["metadata"]["name"]);
        let label = "/spec/selector/matchLabels/pod-template-hash";
        assert_ne!(first.pointer(label), second.pointer(label));
    }
}

#[tokio::test]
async fn nothing_is_written_without_leading() {
    let api = Api::new(Vec::new());
    api.leadership.set(Term::None);
    let error = api.apply(scale()).await.unwrap_err();
    assert!(matches!(error, CallError::NotLeading), "{error:?}");
    assert!(api.sent().is_empty());
}

fn rollout(version: &str, status: &Value) -> Value {
    json!({
        "metadata": {"namespace": "shop", "name": "web", "uid": "g-1", "resourceVersion": version},
        "spec": {"targetRef": {"name": "web"}, "stages": [{"percent": 100}]},
        "status": status,
    })
}

fn seen(version: &str, status: &Value) -> crate::plan::Rollout {
    let slim: Slim<crate::cluster::slim::Rollouts> =
        serde_json::from_value(rollout(version, status)).unwrap();
    slim.object
}

#[tokio::test]
async fn a_status_is_applied_to_the_version_it_was_planned_on() {
    let approval = json!({"rollout": 3, "stage": 1});
    let before = seen("4", &json!({"rollout": 3, "approval": approval}));
    let after = json!({"rollout": 3, "stage": 1, "approval": approval});
    let api = Api::new(vec![(200, rollout("5", &after))]);
    assert!(!api.applier.write_status(&before, &before.status).await.unwrap());
    assert!(api.sent().is_empty(), "nothing changed, nothing is written");
    assert!(api.applier.write_status(&before, &seen("0", &after).status).await.unwrap());
    let (method, path, body) = api.sent().remove(0);
    assert_eq!(method, "PATCH");
    assert!(path.contains("/grayrollouts/web/status?"), "{path}");
    assert!(path.contains("force=true") && path.contains("fieldManager=grayrollout"), "{path}");
    assert_eq!(body["metadata"]["resourceVersion"], "4");
    assert_eq!(body["metadata"]["uid"], "g-1");
    assert_eq!(body["status"], json!({"rollout": 3, "stage": 1}));
    assert_eq!(api.sent().len(), 1);
}

#[tokio::test]
async fn what_another_put_into_the_status_is_taken_out() {
    let before = seen("4", &json!({"rollout": 3, "stage": 1}));
    let left = json!({"rollout": 3, "stage": 1, "abort": {"rollout": 3}});
    let after = json!({"rollout": 3, "abort": {"rollout": 3}});
    let api = Api::new(vec![(200, rollout("5", &left)), (200, rollout("6", &after))]);
    assert!(api.applier.write_status(&before, &seen("0", &after).status).await.unwrap());
    let (_, _, body) = api.sent().remove(1);
    assert_eq!(body["metadata"]["resourceVersion"], "5");
    assert_eq!(body["status"], json!({"stage": null}), "and what people wrote stays");
}

#[path = "apply_odd_tests.rs"]
mod odd;

#[path = "adopt_tests.rs"]
mod adopt;
