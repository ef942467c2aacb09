//! What must hold of a plan and of the cluster once the plan is carried out.

use grayrollout::plan::{Original, Plan, Snapshot, StatusWrite, Strategy, Target, plan as planned};

use crate::{
    checks::{budget, cap, ensure, own_strategy},
    describe, effect,
    native::sync_deployment,
    world::{Checked, World, replica_set, target},
};

/// Most plans in a row that may each find something to write, nobody else acting in between.
const CHAIN: usize = 5;

/// S13: once everything is written, nothing is left to write. What a plan leads to may complete a
/// step, so that the next one follows at once; but the row is short and nothing in it is undone.
pub fn idempotent(snapshot: &Snapshot, plan: &Plan) -> Checked {
    let mut state = snapshot.clone();
    let mut next = plan.clone();
    let mut story = Vec::new();
    let tell = |story: &[Plan]| story.iter().map(describe::plan).collect::<String>();
    let mut seen = vec![shape(&state)];
    for _ in 0..=CHAIN {
        let has_actions = !next.actions.is_empty();
        if !has_actions && next.write == StatusWrite::None {
            return Ok(());
        }
        state = effect::apply(&state, &next);
        story.push(next);
        if has_actions {
            let shape = shape(&state);
            ensure(!seen.contains(&shape), || {
                format!("S13: undone by the next plans:\n{}", tell(&story))
            })?;
            seen.push(shape);
        }
        let had_actions = has_actions;
        next = planned(&state);
        ensure(had_actions || next.actions.is_empty(), || {
            let (story, next) = (tell(&story), describe::plan(&next));
            format!("S13: actions that rest on nothing but a status:\n{story}{next}")
        })?;
    }
    Err(format!("S13: plans in a row that never end:\n{}", tell(&story)))
}

/// Sizes and annotations of each revision.
type Sizes = Vec<(String, i32, Option<i32>, Option<i32>)>;
/// What the operator sets in the Deployment.
type Form = (bool, Strategy, Option<Result<Original, String>>, Option<String>);

/// Sizes and form, without versions.
fn shape(snapshot: &Snapshot) -> (Sizes, Option<Form>) {
    let sets = snapshot.replica_sets.iter();
    let sizes = sets
        .map(|set| {
            let annotations = (set.desired_annotation, set.max_annotation);
            (set.revision.clone(), set.replicas, annotations.0, annotations.1)
        })
        .collect();
    let form = snapshot.target.as_ref().map(|target| {
        let Target { paused, strategy, original, rollout_annotation, .. } = target;
        (*paused, strategy.clone(), original.clone(), rollout_annotation.clone())
    });
    (sizes, form)
}

/// Whether the native controller has nothing to do.
pub fn native_is_settled(world: &World) -> bool {
    let mut trial = world.cluster.clone();
    let Some(seen) = trial.deployment.clone() else {
        return true;
    };
    sync_deployment(&mut trial, &seen);
    let same = trial.replica_sets == world.cluster.replica_sets;
    same && trial.deployment == world.cluster.deployment
}

/// S16: with the operator gone, the native controller changes no size, save that it may give
/// everything to the only active ReplicaSet where that one may have it.
pub fn native_stays_put(world: &World) -> Checked {
    let mut trial = world.clone();
    for _ in 0..4 {
        if let Some(seen) = trial.cluster.deployment.clone() {
            sync_deployment(&mut trial.cluster, &seen);
        }
    }
    let sizes = |world: &World| {
        let sets = world.cluster.replica_sets.iter();
        sets.map(|set| (set.template, set.replicas)).collect::<Vec<_>>()
    };
    let (before, after) = (sizes(world), sizes(&trial));
    ensure(before == after || is_given_everything(world, &trial), || {
        format!(
            "S16: the native controller goes on from {before:?} to {after:?}: {}",
            world.summary()
        )
    })
}

fn is_given_everything(world: &World, trial: &World) -> bool {
    let active = world.cluster.replica_sets.iter().filter(|set| set.replicas > 0);
    let Some(gray) = world.gray.as_ref().filter(|_| active.count() == 1) else {
        return false;
    };
    let Ok(spec) = &gray.spec else {
        return false;
    };
    let deployment = trial.deployment();
    let own = own_strategy(&target(deployment)).clone();
    let surge = budget(spec, &own, deployment.replicas).map_or(0, |budget| budget.surge);
    let mut sets = trial.cluster.replica_sets.iter();
    let has_it = sets.find(|set| set.replicas > 0).map(replica_set);
    let may = has_it.is_some_and(|set| {
        cap(&gray.status, deployment.replicas, surge, &set) == deployment.replicas
    });
    let terminating = trial.cluster.pods.iter().filter(|pod| pod.gone_at.is_some());
    may && (!spec.wait_for_termination || terminating.count() == 0)
}
