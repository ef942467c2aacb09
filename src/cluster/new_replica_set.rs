//! The ReplicaSet of a Deployment's template, as the Deployment controller would make it.

use serde_json::{Map, Value, json};
use xxhash_rust::xxh3::xxh3_128_with_seed;

use super::{
    apply::Sizes,
    slim::{DESIRED_ANNOTATION, MAX_ANNOTATION, POD_TEMPLATE_HASH},
};
use crate::{
    api::{ORIGINAL_ANNOTATION, ROLLOUT_ANNOTATION},
    plan::TemplateHash,
};

/// Longest name of an object.
const MAX_NAME: usize = 253;

/// Annotations of a Deployment that do not go to its ReplicaSets: the Deployment controller's own,
/// kubectl's, and ours.
const OWN_ANNOTATIONS: [&str; 8] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    "deployment.kubernetes.io/revision",
    "deployment.kubernetes.io/revision-history",
    DESIRED_ANNOTATION,
    MAX_ANNOTATION,
    "deprecated.deployment.rollback.to",
    ORIGINAL_ANNOTATION,
    ROLLOUT_ANNOTATION,
];

/// The label and the end of the name; another one for each attempt.
pub(super) fn suffix(hash: TemplateHash, attempt: u32) -> String {
    if attempt == 0 {
        return hash.short();
    }
    TemplateHash(xxh3_128_with_seed(&hash.0.to_le_bytes(), attempt.into())).short()
}

/// The name of a Deployment's ReplicaSet. Of a long one the end is cut.
pub(super) fn name(deployment: &str, suffix: &str) -> String {
    let room = MAX_NAME.saturating_sub(suffix.len() + 1);
    // Names of objects are ASCII, so every place is between two characters.
    let base = deployment.get(..room).unwrap_or(deployment);
    format!("{}-{suffix}", base.trim_end_matches(['-', '.']))
}

/// Takes the label pod-template-hash out of a template.
pub(super) fn remove_label(template: &mut Value) {
    if let Some(labels) = template.pointer_mut("/metadata/labels").and_then(Value::as_object_mut) {
        labels.remove(POD_TEMPLATE_HASH);
    }
}

/// The ReplicaSet to create for a Deployment as it came from the API server.
pub(super) fn replica_set(deployment: &Value, suffix: &str, sizes: Sizes) -> Value {
    let part = |pointer: &str| deployment.pointer(pointer).cloned().unwrap_or_default();
    let text = |pointer: &str| {
        let value = deployment.pointer(pointer).and_then(Value::as_str);
        value.unwrap_or_default().to_owned()
    };
    let mut template = part("/spec/template");
    label(&mut template, &["metadata", "labels"], suffix);
    let labels = template.pointer("/metadata/labels").cloned();
    let mut selector = part("/spec/selector");
    label(&mut selector, &["matchLabels"], suffix);

    let mut annotations = match part("/metadata/annotations") {
        Value::Object(map) => map,
        _ => Map::new(),
    };
    annotations.retain(|name, _| !OWN_ANNOTATIONS.contains(&name.as_str()));
    for (name, count) in [(DESIRED_ANNOTATION, sizes.desired), (MAX_ANNOTATION, sizes.max)] {
        if let Some(count) = count {
            annotations.insert(name.into(), count.to_string().into());
        }
    }
    let deployment_name = text("/metadata/name");
    let mut spec = json!({
        "replicas": sizes.replicas,
        "selector": selector,
        "template": template,
    });
    if let (Some(spec), Some(seconds)) =
        (spec.as_object_mut(), deployment.pointer("/spec/minReadySeconds"))
    {
        spec.insert("minReadySeconds".into(), seconds.clone());
    }
    json!({
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "namespace": text("/metadata/namespace"),
            "name": name(&deployment_name, suffix),
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": [{
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "name": deployment_name,
                "uid": text("/metadata/uid"),
                "controller": true,
                "blockOwnerDeletion": true,
            }],
        },
        "spec": spec,
    })
}

/// Sets the label pod-template-hash in the map at this path, which is made where it is missing.
fn label(object: &mut Value, path: &[&str], suffix: &str) {
    let mut place = object;
    for step in path {
        if !place.is_object() {
            *place = json!({});
        }
        let Some(map) = place.as_object_mut() else {
            return;
        };
        place = map.entry(*step).or_insert(Value::Null);
    }
    if !place.is_object() {
        *place = json!({});
    }
    if let Some(map) = place.as_object_mut() {
        map.insert(POD_TEMPLATE_HASH.into(), suffix.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: Sizes = Sizes { replicas: 1, desired: None, max: Some(13) };

    fn deployment() -> Value {
        json!({
            "metadata": {
                "name": "web", "namespace": "shop", "uid": "u-1",
                "annotations": {
                    "team": "a",
                    "kubectl.kubernetes.io/last-applied-configuration": "{}",
                    "deployment.kubernetes.io/revision": "3",
                    "grayrollout.dev/original": "{}",
                    "grayrollout.dev/rollout": "web",
                },
            },
            "spec": {
                "replicas": 10,
                "minReadySeconds": 7,
                "selector": {"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "x"}]},
                "template": {
                    "metadata": {"labels": {"app": "web"}},
                    "spec": {"containers": [], "brandNew": {"kept": true}},
                },
            },
        })
    }

    #[test]
    fn it_is_made_as_the_deployment_controller_makes_it() {
        let made = replica_set(&deployment(), "abc", SIZES);
        assert_eq!(
            made,
            json!({
                "apiVersion": "apps/v1",
                "kind": "ReplicaSet",
                "metadata": {
                    "name": "web-abc", "namespace": "shop",
                    "labels": {"app": "web", "pod-template-hash": "abc"},
                    "annotations": {"team": "a", "deployment.kubernetes.io/max-replicas": "13"},
                    "ownerReferences": [{
                        "apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "u-1",
                        "controller": true, "blockOwnerDeletion": true,
                    }],
                },
                "spec": {
                    "replicas": 1,
                    "minReadySeconds": 7,
                    "selector": {
                        "matchLabels": {"app": "web", "pod-template-hash": "abc"},
                        "matchExpressions": [{"key": "x"}],
                    },
                    "template": {
                        "metadata": {"labels": {"app": "web", "pod-template-hash": "abc"}},
                        "spec": {"containers": [], "brandNew": {"kept": true}},
                    },
                },
            })
        );
    }

    #[test]
    fn long_names_stay_valid() {
        let long = format!("{}.{}", "a".repeat(241), "b".repeat(11));
        let made = name(&long, "0123456789");
        assert_eq!(made, format!("{}-0123456789", "a".repeat(241)));
        assert!(name(&"a".repeat(253), "0123456789").len() == MAX_NAME);
    }

    #[test]
    fn a_taken_name_gives_way_to_another() {
        let hash = TemplateHash(7);
        assert_eq!(suffix(hash, 0), hash.short());
        assert_ne!(suffix(hash, 0), suffix(hash, 1));
        assert_ne!(suffix(hash, 1), suffix(hash, 2));
        assert_eq!(suffix(hash, 1), suffix(hash, 1), "so that two operators agree");
    }
}
