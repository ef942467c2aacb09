//! What the controller does to a Deployment that is not paused.

use super::{
    deployment::Pass,
    objects::{Deployment, ReplicaSet},
};
use grayrollout::plan::Strategy;

/// The size that the strategy allows the new ReplicaSet, now at `present`.
pub(super) fn size_of_new(deployment: &Deployment, sets: &[ReplicaSet], present: i32) -> i32 {
    if !matches!(deployment.strategy, Strategy::RollingUpdate { .. }) {
        return deployment.replicas;
    }
    let room = deployment.replicas + deployment.max_surge() - total(sets);
    present + room.min(deployment.replicas - present).max(0)
}

fn total(sets: &[ReplicaSet]) -> i32 {
    sets.iter().map(|set| set.replicas).sum()
}

pub(super) fn rolling_update(pass: &mut Pass<'_>) {
    let Some(new) = pass.new_set(true) else {
        return;
    };
    let replicas = pass.deployment.replicas;
    let size = if new.replicas > replicas {
        replicas
    } else {
        size_of_new(&pass.deployment, &pass.sets(), new.replicas)
    };
    if size != new.replicas {
        pass.scale_to(&new, size);
    } else if !shrink_old(pass, &new) && pass.complete() {
        pass.cleanup();
    }
    pass.status();
}

/// Removes unavailable old pods first, then as many available ones as maxUnavailable allows.
fn shrink_old(pass: &mut Pass<'_>, new: &ReplicaSet) -> bool {
    let floor = pass.deployment.replicas - pass.deployment.max_unavailable();
    let unavailable = new.replicas - new.status.available;
    let mut left = total(&pass.sets()) - floor - unavailable;
    if left <= 0 {
        return false;
    }
    let mut shrunk = false;
    for old in pass.old_sets() {
        let remove = left.min(old.replicas - old.status.available).max(0);
        if old.replicas > 0 && remove > 0 {
            pass.scale_to(&old, old.replicas - remove);
            left -= remove;
            shrunk = true;
        }
    }
    let available: i32 = pass.sets().iter().map(|set| set.status.available).sum();
    let mut left = available - floor;
    for old in pass.old_sets() {
        let remove = left.min(old.replicas);
        if remove > 0 {
            pass.scale_to(&old, old.replicas - remove);
            left -= remove;
            shrunk = true;
        }
    }
    shrunk
}

pub(super) fn recreate(pass: &mut Pass<'_>) {
    pass.new_set(false);
    let old = pass.old_sets();
    let active: Vec<_> = old.iter().filter(|set| set.replicas > 0).collect();
    for set in &active {
        pass.scale_to(set, 0);
    }
    let running = pass.cluster.pods.iter().any(|pod| old.iter().any(|set| set.uid == pod.owner));
    if active.is_empty() && !running {
        if let Some(new) = pass.new_set(true)
            && new.replicas != pass.deployment.replicas
        {
            pass.scale_to(&new, pass.deployment.replicas);
        }
        if pass.complete() {
            pass.cleanup();
        }
    }
    pass.status();
}
