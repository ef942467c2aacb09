//! Scaling without a rollout: what the controller does to a paused Deployment, and to any whose
//! replicas changed.

use super::{
    deployment::Pass,
    objects::{Deployment, ReplicaSet},
};
use grayrollout::plan::Strategy;

pub(super) fn scale(pass: &mut Pass<'_>, new: Option<&ReplicaSet>) {
    let replicas = pass.deployment.replicas;
    let active: Vec<ReplicaSet> = pass.sets().into_iter().filter(|set| set.replicas > 0).collect();
    if active.len() <= 1 {
        let only =
            active.first().cloned().or_else(|| new.cloned()).or_else(|| pass.old_sets().pop());
        if let Some(set) = only.filter(|set| set.replicas != replicas) {
            pass.scale_to(&set, replicas);
        }
        return;
    }
    if let Some(new) = new.filter(|set| saturated(&pass.deployment, set)) {
        for old in active.iter().filter(|set| set.uid != new.uid) {
            pass.scale_to(old, 0);
        }
        return;
    }
    if matches!(pass.deployment.strategy, Strategy::RollingUpdate { .. }) {
        proportionally(pass, active);
    }
}

fn saturated(deployment: &Deployment, new: &ReplicaSet) -> bool {
    let replicas = deployment.replicas;
    new.replicas == replicas && new.desired == Some(replicas) && new.status.available == replicas
}

fn proportionally(pass: &mut Pass<'_>, mut active: Vec<ReplicaSet>) {
    let deployment = pass.deployment.clone();
    let allowed =
        if deployment.replicas > 0 { deployment.replicas + deployment.max_surge() } else { 0 };
    let add = allowed - active.iter().map(|set| set.replicas).sum::<i32>();
    // Largest first; of equal ones the newer where pods are added, the older where removed.
    active.sort_by(|a, b| {
        let age = (a.created, &a.name).cmp(&(b.created, &b.name));
        b.replicas.cmp(&a.replicas).then(if add > 0 { age.reverse() } else { age })
    });
    let mut added = 0;
    let mut sizes = Vec::new();
    for set in &active {
        let share = share(&deployment, set, add, added);
        added += share;
        sizes.push(set.replicas + share);
    }
    if let Some(largest) = sizes.first_mut() {
        *largest = (*largest + add - added).max(0);
    }
    for (set, size) in active.iter().zip(sizes) {
        pass.scale_to(set, size);
    }
}

/// GetReplicaSetProportion.
fn share(deployment: &Deployment, set: &ReplicaSet, add: i32, added: i32) -> i32 {
    if add == 0 || add == added {
        return 0;
    }
    let (fraction, left) = (fraction(deployment, set), add - added);
    if add > 0 { fraction.min(left) } else { fraction.max(left) }
}

#[allow(clippy::cast_possible_truncation)] // as Go's int32(x + 0.5) does
fn fraction(deployment: &Deployment, set: &ReplicaSet) -> i32 {
    if deployment.replicas == 0 {
        return -set.replicas;
    }
    let before = set.max.filter(|max| *max != 0).unwrap_or(deployment.status.replicas);
    if before == 0 {
        return 0;
    }
    let allowed = deployment.replicas + deployment.max_surge();
    let size = f64::from(set.replicas * allowed) / f64::from(before);
    let rounded = if size < 0.0 { size - 0.5 } else { size + 0.5 };
    rounded as i32 - set.replicas
}
