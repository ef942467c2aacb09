//! The model of the native controllers, which all proofs rest on, held against the real one on
//! cases that were drawn just now. `CONFORMANCE_SEED` draws the same ones again.

#[path = "../../../tests/native/mod.rs"]
// The simulation uses what this test leaves.
#[allow(dead_code, unused_imports)]
mod model;

use std::{collections::BTreeMap, time::Duration};

use grayrollout::{
    api::IntOrPercent,
    plan::{RollingUpdate, Strategy as Form},
};
use grayrollout_e2e::{Json, Test, path_of, run_without_operator};
use model::{Cluster, Deployment, ReplicaSet, sync_deployment};
use proptest::{
    collection::vec,
    prelude::*,
    strategy::ValueTree,
    test_runner::{Config, RngSeed, TestRunner},
};
use serde_json::{Value, json};

/// How many cases are drawn.
const CASES: usize = 40;
/// The template of the Deployment; those of the old ReplicaSets are smaller.
const NEW: u32 = 100;
const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
const MAX: &str = "deployment.kubernetes.io/max-replicas";
const REVISION: &str = "deployment.kubernetes.io/revision";

/// What the Deployment is made, or becomes. It is paused, as while the operator works; unpaused the
/// controller goes by statuses that only the ReplicaSet controller could keep right.
#[derive(Debug, Clone)]
struct Shape {
    replicas: i32,
    form: Form,
}

#[derive(Debug, Clone)]
struct Given {
    size: i32,
    available: i32,
    desired: Option<i32>,
    max: Option<i32>,
}

/// ReplicaSets that are there before the Deployment, the last of them perhaps of its template.
#[derive(Debug, Clone)]
struct Case {
    sets: Vec<Given>,
    has_new: bool,
    shapes: Vec<Shape>,
}

fn shape() -> impl Strategy<Value = Shape> {
    let count = |n: i32| IntOrPercent::Count(n);
    let percent = |text: &str| IntOrPercent::Percent(text.into());
    let surge = vec![count(0), count(1), count(2), percent("25%"), percent("100%")];
    let unavailable = vec![count(0), count(1), count(2), percent("25%")];
    let rolling = (prop::sample::select(surge), prop::sample::select(unavailable));
    let rolling = rolling.prop_map(|(max_surge, max_unavailable)| {
        let none = IntOrPercent::Count(0);
        let both = max_surge == none && max_unavailable == none;
        let max_unavailable = if both { IntOrPercent::Count(1) } else { max_unavailable };
        Form::RollingUpdate { rolling_update: RollingUpdate { max_surge, max_unavailable } }
    });
    let form = prop_oneof![1 => Just(Form::Recreate), 3 => rolling];
    (0..=20, form).prop_map(|(replicas, form)| Shape { replicas, form })
}

fn case() -> impl Strategy<Value = Case> {
    let given = (0..=14, 0..=14, prop::option::of(0..24), prop::option::of(0..24));
    let given = given.prop_map(|(size, available, desired, max): (i32, i32, _, _)| Given {
        size,
        available: available.min(size),
        desired,
        max,
    });
    (vec(given, 1..4), prop::bool::weighted(0.8), vec(shape(), 1..4))
        .prop_map(|(sets, has_new, shapes)| Case { sets, has_new, shapes })
}

fn seed() -> u64 {
    let given = std::env::var("CONFORMANCE_SEED").ok().and_then(|text| text.parse().ok());
    given.unwrap_or_else(|| u64::from(std::process::id()))
}

fn draw(seed: u64) -> Vec<Case> {
    let config = Config { rng_seed: RngSeed::Fixed(seed), ..Config::default() };
    let mut runner = TestRunner::new(config);
    (0..CASES).map(|_| case().new_tree(&mut runner).expect("a case").current()).collect()
}

impl Case {
    fn template_of(&self, index: usize) -> u32 {
        let last = index + 1 == self.sets.len();
        if last && self.has_new { NEW } else { u32::try_from(index).unwrap() + 1 }
    }

    fn revision_of(&self, index: usize) -> Option<i64> {
        (self.template_of(index) != NEW).then(|| i64::try_from(index).unwrap() + 1)
    }
}

fn image(template: u32) -> String {
    format!("app:v{template}")
}

fn set_name(case: &str, index: usize) -> String {
    format!("{case}-{index}")
}

fn set_object(case: &Case, name: &str, index: usize) -> Value {
    let given = &case.sets[index];
    let mut annotations = json!({});
    for (key, value) in [(DESIRED, given.desired), (MAX, given.max)] {
        if let Some(value) = value {
            annotations[key] = value.to_string().into();
        }
    }
    if let Some(revision) = case.revision_of(index) {
        annotations[REVISION] = revision.to_string().into();
    }
    let labels = json!({"app": name, "pod-template-hash": index.to_string()});
    json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {
            "name": set_name(name, index), "labels": labels.clone(), "annotations": annotations,
        },
        "spec": {
            "replicas": given.size,
            "selector": {"matchLabels": labels.clone()},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "app", "image": image(case.template_of(index))}]},
            },
        },
    })
}

fn shape_object(shape: &Shape) -> Value {
    let strategy = match &shape.form {
        Form::RollingUpdate { rolling_update } => json!({
            "type": "RollingUpdate",
            "rollingUpdate": {
                "maxSurge": rolling_update.max_surge,
                "maxUnavailable": rolling_update.max_unavailable,
            },
        }),
        _ => json!({"type": "Recreate", "rollingUpdate": null}),
    };
    json!({"replicas": shape.replicas, "paused": true, "strategy": strategy})
}

fn deployment_object(name: &str, shape: &Shape) -> Value {
    let object = grayrollout_e2e::deployment(name, 0);
    let container = json!([{"name": "app", "image": image(NEW)}]);
    object
        .with(json!({"spec": {"template": {"spec": {"containers": container}}}}))
        .with(json!({"spec": shape_object(shape)}))
}

/// Size, both annotations and revision of each template's ReplicaSet.
type Settled = BTreeMap<String, (i32, Option<i32>, Option<i32>, Option<i64>)>;

fn modelled(cluster: &Cluster) -> Settled {
    let sets = cluster.replica_sets.iter();
    sets.map(|set| (image(set.template), (set.replicas, set.desired, set.max, set.revision)))
        .collect()
}

fn settle(cluster: &mut Cluster) {
    let settled = (0..100).any(|_| {
        let seen = cluster.deployment.clone().expect("a Deployment");
        !sync_deployment(cluster, &seen)
    });
    assert!(settled, "the model does not settle");
}

/// What a list of ReplicaSets shows of one case.
fn shown(sets: &Value, name: &str) -> Settled {
    let mine = sets.list("/items").iter().filter(|set| set.text("/metadata/labels/app") == name);
    mine.map(|set| {
        let number = |key| set.annotation(key).and_then(|text| text.parse().ok());
        let revision = set.annotation(REVISION).and_then(|text| text.parse().ok());
        let size = i32::try_from(set.int("/spec/replicas")).expect("a size");
        let image = set.text("/spec/template/spec/containers/0/image").to_owned();
        (image, (size, number(DESIRED), number(MAX), revision))
    })
    .collect()
}

/// Keeps the ReplicaSet controller from making pods and from reporting, so that the Deployment
/// controller alone acts. It holds for the test's namespace only, and goes with the control plane.
async fn keep_replica_set_controller_out(t: &Test) {
    let name = format!("conformance-{}", t.namespace);
    let root = "/apis/admissionregistration.k8s.io/v1";
    let rules = json!([
        {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]},
        {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["UPDATE"],
         "resources": ["replicasets/status"]},
    ]);
    let policy = json!({
        "metadata": {"name": name},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": t.namespace}},
                "resourceRules": rules,
            },
            "validations": [{
                "expression": "request.userInfo.groups.exists(g, g == 'system:masters')",
                "message": "kept out by the test",
            }],
        },
    });
    let binding = json!({
        "metadata": {"name": name},
        "spec": {"policyName": name, "validationActions": ["Deny"]},
    });
    let policies = format!("{root}/validatingadmissionpolicies");
    t.api.post(&policies, &policy).await.expect("the policy");
    let bindings = format!("{root}/validatingadmissionpolicybindings");
    t.api.post(&bindings, &binding).await.expect("its binding");
    for attempt in 0.. {
        assert!(attempt < 60, "the policy does not take effect");
        let case = Case {
            sets: vec![Given { size: 1, available: 0, desired: None, max: None }],
            has_new: false,
            shapes: Vec::new(),
        };
        let probe = format!("probe{attempt}");
        let sets = path_of("apps/v1", &t.namespace, "replicasets");
        t.api.post(&sets, &set_object(&case, &probe, 0)).await.expect("a probe");
        let events = path_of("v1", &t.namespace, "events");
        let refused = async || {
            let said = t.api.get(&events).await.expect("events");
            said.list("/items").iter().any(|event| {
                event.text("/involvedObject/name") == set_name(&probe, 0)
                    && event.text("/message").contains("kept out by the test")
            })
        };
        let mut kept_out = false;
        for _ in 0..20 {
            kept_out = kept_out || refused().await;
            if kept_out {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let path = format!("{sets}/{}", set_name(&probe, 0));
        t.api.delete(&path).await.expect("the probe goes");
        if kept_out {
            return;
        }
    }
}

/// The ReplicaSets of a case, and the model of them.
async fn prepare(t: &Test, case: &Case, name: &str) -> Cluster {
    let mut cluster = Cluster::new(0);
    let path = path_of("apps/v1", &t.namespace, "replicasets");
    for (index, given) in case.sets.iter().enumerate() {
        let made = t.api.post(&path, &set_object(case, name, index)).await.expect("a ReplicaSet");
        let status = json!({"status": {
            "observedGeneration": made.int("/metadata/generation"), "replicas": given.size,
            "readyReplicas": given.available, "availableReplicas": given.available,
        }});
        let status_path = format!("{path}/{}/status", set_name(name, index));
        t.api.patch(&status_path, &status).await.expect("its status");
        let mut set = ReplicaSet::of(&set_name(name, index), "uid", case.template_of(index));
        let created = made.text("/metadata/creationTimestamp");
        set.created = created.parse::<jiff::Timestamp>().expect("a time").as_second();
        set.replicas = given.size;
        set.desired = given.desired;
        set.max = given.max;
        set.revision = case.revision_of(index);
        set.status.observed_generation = set.generation;
        set.status.replicas = given.size;
        set.status.available = given.available;
        cluster.replica_sets.push(set);
    }
    cluster
}

#[test]
fn the_model_does_what_the_real_controller_does() {
    run_without_operator(async |t: &Test| {
        let seed = seed();
        let cases = draw(seed);
        keep_replica_set_controller_out(t).await;
        let names: Vec<String> = (0..cases.len()).map(|number| format!("case{number}")).collect();
        let mut clusters = Vec::new();
        for (case, name) in cases.iter().zip(&names) {
            clusters.push(prepare(t, case, name).await);
        }
        let deployments = path_of("apps/v1", &t.namespace, "deployments");
        let most = cases.iter().map(|case| case.shapes.len()).max().unwrap_or_default();
        for round in 0..most {
            for ((case, name), cluster) in cases.iter().zip(&names).zip(&mut clusters) {
                let Some(shape) = case.shapes.get(round) else { continue };
                if round == 0 {
                    let object = deployment_object(name, shape);
                    t.api.post(&deployments, &object).await.expect("a Deployment");
                    let form = shape.form.clone();
                    let mut deployment = Deployment::of("uid", shape.replicas, form, NEW);
                    deployment.paused = true;
                    cluster.deployment = Some(deployment);
                } else {
                    let path = format!("{deployments}/{name}");
                    let change = json!({"spec": shape_object(shape)});
                    t.api.patch(&path, &change).await.expect("the Deployment changes");
                    cluster.change_deployment(|deployment| {
                        deployment.replicas = shape.replicas;
                        deployment.strategy = shape.form.clone();
                    });
                }
                settle(cluster);
            }
            agree(t, &names, &cases, &clusters, round, seed).await;
        }
    });
}

/// Waits until the real controller has come to what the model says, in every case.
async fn agree(
    t: &Test,
    names: &[String],
    cases: &[Case],
    clusters: &[Cluster],
    round: usize,
    seed: u64,
) {
    let path = path_of("apps/v1", &t.namespace, "replicasets");
    let deployments = path_of("apps/v1", &t.namespace, "deployments");
    let give_up = tokio::time::Instant::now() + t.at_most(20);
    // What passes by the right state on its way elsewhere is seen the second time.
    let mut times = 0;
    loop {
        let sets = t.api.get(&path).await.expect("ReplicaSets");
        let all = t.api.get(&deployments).await.expect("Deployments");
        let observed = all.list("/items").iter().all(|deployment| {
            deployment.int("/status/observedGeneration") == deployment.int("/metadata/generation")
        });
        let wrong: Vec<String> = (names.iter().zip(cases).zip(clusters))
            .filter(|((name, _), cluster)| shown(&sets, name) != modelled(cluster))
            .map(|((name, case), cluster)| {
                let (is, says) = (shown(&sets, name), modelled(cluster));
                format!("{name} {case:#?}\n is  {is:?}\n not {says:?}")
            })
            .collect();
        times = if wrong.is_empty() && observed { times + 1 } else { 0 };
        if times == 10 {
            return;
        }
        assert!(
            tokio::time::Instant::now() < give_up,
            "CONFORMANCE_SEED={seed}, round {round}: {} cases differ\n{}",
            wrong.len(),
            wrong.join("\n"),
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
