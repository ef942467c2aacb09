//! Deployments.

use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::{Deployments, Map, Parts, Scalar, Slim, Template, parts};
use crate::plan::{RollingUpdate, Strategy, Target};

/// spec, as far as it is read.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    replicas: Scalar,
    paused: Scalar,
    strategy: Option<Value>,
    template: Template,
    progress_deadline_seconds: Scalar,
    revision_history_limit: Scalar,
}

/// status, as far as it is read.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    observed_generation: Scalar,
}

/// The strategy; the API server's default where there is none.
fn strategy(value: Option<Value>) -> Strategy {
    match value {
        None | Some(Value::Null) => {
            Strategy::RollingUpdate { rolling_update: RollingUpdate::default() }
        }
        Some(value) => Strategy::deserialize(value).unwrap_or(Strategy::Other),
    }
}

impl<'de> Deserialize<'de> for Slim<Deployments> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Parts { metadata: Map(meta), spec: Map(spec), status: Map(status) } =
            parts::<_, Map<Spec>, Map<Status>>(deserializer)?;
        let annotations = meta.annotations.0.clone();
        let original = annotations.original.some_text().map(|text| {
            serde_json::from_str(&text).map_err(|error| {
                format!("the annotation grayrollout.dev/original cannot be read: {error}")
            })
        });
        let object = Target {
            namespace: meta.namespace.clone().text(),
            name: meta.name.clone().text(),
            uid: meta.uid.clone().text(),
            generation: meta.generation.int64().unwrap_or_default(),
            resource_version: meta.resource_version.clone().text(),
            observed_generation: status.observed_generation.int64().unwrap_or_default(),
            // The API server's default where there is none; it refuses negative ones.
            replicas: spec.replicas.int32().unwrap_or(1).max(0),
            paused: spec.paused.is_true(),
            strategy: strategy(spec.strategy),
            template: spec.template.hash,
            template_labelled: spec.template.labelled,
            progress_deadline_seconds: spec.progress_deadline_seconds.int32(),
            revision_history_limit: spec.revision_history_limit.int32(),
            original,
            rollout_annotation: annotations.rollout.some_text(),
        };
        Ok(Self::new(meta, object))
    }
}
