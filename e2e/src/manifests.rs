//! The manifests that the tests create.

use serde_json::{Value, json};

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
    let stages: Vec<Value> = percents.iter().map(|percent| stage(*percent)).collect();
    json!({
        "apiVersion": "grayrollout.dev/v1alpha1",
        "kind": "GrayRollout",
        "metadata": {"name": name},
        "spec": {"targetRef": {"name": name}, "stages": stages},
    })
}

/// A stage with everything but its share left to the defaults.
pub fn stage(percent: i64) -> Value {
    json!({"percent": percent})
}
