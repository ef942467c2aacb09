//! The decision: from what is seen to what is to be done, pure and total.

mod action;
mod snapshot;

pub use action::{
    Action, AnnotationChange, DeploymentPatch, Event, EventKind, Plan, ReleasePlan, StatusWrite,
};
pub use snapshot::{
    Original, Orphan, ReplicaSet, RollingUpdate, Rollout, Snapshot, Strategy, Target, TemplateHash,
};

/// Decides what is to be done for one `GrayRollout`.
#[must_use]
pub fn plan(snapshot: &Snapshot) -> Plan {
    Plan {
        status: snapshot.rollout.status.clone(),
        write: StatusWrite::None,
        recorded: Vec::new(),
        actions: Vec::new(),
        acted: Vec::new(),
        requeue_after: None,
    }
}

/// Decides what is to be done for a Deployment whose `GrayRollout` is gone.
#[must_use]
pub fn release(_orphan: &Orphan) -> ReleasePlan {
    ReleasePlan::default()
}
