//! The conditions of a `GrayRollout`, in the shape of metav1.Condition.

use jiff::Timestamp;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// One aspect of the present state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// Which aspect.
    #[serde(rename = "type")]
    pub type_: ConditionType,
    /// Whether it holds.
    pub status: ConditionStatus,
    /// The generation of the spec that it speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// When `status` last changed.
    #[schemars(schema_with = "timestamp")]
    pub last_transition_time: Timestamp,
    /// Why, in one word.
    pub reason: Reason,
    /// Why, in words.
    pub message: String,
}

fn timestamp(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "format": "date-time" })
}

/// The aspects that are reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ConditionType {
    /// The Deployment runs its template and enough pods are available.
    Ready,
    /// Pods move, or a stage soaks.
    Progressing,
    /// The next stage waits for an approval.
    AwaitingApproval,
    /// The rollout cannot go on by itself.
    Stalled,
}

/// Whether a condition holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ConditionStatus {
    /// It holds.
    True,
    /// It does not.
    False,
    /// It is not known.
    Unknown,
}

/// Why a condition is as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum Reason {
    /// The target does not exist.
    TargetNotFound,
    /// A rollout is under way.
    RolloutInProgress,
    /// The pods of the stage are being moved.
    StageMoving,
    /// The stage's soak time passes.
    Soaking,
    /// The stage is reached and has soaked; a check has yet to pass.
    AwaitingChecks,
    /// The Deployment has no replicas, so no stage is entered or left.
    ScaledToZero,
    /// The Deployment's first pods start; there is nothing older to keep.
    FirstDeploy,
    /// The next stage waits for an approval.
    AwaitingApproval,
    /// The stage is reached and may be left.
    StageReached,
    /// Paused by the user.
    Paused,
    /// No progress within the deadline.
    ProgressDeadlineExceeded,
    /// The spec cannot be followed.
    InvalidSpec,
    /// The Deployment's pod template cannot be rolled out.
    InvalidTemplate,
    /// The Deployment's strategy cannot be staged.
    UnsupportedStrategy,
    /// An older `GrayRollout` has the same target.
    TargetConflict,
    /// Pods cannot be created.
    ReplicaFailure,
    /// A check failed, or has long had no result.
    ChecksFailed,
    /// The stable revision's ReplicaSet is gone.
    StableLost,
    /// Going back to the stable revision.
    RollingBack,
    /// Back on the stable revision.
    RolledBack,
    /// Nothing is rolling out.
    Completed,
    /// Nothing is rolling out, but too few pods are available.
    PodsUnavailable,
}

impl Reason {
    /// The reason's name, as it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::TargetNotFound => "TargetNotFound",
            Self::RolloutInProgress => "RolloutInProgress",
            Self::StageMoving => "StageMoving",
            Self::Soaking => "Soaking",
            Self::AwaitingChecks => "AwaitingChecks",
            Self::ScaledToZero => "ScaledToZero",
            Self::FirstDeploy => "FirstDeploy",
            Self::AwaitingApproval => "AwaitingApproval",
            Self::StageReached => "StageReached",
            Self::Paused => "Paused",
            Self::ProgressDeadlineExceeded => "ProgressDeadlineExceeded",
            Self::InvalidSpec => "InvalidSpec",
            Self::InvalidTemplate => "InvalidTemplate",
            Self::UnsupportedStrategy => "UnsupportedStrategy",
            Self::TargetConflict => "TargetConflict",
            Self::ReplicaFailure => "ReplicaFailure",
            Self::ChecksFailed => "ChecksFailed",
            Self::StableLost => "StableLost",
            Self::RollingBack => "RollingBack",
            Self::RolledBack => "RolledBack",
            Self::Completed => "Completed",
            Self::PodsUnavailable => "PodsUnavailable",
        }
    }
}
