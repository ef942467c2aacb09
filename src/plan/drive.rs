//! What to write now: the form of the Deployment, then sizes, then what is left over.

use std::time::Duration;

use super::{
    Action, Event, EventKind, EventOn, ReplicaSet,
    course::{Course, Draft},
    drift,
    facts::Facts,
    form::Form,
    hooks::Held,
    interval,
    pace::{self, Resize, Role, Room, Track},
    share, stages,
    standing::Standing,
};
use crate::api::{GrayRolloutStatus, Phase, Reason};

/// A stage that is approved at once needs no handshake with the native controller if the
/// Deployment stays in the moving form for a moment.
const LINGER: Duration = Duration::from_millis(500);
/// A soak that is over sooner than this is not worth two changes of form.
const SHORT_SOAK: Duration = Duration::from_secs(3);

/// The revisions, the sizes they are to reach, and what may be written of that now.
#[derive(Debug, Clone)]
pub struct Sizes<'a> {
    /// Every revision that has pods or is to have some.
    pub tracks: Vec<Track<'a>>,
    /// The bounds to keep meanwhile.
    pub room: Room,
    /// The sizes to write next.
    pub batch: Vec<Resize>,
    /// ReplicaSets to delete: empty ones that the native controller would give everything to.
    pub leftovers: Vec<&'a ReplicaSet>,
    /// What waits for a hook, if something does.
    pub held: Option<Held>,
}

/// What to write, and why nothing is written where that is so.
#[derive(Debug, Clone, Default)]
pub struct Moves {
    /// The writes.
    pub actions: Vec<Action>,
    /// What they did.
    pub events: Vec<Event>,
    /// What is waited for before the next write.
    pub waits_for: Option<String>,
    /// When to look again.
    pub until: Option<Duration>,
    /// Whether the Deployment is in the form it is to rest in, as seen by the native controller.
    pub settled: bool,
}

/// The sizes that the course asks for.
pub fn sizes<'a>(facts: &Facts<'a>, draft: &Draft) -> Sizes<'a> {
    let tracks = tracks(facts, draft);
    let terminating = facts.spec.wait_for_termination.then(|| {
        facts.replica_sets.iter().fold(0_i32, |sum, rs| {
            // One that is empty by now may still have pods that are about to end.
            let ending = if rs.replicas > 0 { 0 } else { rs.current.max(0) };
            sum.saturating_add(rs.terminating.max(0)).saturating_add(ending)
        })
    });
    let room = Room { replicas: facts.replicas(), bounds: facts.bounds, terminating };
    let mut paced = tracks.clone();
    interval::hold(facts, draft, &mut paced);
    let batch = if settles_natively(&paced) { Vec::new() } else { pace::pace(&paced, room) };
    Sizes { leftovers: leftovers(facts, draft), tracks, room, batch, held: None }
}

fn tracks<'a>(facts: &Facts<'a>, draft: &Draft) -> Vec<Track<'a>> {
    let new = facts.new_replica_set();
    let stable = facts.of_revision(draft.status.stable_revision.as_deref());
    let replicas = facts.replicas();
    let track = |role, replica_set: Option<&'a ReplicaSet>, want| {
        let there = replica_set.map_or(0, |rs| facts.there(&rs.uid));
        Track { role, replica_set, want, there }
    };
    let mut tracks = match draft.course {
        Course::Resting | Course::FirstDeploy => vec![track(Role::Stable, new, replicas)],
        // The stable revision is lost: what the native controller gave to the new one stays, and
        // what someone approved of it is all there can be.
        Course::Forward if stable.is_none() => {
            let size = new.map_or(0, |rs| rs.replicas.max(0));
            let entered = draft.status.stage.is_some_and(|stage| stage > 0);
            vec![track(Role::Update, new, if entered { replicas } else { size })]
        }
        Course::Forward => {
            let (want_new, want_old) = facts.wants(&draft.status);
            let want_old = want_old.max(i32::from(stages::keeps_one(facts, &draft.status)));
            vec![track(Role::Update, new, want_new), track(Role::Stable, stable, want_old)]
        }
        Course::Back | Course::RolledBack if stable.is_none() => return Vec::new(),
        Course::Back | Course::RolledBack => vec![track(Role::Stable, stable, replicas)],
    };
    let listed: Vec<_> =
        tracks.iter().filter_map(|track| track.replica_set.map(|rs| rs.uid.as_str())).collect();
    let others: Vec<_> = facts
        .replica_sets
        .iter()
        .filter(|rs| rs.replicas > 0 && !listed.contains(&rs.uid.as_str()))
        .map(|rs| {
            let is_update = Some(&rs.revision) == draft.status.update_revision.as_ref();
            track(if is_update { Role::Update } else { Role::Other }, Some(*rs), 0)
        })
        .collect();
    tracks.extend(others);
    tracks
}

/// Whether native rule 1 does what is left: one revision alone is active and is to have
/// everything, or none is active yet and the native controller is to choose it.
fn settles_natively(tracks: &[Track<'_>]) -> bool {
    let wanted = tracks.iter().filter(|track| track.want > 0).count();
    let mut active = tracks.iter().filter(|track| track.size() > 0);
    match (active.next(), active.next()) {
        (Some(only), None) => wanted == usize::from(only.want > 0) && wanted <= 1,
        (None, _) => wanted <= 1 && tracks.iter().all(|t| t.want == 0 || t.replica_set.is_some()),
        _ => false,
    }
}

/// Empty ReplicaSets that native rule 1 would set to `spec.replicas` when that leaves 0: the one
/// of a failed template, and at no replicas the one of a template that is not fully approved, and
/// any that is younger than the stable one, since without the former the youngest gets everything.
fn leftovers<'a>(facts: &Facts<'a>, draft: &Draft) -> Vec<&'a ReplicaSet> {
    let Some(stable) = facts.of_revision(draft.status.stable_revision.as_deref()) else {
        return Vec::new();
    };
    let younger = |rs: &ReplicaSet| rs.created >= stable.created;
    let unwanted = match draft.course {
        Course::Back | Course::RolledBack => true,
        Course::Forward => {
            facts.replicas() == 0 && facts.percent(draft.status.stage.unwrap_or(0)) < 100
        }
        Course::Resting | Course::FirstDeploy => false,
    };
    facts
        .replica_sets
        .iter()
        .copied()
        .filter(|rs| unwanted && rs.uid != stable.uid)
        .filter(|rs| rs.template == facts.target.template || facts.replicas() == 0 && younger(rs))
        .filter(|rs| rs.replicas == 0 && rs.current == 0 && rs.terminating == 0 && rs.is_observed())
        .collect()
}

/// What to write now.
pub fn drive(facts: &Facts<'_>, draft: &Draft, sizes: &Sizes<'_>, standing: &Standing) -> Moves {
    let none = facts.new_replica_set().is_none() && facts.active_besides(None).next().is_none();
    if draft.course == Course::FirstDeploy && none {
        return first_pods(facts);
    }
    let mut moves = Moves::default();
    let form = if sizes.batch.is_empty() {
        resting_form(facts, draft, sizes, standing, &mut moves)
    } else {
        Form::Moving
    };
    let patch = form.patch(facts, &draft.status);
    moves.events.extend(drift::reformed(facts, patch.is_some(), form));
    if let Some(patch) = patch {
        if form != Form::Moving {
            moves.actions.extend(right_annotations(facts));
        }
        moves.actions.push(Action::PatchDeployment(patch));
        moves.waits_for = (form == Form::Moving).then(|| OBSERVE.to_owned());
    } else if !facts.is_observed() {
        moves.waits_for = Some(OBSERVE.to_owned());
    } else if sizes.batch.is_empty() {
        moves.settled = true;
    } else {
        resize(facts, draft, sizes, &mut moves);
    }
    if let Some(held) = &sizes.held {
        moves.waits_for = Some(held.words.clone());
    }
    moves.actions.extend(sizes.leftovers.iter().map(|rs| Action::DeleteReplicaSet {
        name: rs.name.clone(),
        uid: rs.uid.clone(),
        resource_version: rs.resource_version.clone(),
    }));
    moves
}

const OBSERVE: &str = "the Deployment controller to take note of the Deployment";

/// The Deployment's very first ReplicaSet: the native controller makes it, unless the Deployment
/// came paused or its ReplicaSet was deleted while it rests paused.
fn first_pods(facts: &Facts<'_>) -> Moves {
    if !facts.target.paused {
        let waits_for = "the Deployment controller to create the first ReplicaSet";
        return Moves { waits_for: Some(waits_for.to_owned()), ..Moves::default() };
    }
    let replicas = facts.replicas();
    let create = Action::CreateReplicaSet {
        template: facts.target.template,
        replicas,
        desired: Some(replicas),
        max: Some(replicas.saturating_add(share::own_surge(&facts.own, replicas))),
    };
    Moves { actions: vec![create], ..Moves::default() }
}

/// The form where no size is to change now.
fn resting_form(
    facts: &Facts<'_>,
    draft: &Draft,
    sizes: &Sizes<'_>,
    standing: &Standing,
    moves: &mut Moves,
) -> Form {
    let active: Vec<_> = facts.active_besides(None).collect();
    match draft.course {
        // With several active the native controller would spread the pods over them.
        Course::Resting | Course::FirstDeploy | Course::Back | Course::RolledBack
            if active.len() > 1 =>
        {
            return Form::Moving;
        }
        Course::Resting | Course::FirstDeploy => return Form::Rest,
        Course::Back if !is_back(facts, &draft.status) => {
            return alone(facts, &draft.status, !is_reverted(&draft.status));
        }
        Course::Back if is_reverted(&draft.status) => return Form::Rest,
        Course::Back | Course::RolledBack => return Form::Kept,
        Course::Forward if stages::is_finished(facts, &draft.status) && !facts.spec.paused => {
            return Form::Rest;
        }
        Course::Forward => {}
    }
    if active.len() <= 1 {
        let new = facts.new_replica_set().map(|rs| rs.uid.as_str());
        let all_new = active.first().is_some_and(|rs| Some(rs.uid.as_str()) == new);
        return alone(facts, &draft.status, !all_new);
    }
    let total = active.iter().fold(0_i32, |sum, rs| sum.saturating_add(rs.replicas));
    let saturated = active.iter().any(|rs| rs.replicas == facts.replicas());
    let surge = total - facts.replicas();
    let linger = match (standing.phase, standing.reason) {
        // At no replicas the native controller allows no pods, whatever the surge.
        _ if saturated || surge < 0 || facts.replicas() == 0 => None,
        (Phase::Progressing, Reason::Soaking) if standing.until.is_some_and(|t| t > SHORT_SOAK) => {
            Some(linger(facts, &draft.status))
        }
        (Phase::AwaitingApproval, _) | (Phase::Progressing, Reason::AwaitingChecks) => {
            Some(linger(facts, &draft.status))
        }
        (Phase::Paused | Phase::Stalled, _) => Some(Duration::ZERO),
        // What waits for a hook that fails may wait long; replicas are followed meanwhile.
        _ if sizes.held.as_ref().is_some_and(|held| held.failing) => Some(Duration::ZERO),
        _ => None,
    };
    match linger {
        Some(left) if left.is_zero() || Form::Moving.patch(facts, &draft.status).is_some() => {
            Form::Held { surge }
        }
        left => {
            moves.until = left;
            Form::Moving
        }
    }
}

/// With at most one revision active the native controller changes no size in any form. Beside the
/// stable one the user's own strategy stands, so that a stray `rollout resume` replaces no more
/// than that allows; else the moving form is good enough until the end.
fn alone(facts: &Facts<'_>, status: &GrayRolloutStatus, stable: bool) -> Form {
    let moving = Form::Moving.patch(facts, status).is_none();
    if moving && !stable { Form::Moving } else { Form::Kept }
}

/// How long the moving form is still kept after a stage was reached.
fn linger(facts: &Facts<'_>, status: &GrayRolloutStatus) -> Duration {
    let since = status.stage_reached_at.unwrap_or(facts.now);
    let gone = Duration::try_from(facts.now.duration_since(since)).unwrap_or(Duration::ZERO);
    LINGER.saturating_sub(gone)
}

/// Whether every pod runs the stable revision and is available.
pub fn is_back(facts: &Facts<'_>, status: &GrayRolloutStatus) -> bool {
    let stable = facts.of_revision(status.stable_revision.as_deref());
    stable.is_some_and(|rs| {
        rs.replicas == facts.replicas() && rs.usable() >= rs.replicas && rs.is_observed()
    }) && facts.active_besides(stable).next().is_none()
}

/// Whether the way back leads to the present template.
pub fn is_reverted(status: &GrayRolloutStatus) -> bool {
    status.update_revision == status.stable_revision
}

/// Before the native controller acts again, both size annotations of the only active ReplicaSet
/// are right: a stale one would wedge the Deployment once unpaused.
pub fn right_annotations(facts: &Facts<'_>) -> Option<Action> {
    let mut active = facts.active_besides(None);
    let (Some(rs), None) = (active.next(), active.next()) else {
        return None;
    };
    let replicas = facts.replicas();
    let desired = Some(replicas);
    let max = Some(replicas.saturating_add(share::own_surge(&facts.own, replicas)));
    let right = rs.desired_annotation == desired && rs.max_annotation == max;
    (!right && rs.replicas == replicas).then(|| resized(rs, replicas, desired, max))
}

fn resize(facts: &Facts<'_>, draft: &Draft, sizes: &Sizes<'_>, moves: &mut Moves) {
    let replicas = facts.replicas();
    let after = |index: usize| {
        sizes
            .batch
            .iter()
            .find(|(at, _)| *at == index)
            .map_or_else(|| sizes.tracks.get(index).map_or(0, Track::size), |(_, size)| *size)
    };
    moves.actions.extend(desaturated(facts, sizes));
    for &(index, size) in &sizes.batch {
        let Some(track) = sizes.tracks.get(index) else {
            continue;
        };
        let alone = (0..sizes.tracks.len()).all(|other| other == index || after(other) == 0);
        // Native rules 2 and 3 would take a full ReplicaSet with this annotation for the end.
        let (desired, max) = if size == replicas && !alone {
            (None, None)
        } else {
            (Some(replicas), Some(replicas.saturating_add(facts.bounds.surge)))
        };
        let action = if let Some(rs) = track.replica_set {
            resized(rs, size, desired, max)
        } else {
            moves.events.push(created(facts, size, track.want));
            let template = facts.target.template;
            Action::CreateReplicaSet { template, replicas: size, desired, max }
        };
        moves.actions.push(action);
    }
    moves.events.extend(drift::resized(facts, draft, sizes));
}

/// While the new revision has all of `spec.replicas` and says so, native rule 2 empties every
/// other one; on the way back from there it must not say so any more.
fn desaturated(facts: &Facts<'_>, sizes: &Sizes<'_>) -> Option<Action> {
    let new = facts.new_replica_set()?;
    let replicas = facts.replicas();
    let full = new.replicas == replicas && new.desired_annotation == Some(replicas);
    let of_new = |track: &Track<'_>| track.replica_set.is_some_and(|rs| rs.uid == new.uid);
    let others = sizes.tracks.iter().any(|track| !of_new(track) && track.want > 0);
    let moves = sizes.batch.iter().any(|(index, _)| sizes.tracks.get(*index).is_some_and(of_new));
    (full && others && !moves).then(|| resized(new, replicas, None, None))
}

fn resized(rs: &ReplicaSet, replicas: i32, desired: Option<i32>, max: Option<i32>) -> Action {
    Action::ScaleReplicaSet {
        name: rs.name.clone(),
        uid: rs.uid.clone(),
        resource_version: rs.resource_version.clone(),
        replicas,
        desired,
        max,
    }
}

fn created(facts: &Facts<'_>, size: i32, want: i32) -> Event {
    Event {
        kind: EventKind::ReplicaSetCreated,
        message: format!(
            "created the ReplicaSet of revision {} with {size} of {want} pods",
            facts.template_revision(),
        ),
        on: EventOn::Both,
    }
}
