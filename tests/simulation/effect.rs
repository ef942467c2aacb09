//! What a snapshot looks like once a plan was carried out and nobody else did anything.

use grayrollout::plan::{
    Action, AnnotationChange, DeploymentPatch, Plan, ReplicaSet, Snapshot, StatusWrite, Target,
};

pub fn apply(snapshot: &Snapshot, plan: &Plan) -> Snapshot {
    let mut after = snapshot.clone();
    if plan.write != StatusWrite::None {
        after.rollout.status = plan.status.clone();
        after.rollout.resource_version.push('+');
    }
    // As the operator does: what is not called for any more is forgotten.
    after.answers.retain(|answer| plan.calls.iter().any(|call| call.id == answer.id));
    after.begun.retain(|id| plan.calls.iter().any(|call| call.id == *id));
    for action in &plan.actions {
        act(&mut after, action);
    }
    after
}

fn act(after: &mut Snapshot, action: &Action) {
    let sets = &mut after.replica_sets;
    match action {
        Action::PatchDeployment(patch) => {
            if let Some(target) = &mut after.target {
                apply_patch(target, sets, patch);
            }
        }
        Action::CreateReplicaSet { template, replicas, desired, max } => sets.push(ReplicaSet {
            name: format!("{}-{}", after.rollout.target_name, template.short()),
            uid: "created".into(),
            owner_uid: after.target.as_ref().map_or_else(String::new, |t| t.uid.clone()),
            generation: 1,
            resource_version: "created".into(),
            created: after.now,
            deleting: false,
            revision: template.short(),
            template: *template,
            replicas: *replicas,
            desired_annotation: *desired,
            max_annotation: *max,
            observed_generation: 0,
            current: 0,
            available: 0,
            terminating: 0,
            failure: None,
        }),
        Action::ScaleReplicaSet { uid, replicas, desired, max, .. } => {
            if let Some(set) = sets.iter_mut().find(|set| set.uid == *uid) {
                let changed = i64::from(set.replicas != *replicas);
                set.generation = set.generation.saturating_add(changed);
                set.resource_version.push('+');
                set.replicas = *replicas;
                set.desired_annotation = *desired;
                set.max_annotation = *max;
            }
        }
        Action::DeleteReplicaSet { uid, .. } => sets.retain(|set| set.uid != *uid),
    }
}

fn apply_patch(target: &mut Target, sets: &[ReplicaSet], patch: &DeploymentPatch) {
    if let Some(name) = &patch.template_of
        && let Some(set) = sets.iter().find(|set| set.name == *name)
    {
        target.template = set.template;
    }
    target.generation = target.generation.saturating_add(1);
    target.resource_version.push('+');
    target.paused = patch.paused.unwrap_or(target.paused);
    if let Some(strategy) = &patch.strategy {
        target.strategy = strategy.clone();
    }
    match &patch.original {
        AnnotationChange::Keep => {}
        AnnotationChange::Set(original) => target.original = Some(Ok(original.clone())),
        AnnotationChange::Remove => target.original = None,
    }
    match &patch.rollout {
        AnnotationChange::Keep => {}
        AnnotationChange::Set(name) => target.rollout_annotation = Some(name.clone()),
        AnnotationChange::Remove => target.rollout_annotation = None,
    }
}
