//! The form of the Deployment: what its strategy, `paused` and annotations must be, so that the
//! native controller leaves the sizes to us, or keeps them, or does its own work.

use super::{AnnotationChange, DeploymentPatch, Original, facts::Facts};
use crate::api::{GrayRolloutStatus, IntOrPercent, RollingUpdate, Strategy};

/// A form of the Deployment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Paused with Recreate: the native controller changes no size while two are active.
    Moving,
    /// Paused with a RollingUpdate that asks for just the present total, so that the native
    /// controller changes no size, and follows a change of replicas in proportion.
    Held {
        /// Pods that exist above `spec.replicas`.
        surge: i32,
    },
    /// Paused with the user's own strategy, one revision alone active: the native controller
    /// keeps it at `spec.replicas`.
    Kept,
    /// Nothing is rolling out: the user's own strategy, paused as the hold wants.
    Rest,
}

impl Form {
    fn strategy(self, own: &Strategy) -> Strategy {
        match self {
            Self::Moving => Strategy::Recreate,
            Self::Held { surge } => Strategy::RollingUpdate {
                rolling_update: RollingUpdate {
                    max_surge: IntOrPercent::Count(surge),
                    max_unavailable: IntOrPercent::Count(i32::from(surge == 0)),
                },
            },
            Self::Kept | Self::Rest => own.clone(),
        }
    }

    /// The patch that brings the Deployment into this form; `None` where it is in it.
    pub fn patch(self, facts: &Facts<'_>, status: &GrayRolloutStatus) -> Option<DeploymentPatch> {
        let target = facts.target;
        let strategy = self.strategy(&facts.own);
        let paused = self != Self::Rest || !facts.rests_unpaused();
        let patch = DeploymentPatch {
            uid: target.uid.clone(),
            resource_version: target.resource_version.clone(),
            paused: (target.paused != paused).then_some(paused),
            strategy: (target.strategy != strategy).then_some(strategy),
            original: self.original(facts, status),
            rollout: self.rollout_annotation(facts),
            template_of: None,
        };
        patch.changes_anything().then_some(patch)
    }

    fn original(self, facts: &Facts<'_>, status: &GrayRolloutStatus) -> AnnotationChange<Original> {
        let replaced = matches!(self, Self::Moving | Self::Held { .. });
        let resting = self == Self::Rest;
        let wanted = Original {
            name: facts.rollout.name.clone(),
            uid: facts.rollout.uid.clone(),
            rollout: status.rollout.unwrap_or(0),
            paused: original_paused(facts),
            strategy: replaced.then(|| facts.own.clone()),
            stable: status.stable_revision.clone().filter(|_| !resting),
            on_delete: facts.spec.on_delete,
        };
        if resting && facts.rests_unpaused() && !wanted.paused {
            // It is as its owner made it.
            let present = facts.target.original.is_some();
            return if present { AnnotationChange::Remove } else { AnnotationChange::Keep };
        }
        let same = match facts.original() {
            // Nothing is rolling out: a number or onDelete that changed is no reason to write.
            Some(present) if resting => {
                present.name == wanted.name
                    && present.uid == wanted.uid
                    && present.strategy.is_none()
                    && present.stable.is_none()
            }
            Some(present) => *present == wanted,
            None => false,
        };
        if same { AnnotationChange::Keep } else { AnnotationChange::Set(wanted) }
    }

    fn rollout_annotation(self, facts: &Facts<'_>) -> AnnotationChange<String> {
        let present = facts.target.rollout_annotation.as_ref();
        if self == Self::Rest {
            return if present.is_some() {
                AnnotationChange::Remove
            } else {
                AnnotationChange::Keep
            };
        }
        if present == Some(&facts.rollout.name) {
            AnnotationChange::Keep
        } else {
            AnnotationChange::Set(facts.rollout.name.clone())
        }
    }
}

impl DeploymentPatch {
    /// Whether the patch changes anything.
    #[must_use]
    pub fn changes_anything(&self) -> bool {
        self.paused.is_some()
            || self.strategy.is_some()
            || self.original != AnnotationChange::Keep
            || self.rollout != AnnotationChange::Keep
            || self.template_of.is_some()
    }
}

/// `paused` as the user had it: as saved, else as it stands before the operator or the admission
/// policy, which leaves the other annotation, first touches it.
fn original_paused(facts: &Facts<'_>) -> bool {
    let untouched = facts.held_before().is_none() && facts.target.rollout_annotation.is_none();
    facts.original().map_or(facts.target.paused && untouched, |original| original.paused)
}
