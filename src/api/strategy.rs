//! A Deployment's strategy, as far as staged rollouts know it.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::IntOrPercent;

/// A Deployment's spec.strategy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type")]
pub enum Strategy {
    /// New pods replace old ones step by step.
    RollingUpdate {
        /// Its bounds.
        #[serde(rename = "rollingUpdate", default)]
        rolling_update: RollingUpdate,
    },
    /// All old pods are removed before new ones are made.
    Recreate,
    /// A strategy that is not known here.
    #[serde(other)]
    Other,
}

/// The bounds of a rolling update.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RollingUpdate {
    /// Most pods above spec.replicas.
    pub max_surge: IntOrPercent,
    /// Most pods that may be unavailable.
    pub max_unavailable: IntOrPercent,
}

impl Default for RollingUpdate {
    /// The API server's default: 25% each.
    fn default() -> Self {
        let quarter = || IntOrPercent::Percent("25%".into());
        Self { max_surge: quarter(), max_unavailable: quarter() }
    }
}

impl JsonSchema for Strategy {
    fn schema_name() -> Cow<'static, str> {
        "Strategy".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let count = json_schema!({ "x-kubernetes-int-or-string": true });
        json_schema!({
            "type": "object",
            "required": ["type"],
            "properties": {
                "type": { "type": "string" },
                "rollingUpdate": {
                    "type": "object",
                    "properties": { "maxSurge": count, "maxUnavailable": count }
                }
            }
        })
    }

    fn inline_schema() -> bool {
        true
    }
}
