//! GrayRollouts.

use serde::{Deserialize, Deserializer};
use serde_json::Value;
use tracing::warn;

use super::{Map, Parts, Rollouts, Slim, parts};
use crate::{
    api::{GrayRolloutSpec, GrayRolloutStatus},
    plan::Rollout,
};

impl<'de> Deserialize<'de> for Slim<Rollouts> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // The schema may be newer or older than this process, so both are taken as they come and
        // understood afterwards.
        let Parts { metadata: Map(meta), spec, status } =
            parts::<_, Option<Value>, Option<Value>>(deserializer)?;
        let namespace = meta.namespace.clone().text();
        let name = meta.name.clone().text();
        let target_name = spec
            .as_ref()
            .and_then(|spec| spec.pointer("/targetRef/name"))
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned();
        let spec = GrayRolloutSpec::deserialize(spec.unwrap_or_default())
            .map_err(|error| format!("the spec cannot be read: {error}"));
        let status = match status {
            None | Some(Value::Null) => GrayRolloutStatus::default(),
            Some(status) => GrayRolloutStatus::deserialize(status).unwrap_or_else(|error| {
                warn!(namespace, name, %error, "the status cannot be read and is made anew");
                GrayRolloutStatus::default()
            }),
        };
        let made = meta.annotations.0.stages.clone().some_text().is_some();
        let object = Rollout {
            namespace,
            name,
            uid: meta.uid.clone().text(),
            generation: meta.generation.int64().unwrap_or_default(),
            resource_version: meta.resource_version.clone().text(),
            created: meta.created(),
            target_name,
            made_for: made.then(|| meta.controller_uid().into()),
            spec,
            status,
        };
        Ok(Self::new(meta, object))
    }
}
