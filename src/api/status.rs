//! What the operator observed and decided.

use jiff::Timestamp;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::{CheckStatus, Condition, HookLedger, HookStatus, Strategy};

pub(super) fn timestamp(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "format": "date-time" })
}

/// What only the operator reads needs no schema, which would be long.
fn any_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
}

/// What the operator observed and decided, and what people ask of the rollout at hand.
///
/// `approval`, `abort` and `retry` are written by people, all other fields by the operator.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct GrayRolloutStatus {
    /// The generation of the spec that this status speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// UID of the Deployment that this status speaks of.
    #[serde(rename = "targetUID", skip_serializing_if = "Option::is_none")]
    pub target_uid: Option<String>,
    // Nothing is decided on an older state of it, as one that lags behind might show.
    /// The Deployment's metadata.generation that this status rests on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_generation: Option<i64>,
    /// Where the rollout stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// What is going on, what it waits for and what to do, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Number of this rollout of this object; it grows and is never reused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollout: Option<i64>,
    /// The stage being moved to or held, from 1; 0 before the first is entered; absent when
    /// nothing is rolling out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stage: Option<i32>,
    /// How many stages this rollout has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stages: Option<i32>,
    /// The percentages of the stages that this rollout number runs with.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stage_percents: Vec<i32>,
    /// Stage and stages, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<String>,
    /// Available and asked pods of the new revision, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub updated: Option<String>,
    /// When this rollout number started.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "timestamp")]
    pub started_at: Option<Timestamp>,
    /// When the stage was entered.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "timestamp")]
    pub stage_started_at: Option<Timestamp>,
    /// When every pod of the stage became available.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "timestamp")]
    pub stage_reached_at: Option<Timestamp>,
    /// The last progress, from which the deadline counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_progress: Option<Progress>,
    /// The last batch of new pods, from which stepIntervalSeconds counts; absent without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_step: Option<Step>,
    /// Share of the stage, in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub desired_percent: Option<i32>,
    /// Share of the pods that run the new revision, in percent, rounded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actual_percent: Option<i32>,
    /// A split that is kept instead of the stage's share: while paused between two stages, or
    /// where a rollout was taken over or its stages were edited so that none of them matches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub split: Option<Split>,
    /// The Deployment's spec.replicas as last seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// pod-template-hash of the revision to return to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stable_revision: Option<String>,
    /// pod-template-hash of the revision being rolled out; equal to stableRevision when Completed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update_revision: Option<String>,
    /// Fingerprint of the pod template that this status speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template_hash: Option<String>,
    // What is restored is saved on the Deployment; this is for where someone removes it there.
    /// The Deployment's own strategy, while it is replaced for a rollout.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub own_strategy: Option<Strategy>,
    /// The pods of the stable revision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stable: Option<Track>,
    /// The pods of the new revision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update: Option<Track>,
    /// What stops an unapproved template while nothing is rolling out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hold: Option<Hold>,
    /// Written by people: the highest stage of a rollout that may be entered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval: Option<StatusApproval>,
    /// Written by people: the rollout to go back from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub abort: Option<Abort>,
    /// Written by people: the aborted or failed rollout to start again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// The last measurement of each check.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<CheckStatus>,
    /// The last call of each hook.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hooks: Vec<HookStatus>,
    /// How far hooks have been told of this rollout.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "any_object")]
    pub hook_ledger: Option<Box<HookLedger>>,
    /// Earlier rollouts, newest first, at most 10.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<HistoryEntry>,
    /// Ready, Progressing, AwaitingApproval and Stalled.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// Where a rollout stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum Phase {
    /// There is no target yet.
    Pending,
    /// Pods move, or a stage soaks.
    Progressing,
    /// The next stage may be entered once someone approves it.
    AwaitingApproval,
    /// Paused by the user.
    Paused,
    /// It cannot go on by itself; the reason is in the conditions.
    Stalled,
    /// Going back to the stable revision.
    RollingBack,
    /// Back on the stable revision until the template changes or a retry.
    RolledBack,
    /// Nothing is rolling out: the Deployment runs its template.
    Completed,
}

impl Phase {
    /// Every phase.
    pub const ALL: [Self; 8] = [
        Self::Pending,
        Self::Progressing,
        Self::AwaitingApproval,
        Self::Paused,
        Self::Stalled,
        Self::RollingBack,
        Self::RolledBack,
        Self::Completed,
    ];

    /// The phase's name, as it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Progressing => "Progressing",
            Self::AwaitingApproval => "AwaitingApproval",
            Self::Paused => "Paused",
            Self::Stalled => "Stalled",
            Self::RollingBack => "RollingBack",
            Self::RolledBack => "RolledBack",
            Self::Completed => "Completed",
        }
    }
}

/// The last progress of a rollout.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Progress {
    /// When it was made.
    #[schemars(schema_with = "timestamp")]
    pub time: Timestamp,
    /// The most pods of the growing revision seen available at once since the pods were last
    /// told to move.
    pub available: i32,
}

/// A batch of new pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    /// When it was written.
    #[schemars(schema_with = "timestamp")]
    pub time: Timestamp,
    /// The Deployment's spec.replicas at that moment.
    pub replicas: i32,
    /// Pods of the new revision that it led to.
    pub update: i32,
}

/// A split of the pods between old and new.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Split {
    /// The Deployment's spec.replicas at that moment.
    pub replicas: i32,
    /// Pods of the new revision out of these.
    pub update: i32,
}

/// The pods of one revision.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Track {
    /// Name of the ReplicaSet; absent before it is made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replica_set: Option<String>,
    /// Pods that are asked of it at this stage.
    pub desired: i32,
    /// Pods that exist.
    pub current: i32,
    /// Pods that are available.
    pub available: i32,
}

/// What stops an unapproved template while nothing is rolling out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Hold {
    /// An admission policy pauses the Deployment in the write that changes its template.
    Admission,
    /// The Deployment rests paused.
    Paused,
}

/// An approval: the highest stage of one rollout that may be entered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatusApproval {
    /// The number of the rollout (status.rollout) that is approved.
    pub rollout: i64,
    /// The highest stage that may be entered.
    pub stage: i32,
    /// Who approved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// Goes back to the stable revision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Abort {
    /// The number of the rollout (status.rollout) to go back from.
    pub rollout: i64,
}

/// Starts an aborted or failed rollout again, as the next number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Retry {
    /// The number of the aborted or failed rollout (status.rollout).
    pub rollout: i64,
}

/// How an earlier rollout ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HistoryEntry {
    /// Its number.
    pub rollout: i64,
    /// pod-template-hash of what it rolled out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// How it ended.
    pub result: HistoryResult,
    /// When it started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "timestamp")]
    pub started_at: Option<Timestamp>,
    /// When it ended; absent while it still goes back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "timestamp")]
    pub finished_at: Option<Timestamp>,
}

/// How a rollout ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum HistoryResult {
    /// Fully rolled out.
    Completed,
    /// Someone aborted it.
    Aborted,
    /// It missed its deadline or failed a check, and went back.
    Failed,
    /// The template changed again.
    Superseded,
    /// The template was set back to the stable revision's.
    RevertedByTemplate,
}

impl HistoryResult {
    /// Every result.
    pub const ALL: [Self; 5] =
        [Self::Completed, Self::Aborted, Self::Failed, Self::Superseded, Self::RevertedByTemplate];

    /// The result's name, as it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "Completed",
            Self::Aborted => "Aborted",
            Self::Failed => "Failed",
            Self::Superseded => "Superseded",
            Self::RevertedByTemplate => "RevertedByTemplate",
        }
    }
}
