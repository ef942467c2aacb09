//! The guards that keep a rollout safe, each of which can be taken away here, outside the code that
//! is shipped: what then goes wrong shows that it is needed, and that these tests would notice.

use grayrollout::{
    api::{GrayRolloutSpec, GrayRolloutStatus, Phase},
    plan::{Plan, Snapshot, plan},
};

use crate::{
    checks::{budget, cap, ensure},
    native::{Cluster, ReplicaSet},
    world::{Checked, World, replica_set},
};

/// Something that the operator does for safety.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Guard {
    /// A status write carries the resourceVersion that it was planned on.
    StatusVersion,
    /// So does a patch of the Deployment.
    DeploymentVersion,
    /// So does every write to a ReplicaSet.
    SetVersion,
    /// No size is touched before the native controller has seen the Deployment's form.
    Handshake,
    /// Only a ReplicaSet whose status is current gives pods up.
    SetStatus,
    /// An approval counts for its rollout number only.
    ApprovalNumber,
    /// Below 100% one old pod is kept.
    LastOldPod,
    /// desired-replicas is written with every size.
    Desired,
    /// max-replicas is written with every size.
    Max,
    /// The lease is looked at before a write.
    Lease,
    /// What was written is seen before the next plan.
    OwnWrites,
    /// A ReplicaSet is created only for the very form of the Deployment that was planned on.
    Creation,
    /// The ReplicaSet to go back to is looked for where no watch knows it.
    Look,
}

/// The plan of an operator that lacks the guard.
pub fn planned(without: Option<Guard>, snapshot: &Snapshot) -> Plan {
    let Some(without) = without else {
        return plan(snapshot);
    };
    let mut bent = snapshot.clone();
    match without {
        Guard::Handshake => {
            if let Some(target) = &mut bent.target {
                target.observed_generation = target.generation;
            }
        }
        Guard::SetStatus => {
            for set in &mut bent.replica_sets {
                set.observed_generation = set.generation;
            }
        }
        Guard::ApprovalNumber => {
            let number = bent.rollout.status.rollout;
            if let (Some(approval), Some(number)) = (&mut bent.rollout.status.approval, number) {
                approval.rollout = number;
            }
        }
        Guard::LastOldPod => {
            let replicas = bent.target.as_ref().map_or(0, |target| target.replicas);
            if let Ok(spec) = &mut bent.rollout.spec {
                fill_up(spec, &mut bent.rollout.status, replicas);
            }
        }
        _ => return plan(snapshot),
    }
    let mut plan = plan(&bent);
    plan.status.approval.clone_from(&snapshot.rollout.status.approval);
    if let Ok(spec) = &snapshot.rollout.spec
        && !plan.status.stage_percents.is_empty()
    {
        plan.status.stage_percents = spec.stages.iter().map(|stage| stage.percent).collect();
    }
    plan
}

/// Stages whose rounded share is everything take everything.
fn fill_up(spec: &mut GrayRolloutSpec, status: &mut GrayRolloutStatus, replicas: i32) {
    let full = |percent: i32| replicas > 1 && (replicas * percent + 99) / 100 >= replicas;
    for stage in spec.stages.iter_mut().filter(|stage| full(stage.percent)) {
        stage.percent = 100;
    }
    for percent in status.stage_percents.iter_mut().filter(|percent| full(**percent)) {
        *percent = 100;
    }
}

/// What a write of sizes becomes without a guard.
pub fn written(
    without: Option<Guard>,
    before: &ReplicaSet,
    desired: Option<i32>,
    max: Option<i32>,
) -> (Option<i32>, Option<i32>) {
    match without {
        Some(Guard::Desired) => (before.desired, max),
        Some(Guard::Max) => (desired, before.max),
        _ => (desired, max),
    }
}

/// Pods that the new revision is to have.
pub fn new_size(world: &World) -> i32 {
    new_set(world).map_or(0, |set| set.replicas)
}

/// S1 against what is stored, and not only against what was seen.
pub fn grown_within_stage(world: &World, before: i32) -> Checked {
    let Some(new) = new_set(world).filter(|set| world.undisturbed && set.replicas > before) else {
        return Ok(());
    };
    let replicas = world.deployment().replicas;
    let most = cap(&world.status(), replicas, replicas, &replica_set(new));
    ensure(new.replicas <= most, || {
        let (new, summary) = (new.replicas, world.summary());
        format!("S1: {new} new pods where the stored stage allows {most}: {summary}")
    })
}

/// S2 against what is stored.
pub fn total_within_surge(world: &World, before: i32) -> Checked {
    let total = world.total();
    let spec = world.gray.as_ref().and_then(|gray| gray.spec.as_ref().ok());
    let Some(spec) = spec.filter(|_| world.undisturbed && total > before) else {
        return Ok(());
    };
    let replicas = world.deployment().replicas;
    let surge = budget(spec, &world.user_strategy, replicas).map_or(0, |b| b.surge.max(1));
    ensure(total <= replicas + surge, || {
        format!("S2: {total} pods of {replicas} + {surge} are stored: {}", world.summary())
    })
}

/// S4 against what is stored: neither the number nor, within it, the stage goes back.
pub fn goes_on(stored: &GrayRolloutStatus, written: &GrayRolloutStatus) -> Checked {
    let same = stored.target_uid == written.target_uid;
    let (old, new) = (stored.rollout.unwrap_or(0), written.rollout.unwrap_or(0));
    ensure(!same || new >= old, || format!("S4: the stored rollout {old} becomes {new}"))?;
    let (from, to) = (stored.stage.unwrap_or(0), written.stage.unwrap_or(0));
    ensure(!same || new > old || to >= from || written.stage.is_none(), || {
        format!("S4: the stored stage {from} becomes {to} within rollout {new}")
    })
}

/// What is said to be over has no pods that are to go.
pub fn truly_over(world: &World, written: &GrayRolloutStatus) -> Checked {
    let over = matches!(written.phase, Some(Phase::RolledBack | Phase::Completed));
    if !world.undisturbed || !over {
        return Ok(());
    }
    let sets = world.cluster.replica_sets.iter();
    let mut left = sets.filter(|set| set.replicas > 0);
    let kept = |set: &ReplicaSet| written.stable_revision.as_ref() == Some(&set.hash);
    ensure(left.all(kept), || {
        format!("S17: {:?} while other revisions have pods: {}", written.phase, world.summary())
    })
}

/// S16 at every moment: with two revisions active the native controller changes no size.
pub fn native_follows(world: &World, before: &Cluster) -> Checked {
    let sizes = |cluster: &Cluster| {
        let active = cluster.replica_sets.iter().filter(|set| set.replicas > 0);
        active.map(|set| (set.template, set.replicas)).collect::<Vec<_>>()
    };
    let (before, after) = (sizes(before), sizes(&world.cluster));
    let still = !world.undisturbed || before.len() < 2 || before == after;
    ensure(still, || {
        let summary = world.summary();
        format!("S16: the native controller goes on from {before:?} to {after:?}: {summary}")
    })
}

fn new_set(world: &World) -> Option<&ReplicaSet> {
    let template = world.cluster.deployment.as_ref()?.template;
    world.cluster.replica_sets.iter().find(|set| set.template == template)
}
