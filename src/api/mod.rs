//! The `GrayRollout` custom resource: its types, bounds, CEL rules and conditions.
//!
//! Group `grayrollout.dev`, version `v1alpha1`. The names follow the Kubernetes API conventions.

#[cfg(test)]
mod agreement_tests;
mod checks;
mod conditions;
mod crd;
mod hooks;
mod quantity;
mod rules;
mod spec;
mod status;
mod strategy;
mod webhook_rules;

pub use checks::{Check, CheckResult, CheckStatus, PrometheusQuery};
pub use conditions::{Condition, ConditionStatus, ConditionType, Reason};
pub use crd::crd;
pub use hooks::{
    FailurePolicy, Hook, HookCall, HookEvent, HookLedger, HookResult, HookStatus, HookStep,
    ToldPods, Webhook,
};
pub use quantity::IntOrPercent;
pub use spec::{
    Approval, GrayRollout, GrayRolloutSpec, OnDelete, OnFailure, SpecApproval, Stage, TargetRef,
};
pub use status::{
    Abort, GrayRolloutStatus, HistoryEntry, HistoryResult, Hold, Phase, Progress, Retry, Split,
    StatusApproval, Step, Track,
};

pub use strategy::{RollingUpdate, Strategy};
pub use webhook_rules::VARIABLES;

/// The API group.
pub const GROUP: &str = "grayrollout.dev";
/// Field manager of every write of the operator.
pub const FIELD_MANAGER: &str = "grayrollout";
/// Annotation on a Deployment: what to restore when it is given back, and how.
pub const ORIGINAL_ANNOTATION: &str = "grayrollout.dev/original";
/// Annotation on a Deployment, present while something rolls out: the name of its `GrayRollout`.
pub const ROLLOUT_ANNOTATION: &str = "grayrollout.dev/rollout";
/// Annotation on a Deployment: percentages of stages, for which the operator makes a `GrayRollout`;
/// on that `GrayRollout` it tells what it was made from.
pub const STAGES_ANNOTATION: &str = "grayrollout.dev/stages";
/// Most stages one rollout can have.
pub const MAX_STAGES: usize = 20;
/// Most entries kept in `status.history`.
pub const MAX_HISTORY: usize = 10;
