//! What the plan asks for.

use std::time::Duration;

use super::{Original, TemplateHash, calls::Call};
use crate::api::{GrayRolloutStatus, HistoryResult, Strategy};

/// What is to be done for one `GrayRollout`.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The status to write, and when.
    pub status: GrayRolloutStatus,
    /// When the status is to be written.
    pub write: StatusWrite,
    /// Events of what the status records; published once it is written.
    pub recorded: Vec<Event>,
    /// The writes to the Deployment and its ReplicaSets, in this order; the first one that fails
    /// ends the pass.
    pub actions: Vec<Action>,
    /// Events of what the actions did; published once all are done.
    pub acted: Vec<Event>,
    /// The calls to the world outside that are to be under way now; all others end.
    pub calls: Vec<Call>,
    /// When to plan again though nothing was seen to change.
    pub requeue_after: Option<Duration>,
}

/// What is to be done for a Deployment whose `GrayRollout` is gone.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ReleasePlan {
    /// The writes, in this order; the first one that fails ends the pass.
    pub actions: Vec<Action>,
    /// Events on the Deployment, published once all actions are done.
    pub events: Vec<Event>,
    /// When to plan again though nothing was seen to change.
    pub requeue_after: Option<Duration>,
}

/// When a status is to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatusWrite {
    /// Nothing changed.
    None,
    /// Only counts and messages changed: at the latest after a moment, together with what follows.
    Soon,
    /// Something changed that people wait for: now, after the actions.
    Now,
    /// A decision that the actions rest on: now, and the actions only once it is written.
    First,
    /// A decision, and actions that move no pod and are right without it: now, both at once.
    Beside,
}

/// One write to the Deployment or a ReplicaSet. Each carries the resourceVersion or UID it was
/// planned for.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Changes the Deployment's form.
    PatchDeployment(DeploymentPatch),
    /// Creates the ReplicaSet of the Deployment's present template.
    CreateReplicaSet {
        /// The template's fingerprint; a Deployment with another one by now is a conflict.
        template: TemplateHash,
        /// spec.replicas.
        replicas: i32,
        /// The annotation desired-replicas; absent where the native controller must not take the
        /// ReplicaSet for saturated.
        desired: Option<i32>,
        /// The annotation max-replicas.
        max: Option<i32>,
    },
    /// Sets a ReplicaSet's size and both size annotations.
    ScaleReplicaSet {
        /// Its name.
        name: String,
        /// Its UID.
        uid: String,
        /// Its resourceVersion.
        resource_version: String,
        /// spec.replicas.
        replicas: i32,
        /// The annotation desired-replicas; `None` removes it.
        desired: Option<i32>,
        /// The annotation max-replicas; `None` removes it.
        max: Option<i32>,
    },
    /// Deletes an empty ReplicaSet.
    DeleteReplicaSet {
        /// Its name.
        name: String,
        /// Its UID.
        uid: String,
        /// Its resourceVersion.
        resource_version: String,
    },
}

/// A change of the Deployment's form, in one merge patch with UID and resourceVersion.
#[derive(Debug, Clone, PartialEq)]
pub struct DeploymentPatch {
    /// The Deployment's UID.
    pub uid: String,
    /// The Deployment's resourceVersion.
    pub resource_version: String,
    /// spec.paused, where it changes.
    pub paused: Option<bool>,
    /// The whole spec.strategy, where it changes, so that nothing of the earlier one is left.
    pub strategy: Option<Strategy>,
    /// The annotation grayrollout.dev/original.
    pub original: AnnotationChange<Original>,
    /// The annotation grayrollout.dev/rollout.
    pub rollout: AnnotationChange<String>,
    /// Name of the ReplicaSet whose template is put back into the Deployment, without the label
    /// pod-template-hash, as `kubectl rollout undo` does.
    pub template_of: Option<String>,
}

impl DeploymentPatch {
    /// Whether it only brings the Deployment, which says what it was, into the form in which the
    /// native controller changes no size.
    #[must_use]
    pub fn only_quiets(&self) -> bool {
        self.strategy == Some(Strategy::Recreate)
            && self.paused != Some(false)
            && self.original == AnnotationChange::Keep
            && self.rollout == AnnotationChange::Keep
            && self.template_of.is_none()
    }
}

/// A change of one annotation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AnnotationChange<T> {
    /// It stays as it is.
    Keep,
    /// It is set.
    Set(T),
    /// It is removed.
    Remove,
}

/// Something that people are told.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// What happened.
    pub kind: EventKind,
    /// The same in words.
    pub message: String,
    /// Where it is told.
    pub on: EventOn,
}

/// The objects that an event is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventOn {
    /// The `GrayRollout` alone.
    Rollout,
    /// It and the Deployment, since pods change.
    Both,
    /// The Deployment alone.
    Target,
}

/// What happened. The name is the event's reason.
#[derive(Debug, Clone, PartialEq)]
pub enum EventKind {
    /// A new template starts at its first stage.
    RolloutStarted,
    /// The new revision's ReplicaSet was created.
    ReplicaSetCreated,
    /// Sizes follow a new stage, a change of replicas, or the way back.
    ReplicaSetScaled,
    /// Every pod of a stage is available.
    StageReached {
        /// Seconds from entering the stage to this.
        after_seconds: f64,
    },
    /// The next stage waits for an approval.
    AwaitingApproval {
        /// Seconds from entering the stage until all its pods were available.
        after_seconds: f64,
    },
    /// A stage was approved and entered.
    StageApproved {
        /// Seconds that it waited for the approval.
        waited_seconds: f64,
    },
    /// An approval does not count.
    ApprovalIgnored,
    /// The template changed before the rollout was through.
    RolloutSuperseded,
    /// The stages changed before the rollout was through.
    StagesEdited,
    /// Fully rolled out and given back.
    RolloutCompleted {
        /// How it ended: Completed or RevertedByTemplate.
        result: HistoryResult,
        /// Seconds since it started.
        after_seconds: f64,
    },
    /// Someone aborted the rollout.
    RolloutAborted,
    /// Going back to the stable revision.
    RollbackStarted,
    /// Back on the stable revision.
    RolledBack {
        /// How the rollout ended: Aborted or Failed.
        result: HistoryResult,
        /// Seconds since it started.
        after_seconds: f64,
    },
    /// No progress within the deadline.
    ProgressDeadlineExceeded,
    /// The target does not exist.
    TargetNotFound,
    /// Someone else changed what the rollout holds; it was put back.
    DriftCorrected {
        /// What was changed: paused, strategy, annotations, replicas.
        field: &'static str,
    },
    /// The ReplicaSet of the stable revision is gone.
    StableLost,
    /// Pods cannot be created.
    ReplicaFailure,
    /// The Deployment's annotation asks for stages that make no sense.
    InvalidStages,
    /// The Deployment's annotation asks for stages, and a `GrayRollout` of someone else has them.
    StagesIgnored,
    /// A `GrayRollout` was made from the Deployment's annotation.
    GrayRolloutCreated,
    /// The annotation that the `GrayRollout` was made from is gone, and so is that.
    GrayRolloutDeleted,
    /// A check failed, failed the stage, or has long had no result.
    CheckFailed,
    /// A hook failed; it is called again, unless failures are to be ignored.
    HookFailed,
    /// A hook answered with a message.
    HookMessage,
}

impl EventKind {
    /// The event's reason.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::RolloutStarted => "RolloutStarted",
            Self::ReplicaSetCreated => "ReplicaSetCreated",
            Self::ReplicaSetScaled => "ReplicaSetScaled",
            Self::StageReached { .. } => "StageReached",
            Self::AwaitingApproval { .. } => "AwaitingApproval",
            Self::StageApproved { .. } => "StageApproved",
            Self::ApprovalIgnored => "ApprovalIgnored",
            Self::RolloutSuperseded => "RolloutSuperseded",
            Self::StagesEdited => "StagesEdited",
            Self::RolloutCompleted { .. } => "RolloutCompleted",
            Self::RolloutAborted => "RolloutAborted",
            Self::RollbackStarted => "RollbackStarted",
            Self::RolledBack { .. } => "RolledBack",
            Self::ProgressDeadlineExceeded => "ProgressDeadlineExceeded",
            Self::TargetNotFound => "TargetNotFound",
            Self::DriftCorrected { .. } => "DriftCorrected",
            Self::StableLost => "StableLost",
            Self::ReplicaFailure => "ReplicaFailure",
            Self::InvalidStages => "InvalidStages",
            Self::StagesIgnored => "StagesIgnored",
            Self::GrayRolloutCreated => "GrayRolloutCreated",
            Self::GrayRolloutDeleted => "GrayRolloutDeleted",
            Self::CheckFailed => "CheckFailed",
            Self::HookFailed => "HookFailed",
            Self::HookMessage => "HookMessage",
        }
    }

    /// Whether the event's type is Warning rather than Normal.
    #[must_use]
    pub fn is_warning(&self) -> bool {
        matches!(
            self,
            Self::ApprovalIgnored
                | Self::ProgressDeadlineExceeded
                | Self::TargetNotFound
                | Self::DriftCorrected { .. }
                | Self::StableLost
                | Self::ReplicaFailure
                | Self::InvalidStages
                | Self::StagesIgnored
                | Self::CheckFailed
                | Self::HookFailed
        )
    }
}
