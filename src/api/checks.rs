//! Checks: what is measured before a stage may be left.

use garde::Validate;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{hooks::Webhook, status::timestamp, webhook_rules};

/// Something that is measured while a stage moves, soaks and waits, and must pass to leave it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(rename_all = "camelCase")]
#[garde(allow_unvalidated)]
pub struct Check {
    /// Its name, unique among the checks.
    #[garde(length(min = 1, max = 63), custom(webhook_rules::is_name))]
    pub name: String,
    /// The first stage that it is measured at.
    #[garde(range(min = 1, max = 20))]
    #[serde(default = "one")]
    pub from_stage: i32,
    /// Seconds from one measurement to the next.
    #[garde(range(min = 5, max = 3600))]
    #[serde(default = "interval")]
    pub interval_seconds: i32,
    /// Seconds from the start of a stage to the first measurement.
    #[garde(range(min = 0, max = 86_400))]
    #[serde(default)]
    pub initial_delay_seconds: i32,
    /// So many failures in a row fail the stage; then onFailure counts.
    #[garde(range(min = 1, max = 100))]
    #[serde(default = "one")]
    pub failure_limit: i32,
    /// After so many measurements in a row without a result the rollout is Stalled.
    #[garde(range(min = 1, max = 1000))]
    #[serde(default = "inconclusive")]
    pub inconclusive_limit: i32,
    /// Asks Prometheus. Either this or webhook.
    #[garde(dive)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prometheus: Option<PrometheusQuery>,
    /// A POST: 2xx passes, 4xx fails, all else is no result.
    #[garde(dive)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook: Option<Webhook>,
}

fn one() -> i32 {
    1
}

fn interval() -> i32 {
    30
}

fn inconclusive() -> i32 {
    5
}

/// A query whose value is to lie within bounds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(rename_all = "camelCase")]
#[garde(allow_unvalidated)]
pub struct PrometheusQuery {
    /// URL of Prometheus, such as http://prometheus.monitoring:9090.
    #[garde(length(min = 1, max = 1024), custom(webhook_rules::is_url))]
    pub address: String,
    /// PromQL that gives one value.
    #[garde(length(min = 1, max = 4096), custom(webhook_rules::knows_variables))]
    pub query: String,
    /// The least value that passes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<f64>,
    /// The greatest value that passes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<f64>,
    /// Seconds that an answer may take.
    #[garde(range(min = 1, max = 30))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<i32>,
}

/// What the last measurement of a check came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CheckStatus {
    /// Its name.
    pub name: String,
    /// The stage that it was measured at.
    pub stage: i32,
    /// What it came to.
    pub result: CheckResult,
    /// The value, or the HTTP status of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// When it was begun.
    #[schemars(schema_with = "timestamp")]
    pub time: Timestamp,
    /// Failed measurements in a row at this stage.
    #[serde(default)]
    pub failures: i32,
    /// Measurements in a row at this stage without a result.
    #[serde(default)]
    pub inconclusive: i32,
    /// The same in words, at most 256 characters.
    #[serde(default)]
    pub message: String,
}

/// What a measurement came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum CheckResult {
    /// It is as it should be.
    Passed,
    /// It is not.
    Failed,
    /// Nobody knows.
    Inconclusive,
}

impl CheckResult {
    /// The result's name, as it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Passed => "Passed",
            Self::Failed => "Failed",
            Self::Inconclusive => "Inconclusive",
        }
    }
}
