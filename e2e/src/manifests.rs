//! The manifests that the tests create.

use serde_json::{Value, json};

use crate::Json;

/// A Deployment with a container `app` of image `app:v1`. Its strategy is the API server's default
/// (RollingUpdate, 25% each) unless a test says otherwise.
pub fn deployment(name: &str, replicas: i64) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {
                    "containers": [{"name": "app", "image": "app:v1"}],
                },
            },
        },
    })
}

/// A GrayRollout of the Deployment of the same name.
pub fn grayrollout(name: &str, percents: &[i64]) -> Value {
    json!({
        "apiVersion": "grayrollout.dev/v1alpha1",
        "kind": "GrayRollout",
        "metadata": {"name": name},
        "spec": {"targetRef": {"name": name}, "stages": stages(percents, &json!({}))},
    })
}

/// Stages with these shares, and what else each of them has.
pub fn stages(percents: &[i64], each: &Value) -> Value {
    percents.iter().map(|percent| json!({"percent": percent}).with(each.clone())).collect()
}

/// The annotations of pods that are always, never, crash or unpullable.
pub fn pods_are(ready: &str) -> Value {
    json!({"kwok.grayrollout.dev/ready": ready})
}

/// The annotations of pods that get ready after a time such as `500ms`.
pub fn pods_ready_after(time: &str) -> Value {
    json!({"kwok.grayrollout.dev/ready-after": time})
}
