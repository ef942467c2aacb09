//! Hooks: own code that is called as a rollout goes on.

use garde::Validate;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{status::timestamp, webhook_rules};

/// A webhook that is called at some steps of a rollout.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(rename_all = "camelCase")]
#[garde(allow_unvalidated)]
pub struct Hook {
    /// Its name, unique among the hooks.
    #[garde(length(min = 1, max = 63), custom(webhook_rules::is_name))]
    pub name: String,
    /// What it is called at.
    #[garde(length(min = 1, max = 9), custom(webhook_rules::are_different))]
    pub on: Vec<HookEvent>,
    /// What is called, with POST; 2xx means that it is done.
    #[garde(dive)]
    pub webhook: Webhook,
    /// What a call that fails does: Block calls again and holds what waits for it, Ignore goes on.
    #[serde(default, skip_serializing_if = "FailurePolicy::is_default")]
    pub failure_policy: FailurePolicy,
}

/// An HTTP endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(rename_all = "camelCase")]
#[garde(allow_unvalidated)]
pub struct Webhook {
    /// Such as http://name.namespace:8080/path?revision=${updateRevision}.
    #[garde(length(min = 1, max = 1024), custom(webhook_rules::is_url))]
    pub url: String,
    /// Seconds that an answer may take; 5 for a check, 10 for a hook if left out.
    #[garde(range(min = 1, max = 30))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<i32>,
}

/// What a hook is called at.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum HookEvent {
    /// A stage was entered, and no pod has moved for it yet.
    StageStarting,
    /// A ReplicaSet is about to get more pods.
    PodsAdding,
    /// Pods of a ReplicaSet became available.
    PodsAdded,
    /// A ReplicaSet is about to get fewer pods.
    PodsRemoving,
    /// Pods of a ReplicaSet are gone.
    PodsRemoved,
    /// Every pod of a stage is available.
    StageReached,
    /// The rollout is through.
    Completed,
    /// It goes back to the stable revision, and no pod has moved for that yet.
    RollingBack,
    /// Every pod runs the stable revision again.
    RolledBack,
}

impl HookEvent {
    /// Every event.
    pub const ALL: [Self; 9] = [
        Self::StageStarting,
        Self::PodsAdding,
        Self::PodsAdded,
        Self::PodsRemoving,
        Self::PodsRemoved,
        Self::StageReached,
        Self::Completed,
        Self::RollingBack,
        Self::RolledBack,
    ];

    /// The event's name, as it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::StageStarting => "StageStarting",
            Self::PodsAdding => "PodsAdding",
            Self::PodsAdded => "PodsAdded",
            Self::PodsRemoving => "PodsRemoving",
            Self::PodsRemoved => "PodsRemoved",
            Self::StageReached => "StageReached",
            Self::Completed => "Completed",
            Self::RollingBack => "RollingBack",
            Self::RolledBack => "RolledBack",
        }
    }

    /// Whether it speaks of pods, with counts from and to.
    #[must_use]
    pub fn counts_pods(self) -> bool {
        matches!(self, Self::PodsAdding | Self::PodsAdded | Self::PodsRemoving | Self::PodsRemoved)
    }
}

/// What a call that fails does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub enum FailurePolicy {
    /// It is called again, and what waits for it is held.
    #[default]
    Block,
    /// The rollout goes on.
    Ignore,
}

impl FailurePolicy {
    #[allow(clippy::trivially_copy_pass_by_ref)] // serde passes a reference
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// What the last call of a hook came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HookStatus {
    /// Its name.
    pub name: String,
    /// What it was called at.
    pub event: HookEvent,
    /// What the call came to.
    pub result: HookResult,
    /// When it ended.
    #[schemars(schema_with = "timestamp")]
    pub time: Timestamp,
    /// Failed calls in a row for the same step.
    #[serde(default)]
    pub failures: i32,
    /// What it answered, or why it failed, at most 256 characters.
    #[serde(default)]
    pub message: String,
}

/// What a call came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum HookResult {
    /// It answered with 2xx.
    Done,
    /// It did not.
    Failed,
}

impl HookResult {
    /// The result's name, as it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Done => "Done",
            Self::Failed => "Failed",
        }
    }
}

/// How far hooks have been told of a rollout: what is recorded here is not told again.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HookLedger {
    /// The number of the rollout that it speaks of.
    pub rollout: i64,
    /// The last stage whose StageStarting is over.
    #[serde(skip_serializing_if = "is_zero")]
    pub started: i32,
    /// The last stage whose StageReached is over.
    #[serde(skip_serializing_if = "is_zero")]
    pub reached: i32,
    /// Whether RollingBack is over.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub turned_back: bool,
    /// Pods of each revision that PodsAdded and PodsRemoved have told of.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub told: Vec<ToldPods>,
    /// Hooks that failed on the way back, so that pods wait for them no more.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub given_up: Vec<String>,
    /// The steps at hand, in the order they came about.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<HookStep>,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde passes a reference
fn is_zero(number: &i32) -> bool {
    *number == 0
}

/// Pods that hooks know of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToldPods {
    /// pod-template-hash of their revision.
    pub revision: String,
    /// How many.
    pub pods: i32,
}

/// Something that hooks are called for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HookStep {
    /// What it is.
    pub event: HookEvent,
    /// The number of the rollout.
    pub rollout: i64,
    /// The stage.
    pub stage: i32,
    /// Since when it is at hand.
    pub since: Timestamp,
    /// pod-template-hash of the revision whose pods it speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// metadata.generation of the ReplicaSet then, so that the same counts can be told again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
    /// Its pods before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<i32>,
    /// And after.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<i32>,
    /// The calls so far, one entry for each hook.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<HookCall>,
}

/// The calls of one hook for one step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HookCall {
    /// Name of the hook.
    pub hook: String,
    /// Whether it is done.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub done: bool,
    /// Calls that failed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failures: i32,
    /// When the last one ended.
    pub time: Timestamp,
}
