//! The safety invariants of writes to the Deployment and its ReplicaSets, from what was seen.

use grayrollout::{
    api::{GrayRolloutSpec, GrayRolloutStatus, IntOrPercent, OnDelete, Phase},
    plan::{
        Action, AnnotationChange, DeploymentPatch, Orphan, Plan, ReleasePlan, ReplicaSet, Snapshot,
        StatusWrite, Strategy, Target,
    },
};

use crate::{
    describe, native,
    world::{Checked, NAME},
};

/// Fails with `why` unless `holds`.
pub fn ensure(holds: bool, why: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(why()) }
}

/// maxSurge and maxUnavailable in pods.
#[derive(Debug, Clone, Copy)]
pub struct Budget {
    pub surge: i32,
    pub unavailable: i32,
}

/// The budget of a spec over the user's own strategy; `None` where that cannot be staged.
pub fn budget(spec: &GrayRolloutSpec, own: &Strategy, replicas: i32) -> Option<Budget> {
    let Strategy::RollingUpdate { rolling_update } = own else {
        return None;
    };
    let up = |value: &IntOrPercent| crate::native::resolve(value, replicas, true);
    let down = |value: &IntOrPercent| crate::native::resolve(value, replicas, false);
    let surge = up(spec.max_surge.as_ref().unwrap_or(&rolling_update.max_surge));
    let unavailable = match &spec.max_unavailable {
        Some(value) => down(value),
        None if surge > 0 => 0,
        None => down(&rolling_update.max_unavailable),
    };
    // As natively: with both 0 no pod could ever be replaced.
    let unavailable = unavailable.max(i32::from(surge == 0)).min(replicas);
    Some(Budget { surge, unavailable })
}

/// New pods at `percent` of `replicas`.
pub fn count(replicas: i32, percent: i32, surge: i32) -> i32 {
    match (percent, replicas) {
        (100, _) => replicas,
        (_, ..=0) => 0,
        (_, 1) => i32::from(surge > 0),
        _ => ((replicas * percent + 99) / 100).clamp(1, replicas - 1),
    }
}

/// New pods that the stage a status stands at allows.
pub fn cap(status: &GrayRolloutStatus, replicas: i32, surge: i32, new: &ReplicaSet) -> i32 {
    if status.stable_revision.as_ref() == Some(&new.revision) {
        return replicas;
    }
    if matches!(status.phase, Some(Phase::RollingBack | Phase::RolledBack)) {
        return 0;
    }
    let Some(stage) = status.stage else {
        return 0;
    };
    let percent =
        usize::try_from(stage - 1).ok().and_then(|index| status.stage_percents.get(index));
    let at_stage = percent.map_or(0, |percent| count(replicas, *percent, surge));
    at_stage.max(kept_share(status, replicas))
}

/// New pods that a kept split allows.
pub fn kept_share(status: &GrayRolloutStatus, replicas: i32) -> i32 {
    status.split.map_or(0, |split| {
        let whole = split.replicas.max(1);
        (split.update * replicas + whole - 1) / whole
    })
}

/// The user's own strategy: the one kept for later, else the present one.
pub fn own_strategy(target: &Target) -> &Strategy {
    match &target.original {
        Some(Ok(original)) => original.strategy.as_ref().unwrap_or(&target.strategy),
        _ => &target.strategy,
    }
}

/// The same where somebody removed what was kept on the Deployment: the status remembers it too.
pub fn remembered_strategy<'a>(snapshot: &'a Snapshot, target: &'a Target) -> &'a Strategy {
    let readable = matches!(target.original, Some(Ok(_)));
    let status = &snapshot.rollout.status;
    let remembered = status.own_strategy.as_ref().filter(|_| !readable);
    remembered.unwrap_or_else(|| own_strategy(target))
}

/// Whether a ReplicaSet's status speaks of its present size.
fn current(set: &ReplicaSet) -> bool {
    set.observed_generation >= set.generation
}

/// What the writes of a plan are held against.
struct Ledger<'a> {
    target: &'a Target,
    sets: Vec<ReplicaSet>,
    touched: Vec<String>,
    cap: Box<dyn Fn(&ReplicaSet) -> i32 + 'a>,
    budget: Option<Budget>,
    wait_for_termination: bool,
    stable: Option<&'a str>,
}

/// S1 to S3, S7 to S9 and S14 for every write of a plan.
pub fn plan(snapshot: &Snapshot, plan: &Plan) -> Checked {
    let status = &snapshot.rollout.status;
    ensure(
        plan.status.approval == status.approval
            && plan.status.abort == status.abort
            && plan.status.retry == status.retry,
        || "S6: approval, abort or retry changed in the planned status".into(),
    )?;
    if let Some(after) = plan.requeue_after {
        ensure(!after.is_zero(), || format!("S18: plans again after {after:?}"))?;
    }
    let Some(target) = &snapshot.target else {
        return ensure(plan.actions.is_empty(), || "acts without a target".into());
    };
    let Ok(spec) = &snapshot.rollout.spec else {
        return ensure(plan.actions.is_empty(), || "acts on a spec it cannot read".into());
    };
    // What the actions rest on must be stored before them.
    let force = if plan.write == StatusWrite::First { &plan.status } else { status };
    let own = remembered_strategy(snapshot, target);
    let budget = budget(spec, own, target.replicas);
    let surge = budget.map_or(0, |budget| budget.surge);
    let stable = |set: &ReplicaSet| force.stable_revision.as_ref() == Some(&set.revision);
    // With the stable revision lost there is nothing that the share could be measured against.
    let lost = force.stage.is_some() && !snapshot.replica_sets.iter().any(stable);
    let mut ledger =
        Ledger {
            target,
            sets: snapshot.replica_sets.clone(),
            touched: Vec::new(),
            cap: Box::new(move |new| {
                if lost { target.replicas } else { cap(force, target.replicas, surge, new) }
            }),
            budget,
            wait_for_termination: spec.wait_for_termination,
            stable: force.stable_revision.as_deref(),
        };
    ledger.actions(&plan.actions)?;
    for action in &plan.actions {
        if let Action::PatchDeployment(patch) = action {
            form(target, own, &ledger, patch, true)?;
        }
    }
    Ok(())
}

/// The same for the plan that gives back a Deployment whose GrayRollout is gone.
pub fn release(orphan: &Orphan, plan: &ReleasePlan) -> Checked {
    let target = &orphan.target;
    let original = match &target.original {
        Some(Ok(original)) => Some(original),
        _ => None,
    };
    let own = native::Deployment::of("", target.replicas, own_strategy(target).clone(), 0);
    let mut ledger = Ledger {
        target,
        sets: orphan.replica_sets.clone(),
        touched: Vec::new(),
        cap: Box::new(|_| target.replicas),
        budget: Some(Budget { surge: own.max_surge(), unavailable: own.max_unavailable() }),
        wait_for_termination: false,
        stable: original.and_then(|original| original.stable.as_deref()),
    };
    let fail = |e: String| {
        let (seen, answer) = (describe::orphan(orphan), describe::release(plan));
        format!("release: {e}\nseen:\n{seen}answered:\n{answer}")
    };
    ledger.actions(&plan.actions).map_err(fail)?;
    let promote = original.is_some_and(|original| original.on_delete == OnDelete::Promote)
        || target.rollout_annotation.is_none();
    for action in &plan.actions {
        if let Action::PatchDeployment(patch) = action {
            form(target, own_strategy(target), &ledger, patch, !promote).map_err(fail)?;
        }
    }
    Ok(())
}

impl Ledger<'_> {
    fn actions(&mut self, actions: &[Action]) -> Checked {
        for action in actions {
            match action {
                Action::PatchDeployment(patch) => ensure(
                    patch.uid == self.target.uid
                        && patch.resource_version == self.target.resource_version,
                    || "S8: patches another Deployment than the one seen".into(),
                )?,
                Action::CreateReplicaSet { .. } => self.create(action)?,
                Action::ScaleReplicaSet { uid, resource_version, replicas, .. } => {
                    let index = self.find(uid, resource_version)?;
                    self.scale(index, *replicas)?;
                }
                Action::DeleteReplicaSet { uid, resource_version, .. } => {
                    let index = self.find(uid, resource_version)?;
                    let set = self.sets.remove(index);
                    ensure(set.replicas == 0 && set.current == 0 && current(&set), || {
                        format!("S9: deletes {} with pods", set.name)
                    })?;
                    ensure(self.stable != Some(set.revision.as_str()), || {
                        format!("S9: deletes the stable {}", set.name)
                    })?;
                }
            }
        }
        Ok(())
    }

    fn find(&mut self, uid: &str, resource_version: &str) -> Checked<usize> {
        let index = self.sets.iter().position(|set| set.uid == uid);
        let index = index.ok_or("S8: writes to a ReplicaSet that was not seen")?;
        let set = &self.sets[index];
        ensure(
            set.owner_uid == self.target.uid
                && set.resource_version == resource_version
                && !self.touched.contains(&set.uid),
            || format!("S8, S14: writes {} as it was not seen", set.name),
        )?;
        self.touched.push(uid.to_owned());
        Ok(index)
    }

    fn create(&mut self, action: &Action) -> Checked {
        let Action::CreateReplicaSet { template, replicas, .. } = action else {
            return Ok(());
        };
        ensure(*template == self.target.template, || {
            "creates a ReplicaSet of another template".into()
        })?;
        ensure(!self.sets.iter().any(|set| set.template == *template), || {
            "S7: creates a second ReplicaSet of one template".into()
        })?;
        self.sets.push(ReplicaSet {
            name: format!("{NAME}-{}", template.short()),
            uid: "created".into(),
            owner_uid: self.target.uid.clone(),
            generation: 1,
            resource_version: "created".into(),
            created: jiff::Timestamp::UNIX_EPOCH,
            deleting: false,
            revision: template.short(),
            template: *template,
            replicas: 0,
            desired_annotation: None,
            max_annotation: None,
            observed_generation: 0,
            current: 0,
            available: 0,
            terminating: 0,
            failure: None,
        });
        self.scale(self.sets.len() - 1, *replicas)
    }

    fn scale(&mut self, index: usize, size: i32) -> Checked {
        let replicas = self.target.replicas;
        let before = self.sets[index].clone();
        self.sets[index].replicas = size;
        let after = &self.sets[index];
        ensure(size >= 0, || format!("scales {} to {size}", after.name))?;
        let grows = size > before.replicas;
        // S1. The oldest of equal templates is the new one; there is no other in these histories.
        if after.template == self.target.template && grows {
            let cap = (self.cap)(after);
            ensure(size <= cap, || {
                format!("S1: {} from {} to {size}, above {cap}", after.name, before.replicas)
            })?;
        }
        let Some(Budget { surge, unavailable }) = self.budget else {
            return ensure(!grows || size <= replicas, || {
                format!("S2: {} above {replicas} without a strategy", after.name)
            });
        };
        if grows {
            let overlap = i32::from(surge == 0 && self.overlaps(index));
            let used: i32 = self.sets.iter().map(|set| self.used(set)).sum();
            ensure(used <= replicas + surge + overlap, || {
                format!(
                    "S2: {} from {} to {size} makes {used} pods of {replicas} + {surge} + {overlap}",
                    after.name, before.replicas
                )
            })?;
        } else {
            let lost = if current(&before) {
                before.available.min(before.replicas) - before.available.min(size)
            } else {
                before.replicas - size
            };
            let settled = self.sets.iter().filter(|set| current(set));
            let guaranteed: i32 = settled.map(|set| set.available.min(set.replicas)).sum();
            let floor = replicas - unavailable;
            ensure(lost <= 0 || guaranteed >= floor, || {
                format!(
                    "S3: {} from {} to {size} leaves {guaranteed} available for sure, less than \
                     {floor}",
                    after.name, before.replicas
                )
            })?;
        }
        Ok(())
    }

    /// With maxSurge 0 the first pod of the growing side and the last of the other overlap.
    fn overlaps(&self, growing: usize) -> bool {
        let size = |index: usize| self.sets.get(index).map_or(0, |set| set.replicas);
        let others: i32 = (0..self.sets.len()).filter(|index| *index != growing).map(size).sum();
        size(growing) == 1 || others <= 1
    }

    fn used(&self, set: &ReplicaSet) -> i32 {
        if self.wait_for_termination {
            set.replicas.max(set.current) + set.terminating
        } else {
            set.replicas
        }
    }
}

/// S10 for one patch, given the sizes that the same plan leaves.
fn form(
    target: &Target,
    own: &Strategy,
    ledger: &Ledger<'_>,
    patch: &DeploymentPatch,
    managed: bool,
) -> Checked {
    let strategy = patch.strategy.as_ref().unwrap_or(&target.strategy);
    let paused = patch.paused.unwrap_or(target.paused);
    let restores =
        patch.original == AnnotationChange::Remove || patch.rollout == AnnotationChange::Remove;
    if restores {
        ensure(strategy == own, || format!("S10: gives back with {strategy:?}"))?;
    }
    if let AnnotationChange::Set(set) = &patch.original
        && let Some(kept) = &set.strategy
    {
        ensure(kept == own, || format!("S10: keeps {kept:?} as the user's own strategy"))?;
    }
    ensure(paused || *strategy != Strategy::Recreate, || {
        "S10: unpaused while Recreate stands".into()
    })?;
    if managed && !paused && target.paused {
        let named = |name: &String| ledger.sets.iter().find(|set| set.name == *name);
        let put_back = patch.template_of.as_ref().and_then(named);
        let template = put_back.map_or(target.template, |set| set.template);
        let out = ledger.sets.iter().all(|set| {
            let wanted = if set.template == template { target.replicas } else { 0 };
            set.replicas == wanted
        });
        ensure(out, || "S10: unpauses a template that is not fully out".into())?;
    }
    Ok(())
}
