//! A state as far as it makes a difference: versions, UIDs and times only by how they compare.

use std::fmt::Write;

use grayrollout::api::GrayRolloutStatus;

use crate::{
    fair::Sim,
    native::{Deployment, ReplicaSet},
    operator::Operator,
    world::{Gray, World, strategy_text},
};

/// Older than this is old.
const OLD_MS: i64 = 1000;

/// Two states with one text go on in the same ways. What the Deployment controller saw last counts
/// where it may yet act on it.
pub fn view(sim: &Sim, operators: usize, native_may_lag: bool) -> String {
    let world = &sim.world;
    let mut text = String::with_capacity(2048);
    if let Some(seen) = &world.cluster.deployment {
        deployment(&mut text, world, seen);
    }
    let mut sets: Vec<_> = world.cluster.replica_sets.iter().collect();
    sets.sort_by(|a, b| (a.created, &a.name).cmp(&(b.created, &b.name)));
    for one in sets {
        set(&mut text, one);
        pods(&mut text, world, &one.uid);
    }
    if let Some(gray) = &world.gray {
        rollout(&mut text, world, gray);
    }
    let _ = write!(
        text,
        "|{:?} {:?} {} {:?}",
        world.approved, world.reached, world.highest, world.cluster.broken
    );
    text.push_str("|native ");
    match sim.native_saw().filter(|_| native_may_lag) {
        Some(seen) if is_present(world, seen) => text.push('='),
        Some(seen) => deployment(&mut text, world, seen),
        None => {}
    }
    for operator in sim.operators.iter().take(operators) {
        cache(&mut text, world, operator);
    }
    text
}

fn is_present(world: &World, seen: &Deployment) -> bool {
    let present = world.cluster.deployment.as_ref();
    present.is_some_and(|present| present.resource_version == seen.resource_version)
}

fn deployment(text: &mut String, world: &World, seen: &Deployment) {
    let present = world.cluster.deployment.as_ref().map_or(0, |present| present.generation);
    let _ = writeln!(
        text,
        "D{} R{} {} {} {:?} -{} ?{} {:?} {:?}",
        seen.template,
        seen.replicas,
        seen.paused,
        strategy_text(&seen.strategy),
        seen.annotations,
        present - seen.generation,
        seen.generation - seen.status.observed_generation,
        (seen.status.replicas, seen.status.updated, seen.status.available, seen.status.says_paused),
        seen.revision,
    );
}

fn set(text: &mut String, set: &ReplicaSet) {
    let status = &set.status;
    let _ = writeln!(
        text,
        "S{} {} {} {:?}/{:?} r{:?} {:?} ?{} {:?}",
        set.name,
        set.template,
        set.replicas,
        set.desired,
        set.max,
        set.revision,
        set.annotations,
        set.generation - status.observed_generation,
        (status.replicas, status.available, status.terminating),
    );
}

fn pods(text: &mut String, world: &World, uid: &str) {
    let (mut ready, mut starting, mut ending) = (0, 0, 0);
    for pod in world.cluster.pods.iter().filter(|pod| pod.owner == uid) {
        match (pod.gone_at, pod.ready) {
            (Some(_), _) => ending += 1,
            (None, true) => ready += 1,
            (None, false) => starting += 1,
        }
    }
    let _ = writeln!(text, "P{ready} {starting} {ending}");
}

fn rollout(text: &mut String, world: &World, gray: &Gray) {
    let status = &gray.status;
    let generation = status.observed_generation.unwrap_or(0);
    let _ = write!(text, "G?{} {:?}", gray.generation - generation, paused(gray));
    record(text, world, status);
}

fn paused(gray: &Gray) -> bool {
    gray.spec.as_ref().is_ok_and(|spec| spec.paused)
}

fn record(text: &mut String, world: &World, status: &GrayRolloutStatus) {
    let now = crate::world::time(world.cluster.now);
    let age = |at: jiff::Timestamp| now.duration_since(at).as_millis().clamp(0, i128::from(OLD_MS));
    let present = world.cluster.deployment.as_ref().map_or(0, |present| present.generation);
    let history: Vec<_> =
        status.history.iter().map(|e| (e.rollout, e.result, e.finished_at.is_some())).collect();
    let conditions = status.conditions.iter().map(|c| (c.status, c.reason)).collect::<Vec<_>>();
    let _ = writeln!(
        text,
        " {:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?} -{:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?}",
        status.phase,
        status.rollout,
        status.stage,
        status.stage_percents,
        status.split.map(|split| (split.replicas, split.update)),
        status.stable_revision,
        status.update_revision,
        status.template_hash,
        status.target_generation.map(|seen| present - seen),
        status.stage_reached_at.map(age),
        status.replicas,
        status.stable,
        status.update,
        history,
        conditions,
        status.message,
        status.approval,
        (&status.abort, &status.retry),
        status.hold,
        status.own_strategy,
        status.last_progress.as_ref().map(|last| last.available),
    );
}

/// What an operator believes, where that is not what there is.
fn cache(text: &mut String, world: &World, operator: &Operator) {
    text.push_str("|O ");
    let current = world.gray.as_ref().map(|gray| gray.resource_version);
    match &operator.gray {
        Some(gray) if Some(gray.resource_version) == current => text.push('='),
        Some(gray) => rollout(text, world, gray),
        None => {}
    }
    match &operator.deployment {
        Some(seen) if is_present(world, seen) => text.push('='),
        Some(seen) => deployment(text, world, seen),
        None => {}
    }
    let mut seen: Vec<_> = operator.sets().iter().collect();
    seen.sort_by(|a, b| (a.created, &a.name).cmp(&(b.created, &b.name)));
    for one in seen {
        let present = world.cluster.replica_sets.iter().find(|set| set.uid == one.uid);
        if present.is_some_and(|present| present.resource_version == one.resource_version) {
            let _ = write!(text, "={} ", one.name);
        } else {
            let _ = write!(text, "{} ", present.is_some());
            set(text, one);
        }
    }
    let waits = operator.soon_since().map(|since| (world.cluster.now - since).min(OLD_MS));
    let _ = write!(text, "{waits:?}");
}
