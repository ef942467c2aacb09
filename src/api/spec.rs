//! What a user asks for.

use garde::Validate;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Check, GrayRolloutStatus, Hook, IntOrPercent, webhook_rules};

/// Rolls a Deployment's new pod template out in stages, and waits for approval between them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, Validate, CustomResource)]
#[kube(
    group = "grayrollout.dev",
    version = "v1alpha1",
    kind = "GrayRollout",
    plural = "grayrollouts",
    shortname = "gr",
    category = "all",
    namespaced,
    status = "GrayRolloutStatus",
    printcolumn = r#"{"name":"Target","type":"string","jsonPath":".spec.targetRef.name"}"#,
    printcolumn = r#"{"name":"Phase","type":"string","jsonPath":".status.phase"}"#,
    printcolumn = r#"{"name":"Stage","type":"string","jsonPath":".status.progress"}"#,
    printcolumn = r#"{"name":"Percent","type":"integer","jsonPath":".status.actualPercent"}"#,
    printcolumn = r#"{"name":"Updated","type":"string","jsonPath":".status.updated"}"#,
    printcolumn = r#"{"name":"Rollout","type":"integer","jsonPath":".status.rollout","priority":1}"#,
    printcolumn = r#"{"name":"Approved-By","type":"string","jsonPath":".status.approval.by","priority":1}"#,
    printcolumn = r#"{"name":"Message","type":"string","jsonPath":".status.message","priority":1}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
#[garde(allow_unvalidated)]
pub struct GrayRolloutSpec {
    /// The Deployment to roll out, in the same namespace. It cannot be changed later.
    #[garde(dive)]
    pub target_ref: TargetRef,
    /// The stages in order: strictly increasing shares of the pods, the last one 100.
    #[garde(length(min = 1, max = 20), dive)]
    pub stages: Vec<Stage>,
    /// Keeps old and new pods at their present split; it still follows a change of replicas.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
    /// Most pods above `spec.replicas` at any moment, as a number or a percentage (rounded up).
    /// Defaults to the Deployment's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_surge: Option<IntOrPercent>,
    /// Most pods of `spec.replicas` that may be unavailable because of the rollout, as a number or
    /// a percentage (rounded down). Defaults to 0, or, where maxSurge resolves to 0, to the
    /// Deployment's own (at least 1).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<IntOrPercent>,
    /// Seconds without progress, while pods are expected to move, after which the rollout is
    /// Stalled. Defaults to the Deployment's own.
    #[garde(range(min = 1, max = 2_147_483_647))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress_deadline_seconds: Option<i32>,
    /// Least seconds between one batch of new pods and the next inside of a rollout. 0, the
    /// default, is none; at most 30 days. Going back, a change of replicas and the repair of lost
    /// pods never wait.
    #[garde(range(min = 0, max = 2_592_000))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_interval_seconds: Option<i32>,
    /// What a missed deadline or a failed check does: Pause holds the pods as they are, Rollback
    /// goes back to the
    /// stable revision.
    #[serde(default, skip_serializing_if = "OnFailure::is_default")]
    pub on_failure: OnFailure,
    /// What deleting this object in the middle of a rollout does with the Deployment: Hold keeps
    /// the present share and leaves it paused, Rollback goes back to the stable revision, Promote
    /// lets the new revision go on unstaged.
    #[serde(default, skip_serializing_if = "OnDelete::is_default")]
    pub on_delete: OnDelete,
    /// Whether a terminating pod still counts against `spec.replicas` plus maxSurge.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub wait_for_termination: bool,
    /// What is measured before a stage may be left.
    #[garde(length(max = 10), custom(webhook_rules::checks_fit(self.stages.len())), dive)]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<Check>,
    /// Own code that is called as a rollout goes on.
    #[garde(length(max = 10), custom(webhook_rules::names_differ), dive)]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hooks: Vec<Hook>,
    /// Twin of status.approval for approvals made in Git; the higher of the two counts.
    #[garde(dive)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<SpecApproval>,
}

/// The Deployment to roll out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(rename_all = "camelCase")]
#[garde(allow_unvalidated)]
pub struct TargetRef {
    /// Always apps/v1.
    #[serde(default = "apps_v1")]
    pub api_version: String,
    /// Always Deployment.
    #[serde(default = "deployment")]
    pub kind: String,
    /// Name of the Deployment.
    #[garde(length(min = 1, max = 253))]
    pub name: String,
}

fn apps_v1() -> String {
    "apps/v1".into()
}

fn deployment() -> String {
    "Deployment".into()
}

/// One stage: a share of the pods, and what it takes to enter and to leave it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(rename_all = "camelCase")]
#[garde(allow_unvalidated)]
pub struct Stage {
    /// Share of `spec.replicas` on the new revision, 1 to 100.
    #[garde(range(min = 1, max = 100))]
    pub percent: i32,
    /// Seconds that every pod of the stage must have been available before the stage is left, or,
    /// at 100, the rollout is completed. At most 30 days.
    #[garde(range(min = 0, max = 2_592_000))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub soak_seconds: Option<i32>,
    /// What entering this stage needs. Defaults to Automatic for the first stage, to Required for
    /// every other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<Approval>,
}

/// What entering a stage needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Approval {
    /// Someone approves it.
    Required,
    /// Nothing: it is entered as soon as the stage before it may be left.
    Automatic,
}

/// What a missed deadline or a failed check does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub enum OnFailure {
    /// The pods stay as they are until someone acts.
    #[default]
    Pause,
    /// Back to the stable revision.
    Rollback,
}

impl OnFailure {
    #[allow(clippy::trivially_copy_pass_by_ref)] // serde passes a reference
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// What deleting the `GrayRollout` in the middle of a rollout does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub enum OnDelete {
    /// The Deployment stays paused at the present share.
    #[default]
    Hold,
    /// Back to the stable revision, its template put back.
    Rollback,
    /// Unpaused: the Deployment controller rolls the new revision out.
    Promote,
}

impl OnDelete {
    #[allow(clippy::trivially_copy_pass_by_ref)] // serde passes a reference
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// An approval made in Git: it names the revision too, so that it cannot meet another one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(rename_all = "camelCase")]
#[garde(allow_unvalidated)]
pub struct SpecApproval {
    /// The number of the rollout (status.rollout) that is approved.
    #[garde(range(min = 1, max = 1_000_000_000))]
    pub rollout: i64,
    /// The revision (status.updateRevision) that is approved.
    #[garde(length(min = 1, max = 63))]
    pub revision: String,
    /// The highest stage that may be entered.
    #[garde(range(min = 1, max = 20))]
    pub stage: i32,
    /// Who approved; the policy grayrollout-stamp fills it in.
    #[garde(length(max = 253))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

impl GrayRolloutSpec {
    /// What entering stage `number` (from 1) needs.
    #[must_use]
    pub fn approval_of(&self, number: usize) -> Approval {
        let default = if number == 1 { Approval::Automatic } else { Approval::Required };
        number
            .checked_sub(1)
            .and_then(|index| self.stages.get(index))
            .and_then(|stage| stage.approval)
            .unwrap_or(default)
    }
}
