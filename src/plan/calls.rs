//! Calls to the world outside: what is to be asked now, and what was answered.
//!
//! A call stays in the plan until its answer is recorded in the status, so that whoever carries it
//! out needs no judgement: what is in the plan is under way or answered, what is not is dropped.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Rollout, Target};
use crate::api::{GrayRolloutStatus, HookEvent};

/// One call to make now.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// Which call of this rollout it is: the same as long as it is unanswered, another one for the
    /// next try or measurement.
    pub id: String,
    /// What it is for.
    pub purpose: Purpose,
    /// What is sent.
    pub request: CallRequest,
    /// How long the answer may take.
    pub timeout: Duration,
}

/// What a call is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// A measurement of a check.
    Check,
    /// A hook at this event.
    Hook(HookEvent),
}

/// What is sent.
#[derive(Debug, Clone, PartialEq)]
pub enum CallRequest {
    /// A query to Prometheus.
    Query {
        /// URL of Prometheus.
        address: String,
        /// The query in PromQL.
        query: String,
    },
    /// A POST of JSON.
    Post {
        /// The URL.
        url: String,
        /// The idempotency key.
        key: String,
        /// The body.
        body: Value,
    },
}

/// What came of a call.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The call's id.
    pub id: String,
    /// When it was begun.
    pub begun: Timestamp,
    /// When it ended.
    pub ended: Timestamp,
    /// What it came to.
    pub outcome: Outcome,
}

/// What a call came to.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// Prometheus gave one value; it may be NaN or infinite.
    Value(f64),
    /// A webhook answered.
    Http {
        /// The HTTP status.
        status: u16,
        /// What it said, if anything.
        message: String,
    },
    /// There is no answer that can be used; why.
    None(String),
}

/// Most characters of a message from outside.
const MOST: usize = 256;

/// A message as it goes into a status: printable, and not too long.
pub fn cut(message: &str) -> String {
    let clean = message.trim().chars().map(|c| if c.is_control() { ' ' } else { c });
    clean.take(MOST).collect()
}

/// A time from the specification, which may be anything.
pub fn seconds(given: Option<i32>, default: u64) -> Duration {
    Duration::from_secs(given.and_then(|s| u64::try_from(s).ok()).unwrap_or(default).clamp(1, 30))
}

/// What every body says of the rollout.
pub fn identity(rollout: &Rollout, target: &Target, status: &GrayRolloutStatus) -> Value {
    json!({
        "namespace": rollout.namespace,
        "name": rollout.name,
        "uid": rollout.uid,
        "deployment": target.name,
        "rollout": status.rollout,
        "stages": status.stages,
        "replicas": target.replicas,
        "stableRevision": status.stable_revision,
        "updateRevision": status.update_revision,
    })
}
