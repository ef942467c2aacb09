//! What a snapshot means: which ReplicaSet is which, and what the user's own settings are.

use jiff::Timestamp;

use super::{
    Admission, Answer, Original, ReplicaSet, Rollout, Target,
    share::{self, Bounds},
};
use crate::api::{
    Approval, GrayRolloutSpec, GrayRolloutStatus, Hold, IntOrPercent, RollingUpdate, Strategy,
};

/// A snapshot whose target exists and whose spec can be followed, read once.
#[derive(Debug, Clone)]
pub struct Facts<'a> {
    /// The present time.
    pub now: Timestamp,
    /// The `GrayRollout`.
    pub rollout: &'a Rollout,
    /// Its spec.
    pub spec: &'a GrayRolloutSpec,
    /// Its Deployment.
    pub target: &'a Target,
    /// The Deployment's ReplicaSets that are not being deleted.
    pub replica_sets: Vec<&'a ReplicaSet>,
    /// The strategy as the user wrote it, whatever stands in the Deployment now.
    pub own: Strategy,
    /// How far the rollout may go above and below `spec.replicas`.
    pub bounds: Bounds,
    /// Whether the API server itself holds a new template.
    pub admission: &'a Admission,
    /// The ReplicaSets as they are, also where not every available pod counts yet.
    pub seen: &'a [ReplicaSet],
    /// What calls to the world outside came to.
    pub answers: &'a [Answer],
    /// Ids of the calls that were begun.
    pub begun: &'a [String],
}

impl<'a> Facts<'a> {
    /// Reads a snapshot; of admission nothing is known.
    pub fn new(
        now: Timestamp,
        rollout: &'a Rollout,
        spec: &'a GrayRolloutSpec,
        target: &'a Target,
        replica_sets: &'a [ReplicaSet],
    ) -> Self {
        let known = rollout.status.target_uid.as_deref() == Some(&target.uid);
        let own = own_strategy(target, known.then_some(&rollout.status));
        let seen = replica_sets;
        let mut replica_sets: Vec<_> = replica_sets.iter().filter(|rs| !rs.deleting).collect();
        replica_sets.sort_by(|a, b| (a.created, &a.name).cmp(&(b.created, &b.name)));
        let bounds = Bounds::resolve(Some(spec), &own, target.replicas);
        let admission = &Admission::Unknown;
        Self {
            now,
            rollout,
            spec,
            target,
            replica_sets,
            own,
            bounds,
            admission,
            seen,
            answers: &[],
            begun: &[],
        }
    }

    /// Whether the Deployment rests unpaused, since a new template is held by admission, or since
    /// it is not known yet whether it is, which is soon. It is unpaused only once all its pods are
    /// of its template: before that the native controller brings it there.
    pub fn rests_unpaused(&self) -> bool {
        let held = match (self.admission, self.held_before()) {
            (Admission::Holds { .. }, _) | (Admission::Unknown, Some(Hold::Admission)) => true,
            (Admission::Absent(_), _) | (Admission::Unknown, Some(Hold::Paused)) => false,
            (Admission::Unknown, None) => !self.target.paused,
        };
        held && (!self.target.paused || self.is_fully_out())
    }

    fn is_fully_out(&self) -> bool {
        let new = self.new_replica_set();
        new.map_or(0, |rs| rs.replicas) == self.replicas()
            && self.active_besides(new).next().is_none()
    }

    /// What held this Deployment so far.
    pub fn held_before(&self) -> Option<Hold> {
        let status = &self.rollout.status;
        status.hold.filter(|_| status.target_uid.as_deref() == Some(&self.target.uid))
    }

    /// The ReplicaSet of the Deployment's present template; as in the native controller the
    /// oldest of several equal ones.
    pub fn new_replica_set(&self) -> Option<&'a ReplicaSet> {
        self.replica_sets.iter().find(|rs| rs.template == self.target.template).copied()
    }

    /// The ReplicaSet of a revision.
    pub fn of_revision(&self, revision: Option<&str>) -> Option<&'a ReplicaSet> {
        let revision = revision?;
        self.replica_sets.iter().find(|rs| rs.revision == revision).copied()
    }

    /// The revision of the present template, whether its ReplicaSet exists or not.
    pub fn template_revision(&self) -> String {
        self.new_replica_set()
            .map_or_else(|| self.target.template.short(), |rs| rs.revision.clone())
    }

    /// Whether the Deployment's template is still the one that the status speaks of.
    ///
    /// A ReplicaSet of it decides, since an upgraded API server may fill in new defaults on both.
    pub fn is_recorded_template(&self, status: &GrayRolloutStatus) -> bool {
        let revision = status.update_revision.as_deref();
        let mut named =
            self.replica_sets.iter().filter(|rs| Some(rs.revision.as_str()) == revision).peekable();
        if named.peek().is_none() {
            return status.template_hash.as_deref() == Some(&self.target.template.to_string());
        }
        // Labels are anyone's to change, so that several may carry the same.
        named.any(|rs| rs.template == self.target.template)
    }

    /// Pods of a ReplicaSet that are available, also where they do not count yet.
    pub fn there(&self, uid: &str) -> i32 {
        self.seen.iter().find(|rs| rs.uid == uid).map_or(0, ReplicaSet::usable)
    }

    /// Active ReplicaSets other than `except`.
    pub fn active_besides(
        &self,
        except: Option<&ReplicaSet>,
    ) -> impl Iterator<Item = &'a ReplicaSet> {
        let except = except.map(|rs| rs.uid.clone());
        self.replica_sets
            .iter()
            .copied()
            .filter(move |rs| rs.replicas > 0 && Some(&rs.uid) != except.as_ref())
    }

    /// The Deployment's spec.replicas.
    pub fn replicas(&self) -> i32 {
        self.target.replicas.max(0)
    }

    /// Whether the native controller has acted on the Deployment's present spec.
    pub fn is_observed(&self) -> bool {
        self.target.observed_generation >= self.target.generation
    }

    /// The number of the last stage.
    pub fn last_stage(&self) -> i32 {
        i32::try_from(self.spec.stages.len()).unwrap_or(i32::MAX)
    }

    /// The percentage of a stage; stage 0 is 0.
    pub fn percent(&self, stage: i32) -> i32 {
        index(stage).and_then(|at| self.spec.stages.get(at)).map_or(0, |stage| stage.percent)
    }

    /// Seconds that a stage soaks.
    pub fn soak_seconds(&self, stage: i32) -> i64 {
        index(stage)
            .and_then(|at| self.spec.stages.get(at))
            .and_then(|stage| stage.soak_seconds)
            .map_or(0, i64::from)
    }

    /// Whether a stage is entered without an approval.
    pub fn is_automatic(&self, stage: i32) -> bool {
        usize::try_from(stage)
            .is_ok_and(|stage| self.spec.approval_of(stage) == Approval::Automatic)
    }

    /// The percentages of all stages.
    pub fn percents(&self) -> Vec<i32> {
        self.spec.stages.iter().map(|stage| stage.percent).collect()
    }

    /// What the annotation on the Deployment says, where it can be read.
    pub fn original(&self) -> Option<&'a Original> {
        self.target.original.as_ref().and_then(|original| original.as_ref().ok())
    }

    /// The highest stage of the rollout at hand that was approved, and by whom.
    pub fn approved(&self, status: &GrayRolloutStatus) -> (i32, String) {
        let by_status = status
            .approval
            .as_ref()
            .filter(|approval| Some(approval.rollout) == status.rollout)
            .map(|a| (a.stage, a.by.clone().unwrap_or_else(|| "a status patch".into())));
        let by_spec = self
            .spec
            .approval
            .as_ref()
            .filter(|approval| {
                Some(approval.rollout) == status.rollout
                    && Some(&approval.revision) == status.update_revision.as_ref()
            })
            .map(|a| (a.stage, a.by.clone().unwrap_or_else(|| "spec.approval".into())));
        match (by_status, by_spec) {
            (Some(status), Some(spec)) if spec.0 > status.0 => spec,
            (Some(status), _) => status,
            (None, Some(spec)) => spec,
            (None, None) => (0, String::new()),
        }
    }

    /// The next rollout number: never one that was used or named before.
    pub fn next_number(&self, status: &GrayRolloutStatus) -> i64 {
        let named = [
            status.rollout.unwrap_or(0),
            self.spec.approval.as_ref().map_or(0, |approval| approval.rollout),
            self.original().map_or(0, |original| original.rollout),
        ];
        named.into_iter().max().unwrap_or(0).max(0).saturating_add(1)
    }

    /// Pods that new and old are to have at a stage, or in a kept split.
    pub fn wants(&self, status: &GrayRolloutStatus) -> (i32, i32) {
        let (replicas, surge) = (self.replicas(), self.bounds.surge);
        let percent = self.percent(status.stage.unwrap_or(0));
        match status.split {
            Some(split) => {
                let new = share::scaled_split(split, replicas, surge);
                let old = share::old_pods(replicas, new, percent >= 100);
                if percent >= 100 {
                    return (new, old);
                }
                // However full the split, the last old pod stays before 100% is approved.
                let most = if surge == 0 { (replicas - 1).max(0) } else { replicas };
                (new.min(most), old.max(replicas.min(1)))
            }
            None if status.stage.unwrap_or(0) <= 0 => (0, replicas),
            None => {
                let new = share::new_pods(replicas, percent, surge);
                (new, share::old_pods(replicas, new, percent >= 100))
            }
        }
    }
}

fn index(stage: i32) -> Option<usize> {
    usize::try_from(stage).ok()?.checked_sub(1)
}

/// The strategy as the user wrote it: saved where the operator replaced it, else as it stands.
///
/// Where the record of it was removed in the middle of a rollout, what is the operator's form must
/// not be taken for the user's; the status remembers it too.
pub fn own_strategy(target: &Target, status: Option<&GrayRolloutStatus>) -> Strategy {
    let remembered = status.and_then(|status| status.own_strategy.as_ref());
    let rolling_out = status.is_some_and(|status| status.stage.is_some());
    let is_lost = match target.original {
        None => rolling_out,
        Some(Err(_)) => true,
        Some(Ok(_)) => false,
    };
    let saved = target
        .original
        .as_ref()
        .and_then(|original| original.as_ref().ok())
        .and_then(|original| original.strategy.clone());
    match (saved, remembered) {
        (Some(saved), _) => saved,
        (None, Some(remembered)) if is_lost && is_form(target) => remembered.clone(),
        (None, None) if is_lost && target.paused && is_form(target) => {
            Strategy::RollingUpdate { rolling_update: RollingUpdate::default() }
        }
        (None, _) => target.strategy.clone(),
    }
}

/// Whether the strategy is one that the operator puts in place of the user's.
fn is_form(target: &Target) -> bool {
    match &target.strategy {
        Strategy::Recreate => true,
        Strategy::RollingUpdate { rolling_update } => {
            let (surge, unavailable) = (&rolling_update.max_surge, &rolling_update.max_unavailable);
            let held = |surge: &IntOrPercent| match surge {
                IntOrPercent::Count(surge) => IntOrPercent::Count(i32::from(*surge == 0)),
                IntOrPercent::Percent(_) => surge.clone(),
            };
            matches!(surge, IntOrPercent::Count(_)) && *unavailable == held(surge)
        }
        Strategy::Other => false,
    }
}
