//! ReplicaSets.

use serde::{Deserialize, Deserializer};

use super::{List, Map, Parts, ReplicaSets, Scalar, Slim, Template, parts};
use crate::plan::ReplicaSet;

/// spec, as far as it is read.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    replicas: Scalar,
    template: Template,
}

/// status, as far as it is read.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    observed_generation: Scalar,
    replicas: Scalar,
    available_replicas: Scalar,
    terminating_replicas: Scalar,
    conditions: List<Condition>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Condition {
    #[serde(rename = "type")]
    type_: Scalar,
    status: Scalar,
    message: Scalar,
}

impl<'de> Deserialize<'de> for Slim<ReplicaSets> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Parts { metadata: Map(meta), spec: Map(spec), status: Map(status) } =
            parts::<_, Map<Spec>, Map<Status>>(deserializer)?;
        let count = |value: &Scalar| value.int32().unwrap_or_default().max(0);
        let failure = status
            .conditions
            .0
            .into_iter()
            .find(|c| c.type_.is("ReplicaFailure") && c.status.is("True"))
            .map(|c| c.message.text());
        let object = ReplicaSet {
            name: meta.name.clone().text(),
            uid: meta.uid.clone().text(),
            owner_uid: meta.owner_uid(),
            generation: meta.generation.int64().unwrap_or_default(),
            resource_version: meta.resource_version.clone().text(),
            created: meta.created(),
            deleting: meta.deletion_timestamp != Scalar::Nothing,
            revision: meta.labels.0.pod_template_hash.clone().text(),
            template: spec.template.hash,
            // The API server's default where there is none.
            replicas: spec.replicas.int32().unwrap_or(1).max(0),
            desired_annotation: meta.annotations.0.desired.parsed(),
            max_annotation: meta.annotations.0.max.parsed(),
            observed_generation: status.observed_generation.int64().unwrap_or_default(),
            current: count(&status.replicas),
            available: count(&status.available_replicas),
            terminating: count(&status.terminating_replicas),
            failure,
        };
        Ok(Self::new(meta, object))
    }
}
