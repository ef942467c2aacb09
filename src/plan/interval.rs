//! A least time between one batch of new pods and the next.
//!
//! Only growth of the new revision makes a batch and is held back. What follows from it, and a
//! change of replicas, goes on: until the next batch is due, new and old keep the split that the
//! last one led to, in proportion.

use std::time::Duration;

use super::{
    Action, ReplicaSet,
    course::{Course, Draft},
    drive::Moves,
    facts::Facts,
    pace::Track,
    share,
};
use crate::api::{GrayRolloutStatus, Split, Step};

/// Whether batches are counted: on the way forward, beside pods to go back to.
fn counts(facts: &Facts<'_>, draft: &Draft) -> bool {
    let stable = facts.of_revision(draft.status.stable_revision.as_deref());
    interval(facts).is_some() && draft.course == Course::Forward && stable.is_some()
}

/// `spec.stepIntervalSeconds`, where it asks for anything.
fn interval(facts: &Facts<'_>) -> Option<Duration> {
    let seconds = facts.spec.step_interval_seconds.unwrap_or(0);
    u64::try_from(seconds).ok().filter(|seconds| *seconds > 0).map(Duration::from_secs)
}

/// The size of the new revision that counts as moved: what someone else adds beyond the stage is
/// taken away again.
fn moved(facts: &Facts<'_>, status: &GrayRolloutStatus) -> i32 {
    let size = facts.new_replica_set().map_or(0, |rs| rs.replicas.max(0));
    size.min(facts.wants(status).0)
}

/// New pods that the last batch led to, at the present number of replicas.
fn kept(facts: &Facts<'_>, step: Step) -> i32 {
    let split = Split { replicas: step.replicas, update: step.update };
    share::scaled_split(split, facts.replicas(), facts.bounds.surge)
}

/// Notes a batch that was written and not recorded, as where the process ended in between, and
/// forgets the last one where none counts.
pub fn note(facts: &Facts<'_>, draft: &mut Draft) {
    if !counts(facts, draft) {
        draft.status.last_step = None;
        return;
    }
    let moved = moved(facts, &draft.status);
    let known = draft.status.last_step.map_or(0, |step| kept(facts, step));
    // Where replicas have just changed, the new pods may still be as many as they were.
    let replicas = facts.replicas();
    let sized_for = facts.new_replica_set().and_then(|rs| rs.desired_annotation);
    let known_before = facts.rollout.status.replicas == Some(replicas);
    let settled = sized_for.map_or(known_before, |sized_for| sized_for == replicas);
    let ahead = draft.status.last_step.is_some_and(|step| step.time > facts.now);
    if moved > known && settled {
        draft.status.last_step = Some(step(facts, moved));
    } else if let Some(step) = draft.status.last_step.as_mut()
        && ahead
    {
        // Another process's clock, or a status written by hand, must not hold it for ever.
        step.time = facts.now;
    }
}

fn step(facts: &Facts<'_>, update: i32) -> Step {
    Step { time: facts.now, replicas: facts.replicas(), update }
}

/// How long until the next batch may be written; `None` where it may be now.
pub fn left(facts: &Facts<'_>, status: &GrayRolloutStatus) -> Option<Duration> {
    let gone = facts.now.duration_since(status.last_step?.time);
    let gone = Duration::try_from(gone).unwrap_or(Duration::ZERO);
    interval(facts)?.checked_sub(gone).filter(|left| !left.is_zero())
}

/// Takes the sizes back to what the last batch led to, until the next is due. Altogether no pod
/// less is asked for, so that what falls below is repaired at once.
pub fn hold(facts: &Facts<'_>, draft: &Draft, tracks: &mut [Track<'_>]) {
    let (Some(_), Some(step)) = (left(facts, &draft.status), draft.status.last_step) else {
        return;
    };
    let [update, stable, others @ ..] = tracks else {
        return;
    };
    let others = others.iter().fold(0_i32, |sum, track| sum.saturating_add(track.size()));
    update.want = update.want.min(kept(facts, step));
    let missing = facts.replicas().saturating_sub(update.want).saturating_sub(others);
    stable.want = stable.want.max(missing);
}

/// Whether every pod of the last batch is available and the next is only waited for.
pub fn waits(facts: &Facts<'_>, status: &GrayRolloutStatus) -> bool {
    let (want, _) = facts.wants(status);
    let Some(kept) = left(facts, status).and(status.last_step).map(|step| kept(facts, step)) else {
        return false;
    };
    let available = |rs: &ReplicaSet| rs.replicas == kept && rs.usable() == kept;
    kept < want && facts.new_replica_set().is_some_and(|rs| available(rs) && rs.is_observed())
}

/// When the next batch is due, in words, while it is waited for.
pub fn due(facts: &Facts<'_>, status: &GrayRolloutStatus) -> Option<String> {
    let step = status.last_step.filter(|_| waits(facts, status))?;
    let interval = interval(facts)?;
    let at = step.time.checked_add(interval).ok()?.round(jiff::Unit::Second).ok()?;
    Some(format!("the next pods move at {at}, {} s after the last", interval.as_secs()))
}

/// The batch that is about to be written, to be recorded after it.
pub fn made(facts: &Facts<'_>, draft: &Draft, moves: &Moves) -> Option<Step> {
    if !counts(facts, draft) {
        return None;
    }
    let known = draft.status.last_step.map_or(0, |step| kept(facts, step));
    let new = facts.new_replica_set();
    let sizes = moves.actions.iter().filter_map(|action| match action {
        Action::CreateReplicaSet { replicas, .. } => Some(*replicas),
        Action::ScaleReplicaSet { uid, replicas, .. } => {
            new.filter(|rs| rs.uid == *uid && rs.replicas < *replicas).map(|_| *replicas)
        }
        _ => None,
    });
    let size = sizes.max()?;
    (size > known).then(|| step(facts, size))
}
