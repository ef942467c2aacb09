//! What the operator computes for every change that it sees: decoding a watch event, the
//! fingerprint of a template, and the plan.

// A benchmark ends where it cannot go on.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, missing_docs)]

use std::{collections::BTreeMap, hint::black_box};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use grayrollout::{
    cluster::{
        index::Index,
        slim::{Deployments, ObjectKey, ReplicaSets, Rollouts, Slim, Template},
    },
    plan::{Snapshot, plan},
};
use jiff::Timestamp;
use kube::core::WatchEvent;
use serde_json::{Value, json};

const NOW: &str = "2026-01-01T10:00:00Z";

/// A template of a usual size: two containers with probes, resources and environment.
fn template(version: &str) -> Value {
    let env: Vec<_> =
        (0..20).map(|n| json!({"name": format!("SETTING_{n}"), "value": "a value"})).collect();
    let probe = json!({
        "httpGet": {"path": "/healthz", "port": 8080, "scheme": "HTTP"}, "timeoutSeconds": 1,
        "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3,
    });
    let container = |name: &str| {
        json!({
            "name": name, "image": format!("{name}:{version}"), "env": env,
            "ports": [{"containerPort": 8080, "protocol": "TCP"}],
            "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}},
            "readinessProbe": probe, "livenessProbe": probe, "imagePullPolicy": "IfNotPresent",
            "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
        })
    };
    json!({
        "metadata": {"labels": {"app": "web"}, "annotations": {"version": version}},
        "spec": {
            "containers": [container("app"), container("sidecar")], "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst",
            "securityContext": {"runAsNonRoot": true}, "schedulerName": "default-scheduler",
        },
    })
}

/// What the API server adds about who set which field: about as large as the template.
fn managed_fields() -> Value {
    let names = (0..60).map(|n| (format!("f:field{n}"), json!({})));
    let fields: BTreeMap<_, _> = names.collect();
    json!([
        {"manager": "kubectl-client-side-apply", "operation": "Update", "apiVersion": "apps/v1",
         "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:template": fields}}},
        {"manager": "kube-controller-manager", "operation": "Update", "apiVersion": "apps/v1",
         "fieldsType": "FieldsV1", "fieldsV1": {"f:status": fields}, "subresource": "status"},
    ])
}

fn metadata(name: &str, more: Value) -> Value {
    let mut metadata = json!({
        "name": name, "namespace": "shop", "uid": format!("uid-{name}"), "generation": 4,
        "resourceVersion": "4711", "creationTimestamp": "2026-01-01T09:00:00Z",
        "labels": {"app": "web"}, "managedFields": managed_fields(),
    });
    metadata.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    metadata
}

fn deployment() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata("web", json!({})),
        "spec": {
            "replicas": 10, "paused": true, "selector": {"matchLabels": {"app": "web"}},
            "strategy": {"type": "RollingUpdate",
                         "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
            "template": template("v2"), "progressDeadlineSeconds": 600, "revisionHistoryLimit": 10,
        },
        "status": {"observedGeneration": 4, "replicas": 10, "availableReplicas": 10,
                   "updatedReplicas": 0, "readyReplicas": 10},
    })
}

/// Revision `number`; the newest is the present one and has all pods.
fn replica_set(number: u32, pods: u32) -> Value {
    let hash = format!("rev{number}");
    let owner = json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web",
                        "uid": "uid-web", "controller": true, "blockOwnerDeletion": true}]);
    let mut template = template(&format!("v{number}"));
    template["metadata"]["labels"]["pod-template-hash"] = json!(hash);
    json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": metadata(&format!("web-{hash}"), json!({
            "ownerReferences": owner, "labels": {"app": "web", "pod-template-hash": hash},
            "annotations": {"deployment.kubernetes.io/desired-replicas": "10",
                            "deployment.kubernetes.io/max-replicas": "13"},
        })),
        "spec": {"replicas": pods, "template": template,
                 "selector": {"matchLabels": {"app": "web", "pod-template-hash": hash}}},
        "status": {"observedGeneration": 4, "replicas": pods, "availableReplicas": pods,
                   "readyReplicas": pods},
    })
}

fn rollout() -> Value {
    json!({
        "apiVersion": "grayrollout.dev/v1alpha1", "kind": "GrayRollout",
        "metadata": metadata("gray", json!({})),
        "spec": {"targetRef": {"name": "web"},
                 "stages": [{"percent": 10}, {"percent": 50}, {"percent": 100}]},
    })
}

fn event(object: &Value) -> Vec<u8> {
    json!({"type": "MODIFIED", "object": object}).to_string().into_bytes()
}

fn decode(c: &mut Criterion) {
    let mut group = c.benchmark_group("decode");
    let bytes = event(&deployment());
    group.throughput(Throughput::Bytes(bytes.len() as u64));
    group.bench_function("deployment", |b| {
        b.iter(|| serde_json::from_slice::<WatchEvent<Slim<Deployments>>>(black_box(&bytes)));
    });
    group.bench_function("deployment as a tree of values, for comparison", |b| {
        b.iter(|| serde_json::from_slice::<Value>(black_box(&bytes)));
    });
    let bytes = event(&replica_set(1, 10));
    group.throughput(Throughput::Bytes(bytes.len() as u64));
    group.bench_function("replica set", |b| {
        b.iter(|| serde_json::from_slice::<WatchEvent<Slim<ReplicaSets>>>(black_box(&bytes)));
    });
    let bytes = template("v2").to_string().into_bytes();
    group.throughput(Throughput::Bytes(bytes.len() as u64));
    group.bench_function("template hash", |b| {
        b.iter(|| serde_json::from_slice::<Template>(black_box(&bytes)));
    });
    group.finish();
}

/// A Deployment whose template has just changed, beside so many old revisions.
fn snapshot(revisions: u32) -> Snapshot {
    let index = Index::new(3, |_| {});
    index.put::<Deployments>(serde_json::from_value(deployment()).expect("a Deployment"));
    for number in 3..3 + revisions {
        let pods = if number == 3 { 10 } else { 0 };
        let set = serde_json::from_value(replica_set(number, pods)).expect("a ReplicaSet");
        index.put::<ReplicaSets>(set);
    }
    index.put::<Rollouts>(serde_json::from_value(rollout()).expect("a GrayRollout"));
    let now: Timestamp = NOW.parse().expect("a time");
    index.snapshot(&ObjectKey::new("shop", "gray"), now).expect("the GrayRollout is there")
}

fn plans(c: &mut Criterion) {
    for revisions in [2, 15] {
        let snapshot = snapshot(revisions);
        assert!(!plan(&snapshot).actions.is_empty(), "something is to be done");
        c.bench_function(&format!("plan beside {revisions} revisions"), |b| {
            b.iter(|| plan(black_box(&snapshot)));
        });
    }
}

criterion_group!(benches, decode, plans);
criterion_main!(benches);
