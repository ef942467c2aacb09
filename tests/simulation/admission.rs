//! The admission policies hold and guard, as config/policies has them, for users' writes.

use grayrollout::{
    api::{ORIGINAL_ANNOTATION, ROLLOUT_ANNOTATION},
    plan::Strategy,
};

use crate::{
    native::Deployment,
    world::{NAME, World},
};

/// What the API server makes of a user's write to the Deployment that was `before`.
pub fn admit(world: &mut World, before: &Deployment) {
    let same = |now: &Deployment| now.uid == before.uid;
    if world.gray.is_none() || !world.cluster.deployment.as_ref().is_some_and(same) {
        return;
    }
    let annotation = |name: &str| before.annotations.get(name).cloned();
    let guarded = annotation(ROLLOUT_ANNOTATION).is_some_and(|name| name == NAME);
    let staged = matches!(before.strategy, Strategy::RollingUpdate { .. })
        || annotation(ORIGINAL_ANNOTATION).is_some();
    world.cluster.change_deployment(|now| {
        if guarded {
            now.strategy = before.strategy.clone();
            now.paused = before.paused;
            for name in [ROLLOUT_ANNOTATION, ORIGINAL_ANNOTATION] {
                match annotation(name) {
                    Some(value) => now.annotations.insert(name.into(), value),
                    None => now.annotations.remove(name),
                };
            }
        }
        if staged && now.template != before.template {
            now.paused = true;
            now.annotations.insert(ROLLOUT_ANNOTATION.into(), NAME.into());
        }
    });
}
