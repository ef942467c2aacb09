//! Stages: when one is reached, left and entered, and what editing them does.

use super::{
    EventKind, ReplicaSet, checks,
    course::{Draft, seconds_since},
    facts::Facts,
    hooks, share,
};
use crate::api::{GrayRolloutStatus, Phase, Split};

/// The stages were edited: a new number, at the last of the new stages that asks for at most as
/// much as the present one.
pub fn edited(facts: &Facts<'_>, draft: &mut Draft) {
    let (before, stage) = (draft.status.rollout.unwrap_or(0), draft.status.stage.unwrap_or(0));
    let at = index_of(&draft.status.stage_percents, stage);
    let next =
        (1..=facts.last_stage()).rev().find(|number| facts.percent(*number) <= at).unwrap_or(0);
    let (update, _) = wants_before_edit(facts, &draft.status, at);
    let number = facts.next_number(&draft.status);
    let status = &mut draft.status;
    status.rollout = Some(number);
    status.stage_percents = facts.percents();
    status.split = if next > 0 && status.split.is_none() {
        None
    } else {
        Some(Split { replicas: facts.replicas(), update })
    };
    status.stage = Some(next);
    status.stage_started_at = Some(facts.now);
    status.stage_reached_at = None;
    status.last_progress = None;
    status.checks.clear();
    let became = if next == 0 {
        format!("none of the new stages asks for at most {at}%; the pods stay as they are")
    } else {
        format!("stage {stage} ({at}%) became stage {next} ({}%)", facts.percent(next))
    };
    let text = format!(
        "the stages were edited: rollout {before} goes on as {number}, {became}; earlier approvals no longer count"
    );
    draft.tell(EventKind::StagesEdited, text);
}

fn wants_before_edit(facts: &Facts<'_>, status: &GrayRolloutStatus, percent: i32) -> (i32, i32) {
    let (replicas, surge) = (facts.replicas(), facts.bounds.surge);
    let new = match status.split {
        Some(split) => share::scaled_split(split, replicas, surge),
        None if percent <= 0 => 0,
        None => share::new_pods(replicas, percent, surge),
    };
    (new, share::old_pods(replicas, new, percent >= 100))
}

fn index_of(percents: &[i32], stage: i32) -> i32 {
    usize::try_from(stage)
        .ok()
        .and_then(|stage| stage.checked_sub(1))
        .and_then(|at| percents.get(at))
        .copied()
        .unwrap_or(0)
}

/// Leaves the stage and enters the next where that may be.
pub fn advance(facts: &Facts<'_>, draft: &mut Draft, has_stable: bool) {
    keep_split_while_paused(facts, &mut draft.status);
    if checks::halted(facts, &draft.status) || facts.replicas() == 0 {
        return;
    }
    // A stage may hold as many pods as the one before, and then be left at once.
    for _ in 0..=facts.last_stage() {
        watch_reach(facts, draft);
        if !enter_next(facts, draft, has_stable) {
            break;
        }
    }
}

/// Enters the next stage if that may be; says whether it did.
fn enter_next(facts: &Facts<'_>, draft: &mut Draft, has_stable: bool) -> bool {
    let stage = draft.status.stage.unwrap_or(0);
    let last = facts.last_stage();
    let (approved, by) = facts.approved(&draft.status);
    let next = stage.saturating_add(1);
    if !has_stable {
        // Nothing is left to weigh the new revision against: only a person can let it go on.
        let goes_on = approved >= next && next <= last;
        if goes_on {
            enter(facts, draft, approved.min(last), Some(&by));
        }
        return goes_on;
    }
    let left = draft.status.stage_reached_at.is_some()
        && soaked(facts, &draft.status)
        && may_be_left(facts, &draft.status)
        && (is_reached(facts, &draft.status)
            || approved >= next && is_held_back(facts, &draft.status)
            || is_passed(facts, &draft.status));
    if next > last || stage > 0 && !left {
        return false;
    }
    let automatic = facts.is_automatic(next) && draft.status.split.is_none();
    if approved < next && !automatic {
        return false;
    }
    enter(facts, draft, next, (!automatic).then_some(by.as_str()));
    true
}

fn enter(facts: &Facts<'_>, draft: &mut Draft, stage: i32, by: Option<&str>) {
    let waited = draft.status.stage_reached_at.or(draft.status.stage_started_at);
    let waited_seconds = waited.map_or(0.0, |at| seconds_since(facts, at));
    draft.status.stage = Some(stage);
    draft.status.split = None;
    draft.status.stage_started_at = Some(facts.now);
    draft.status.stage_reached_at = None;
    draft.status.last_progress = None;
    if let Some(by) = by {
        let text = format!(
            "rollout {}: stage {stage} of {} ({}%) approved by {by}",
            draft.status.rollout.unwrap_or(0),
            facts.last_stage(),
            facts.percent(stage),
        );
        draft.tell(EventKind::StageApproved { waited_seconds }, text);
    }
}

/// Notes when the stage is reached, and forgets it when a pod of it is lost; pods that start
/// because replicas grew do not restart the soak.
fn watch_reach(facts: &Facts<'_>, draft: &mut Draft) {
    let (want, _) = facts.wants(&draft.status);
    let new = facts.of_revision(draft.status.update_revision.as_deref());
    let available = new.map_or(0, ReplicaSet::usable);
    let reached = is_reached(facts, &draft.status)
        || is_held_back(facts, &draft.status)
        || is_passed(facts, &draft.status);
    if reached {
        if draft.status.stage_reached_at.is_none() {
            draft.status.stage_reached_at = Some(facts.now);
            tell_reached(facts, draft);
        }
    } else if draft.status.stage_reached_at.is_some() {
        let before = draft.status.update.as_ref().map_or(0, |track| track.available);
        if available < before.min(want) {
            lose(facts, &mut draft.status);
        }
    }
}

/// A pod of a reached stage is lost. Pods that come and go are no progress: the clock of the
/// deadline goes on where it stood.
fn lose(facts: &Facts<'_>, status: &mut GrayRolloutStatus) {
    let reached = status.stage_reached_at.take();
    if let (Some(reached), Some(progress)) = (reached, status.last_progress.as_mut()) {
        let stood = facts.now.duration_since(reached);
        progress.time = progress.time.checked_add(stood).unwrap_or(facts.now).min(facts.now);
    }
}

/// A stage that soaks, or after which the next one is entered at once; one that waits for an
/// approval, and the end of the last, are told as such.
fn tell_reached(facts: &Facts<'_>, draft: &mut Draft) {
    let stage = draft.status.stage.unwrap_or(0);
    let soak = facts.soak_seconds(stage);
    if stage > 0 && (soak > 0 || goes_on(facts, &draft.status)) {
        let after_seconds =
            draft.status.stage_started_at.map_or(0.0, |at| seconds_since(facts, at));
        let then = if soak > 0 { format!("; it soaks for {soak} s") } else { String::new() };
        let text = format!(
            "rollout {}: stage {stage} of {} ({}%) is reached{then}",
            draft.status.rollout.unwrap_or(0),
            facts.last_stage(),
            facts.percent(stage),
        );
        draft.tell(EventKind::StageReached { after_seconds }, text);
    }
}

/// Whether every pod of the stage is available and the old ones are as few as it asks.
pub fn is_reached(facts: &Facts<'_>, status: &GrayRolloutStatus) -> bool {
    let (want_new, want_old) = facts.wants(status);
    let new = facts.of_revision(status.update_revision.as_deref());
    let stable = facts.of_revision(status.stable_revision.as_deref());
    let new_ready = match new {
        Some(rs) => rs.replicas == want_new && rs.usable() >= want_new && rs.is_observed(),
        None => want_new == 0,
    };
    let old_settled =
        stable.is_none_or(|rs| rs.replicas <= want_old.max(i32::from(keeps_one(facts, status))));
    let no_others = facts
        .active_besides(new)
        .all(|rs| Some(rs.uid.as_str()) == stable.map(|rs| rs.uid.as_str()));
    new_ready && old_settled && no_others
}

/// Whether every new pod is available, and pods of earlier revisions stay only because the stable
/// one has pods that are not: they never hold back a good update that was approved.
pub fn is_held_back(facts: &Facts<'_>, status: &GrayRolloutStatus) -> bool {
    let (want, _) = facts.wants(status);
    let new = facts.of_revision(status.update_revision.as_deref());
    let stable = facts.of_revision(status.stable_revision.as_deref());
    let ready =
        new.is_some_and(|rs| rs.replicas == want && rs.usable() >= want && rs.is_observed());
    let broken = stable.is_some_and(|rs| rs.is_observed() && rs.usable() < rs.replicas);
    let available =
        facts.replica_sets.iter().fold(0_i32, |sum, rs| sum.saturating_add(rs.usable()));
    let floor = facts.replicas() - facts.bounds.unavailable;
    ready && broken && available <= floor
}

/// Whether someone else made more pods new than the stage asks for, all of them available, where
/// the stage would be left at once: to take them away first would end pods for nothing.
pub fn is_passed(facts: &Facts<'_>, status: &GrayRolloutStatus) -> bool {
    let (want, _) = facts.wants(status);
    let new = facts.of_revision(status.update_revision.as_deref());
    let stage = status.stage.unwrap_or(0);
    let more = new.is_some_and(|rs| rs.is_observed() && rs.replicas > want && rs.usable() > want);
    more && stage > 0
        && facts.soak_seconds(stage) == 0
        && goes_on(facts, status)
        && may_be_left(facts, status)
}

/// Whether checks and hooks let the stage be left.
pub fn may_be_left(facts: &Facts<'_>, status: &GrayRolloutStatus) -> bool {
    checks::pending(facts, status).is_none() && hooks::stage_is_told(facts, status)
}

/// Whether the next stage is entered as soon as this one may be left.
fn goes_on(facts: &Facts<'_>, status: &GrayRolloutStatus) -> bool {
    let next = status.stage.unwrap_or(0).saturating_add(1);
    let automatic = facts.is_automatic(next) && status.split.is_none();
    next <= facts.last_stage() && (facts.approved(status).0 >= next || automatic)
}

/// Whether one pod of the stable revision is kept while the last stage soaks: with
/// revisionHistoryLimit 0 the native controller deletes it once it is empty.
pub fn keeps_one(facts: &Facts<'_>, status: &GrayRolloutStatus) -> bool {
    let last = status.stage == Some(facts.last_stage());
    last && facts.target.revision_history_limit == Some(0)
        && facts.bounds.surge > 0
        && facts.replicas() > 0
        && facts.soak_seconds(facts.last_stage()) > 0
        && !soaked(facts, status)
}

/// Whether the stage has soaked long enough.
pub fn soaked(facts: &Facts<'_>, status: &GrayRolloutStatus) -> bool {
    let soak = facts.soak_seconds(status.stage.unwrap_or(0));
    #[allow(clippy::cast_precision_loss)] // at most 30 days
    let soak = soak as f64;
    status.stage_reached_at.is_some_and(|at| seconds_since(facts, at) >= soak)
}

/// Whether the last stage is through, so that only giving back is left.
pub fn is_finished(facts: &Facts<'_>, status: &GrayRolloutStatus) -> bool {
    let update = facts.of_revision(status.update_revision.as_deref());
    status.stage.is_some_and(|stage| {
        stage == i32::try_from(status.stage_percents.len()).unwrap_or(i32::MAX)
    }) && status.split.is_none()
        && facts.replicas() > 0
        && soaked(facts, status)
        && may_be_left(facts, status)
        && update.is_some_and(|rs| {
            rs.replicas == facts.replicas() && rs.usable() >= rs.replicas && rs.is_observed()
        })
        && facts.active_besides(update).next().is_none()
}

/// While the user pauses between two stages, the present split is kept.
fn keep_split_while_paused(facts: &Facts<'_>, status: &mut GrayRolloutStatus) {
    let stage = status.stage.unwrap_or(0);
    let share = |replicas| share::new_pods(replicas, facts.percent(stage), facts.bounds.surge);
    if !checks::halted(facts, status) {
        let was_paused = status.split.is_some_and(|split| split.update < share(split.replicas));
        if was_paused && stage > 0 {
            status.split = None;
            status.stage_reached_at = None;
        }
        return;
    }
    let before = &facts.rollout.status;
    let halted = before.phase == Some(Phase::Paused) || checks::failed(facts, before).is_some();
    let begins = !halted && status.stage_reached_at.is_none();
    let replicas = before.replicas.unwrap_or(facts.replicas());
    if begins && status.split.is_none() && stage > 0 && replicas > 0 {
        let new = facts.of_revision(status.update_revision.as_deref());
        let update = new.map_or(0, |rs| rs.replicas.max(0));
        if update < share(replicas) {
            status.split = Some(Split { replicas, update });
        }
    }
}
