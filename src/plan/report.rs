//! What the status says: counts, message and conditions.

use super::{
    Action, Admission, StatusWrite,
    course::{Course, Draft},
    drive::{Moves, Sizes},
    facts::Facts,
    pace::Role,
    share,
    standing::Standing,
    words,
};
use crate::api::{
    Condition, ConditionStatus, ConditionType, GrayRolloutStatus, Hold, Phase, Reason, Track,
};

/// Fills in everything that the decision did not write itself.
pub fn report(
    facts: &Facts<'_>,
    draft: &Draft,
    sizes: &Sizes<'_>,
    standing: &Standing,
    moves: &Moves,
) -> GrayRolloutStatus {
    let mut status = draft.status.clone();
    let replicas = facts.replicas();
    let before = &facts.rollout.status;
    status.observed_generation = Some(facts.rollout.generation);
    status.phase = Some(standing.phase);
    status.hold = hold(facts, draft);
    status.own_strategy = status.stage.is_some().then(|| facts.own.clone());
    if before.replicas.is_none() || facts.is_observed() && sizes.batch.is_empty() {
        status.replicas = Some(replicas);
    }
    let update = facts.of_revision(status.update_revision.as_deref());
    let stable = facts.of_revision(status.stable_revision.as_deref());
    let want = |role: Role, rs: Option<&super::ReplicaSet>| {
        let uid = rs.map(|rs| rs.uid.as_str());
        let of = |track: &&super::pace::Track<'_>| match track.replica_set {
            Some(rs) => Some(rs.uid.as_str()) == uid,
            None => track.role == role && uid.is_none(),
        };
        sizes.tracks.iter().find(of).map_or(0, |track| track.want)
    };
    let track = |role, rs: Option<&super::ReplicaSet>| Track {
        replica_set: rs.map(|rs| rs.name.clone()),
        desired: want(role, rs),
        current: rs.map_or(0, |rs| rs.current.max(0)),
        available: rs.map_or(0, |rs| rs.available.max(0)),
    };
    let same = status.update_revision == status.stable_revision;
    let new = track(if same { Role::Stable } else { Role::Update }, update);
    let old = track(Role::Stable, stable);
    status.updated = Some(format!("{}/{}", new.available, new.desired));
    let all =
        facts.replica_sets.iter().fold(0_i32, |sum, rs| sum.saturating_add(rs.current.max(0)));
    status.actual_percent = Some(share::percent_of(new.current, all));
    status.update = Some(new);
    status.stable = Some(old);
    status.stages = Some(facts.last_stage());
    status.desired_percent = status.stage.map(|stage| facts.percent(stage));
    status.progress = status.stage.map(|stage| format!("{stage}/{}", facts.last_stage()));
    let message = words::message(facts, draft, standing, moves, &status);
    status.conditions = conditions(facts, draft, standing, &message);
    status.message = Some(message);
    if status != *before {
        status.target_generation = Some(facts.target.generation);
    }
    status
}

/// What stops an unapproved template while nothing rolls out. It is told only once it is so: until
/// then `paused` is still the user's own.
fn hold(facts: &Facts<'_>, draft: &Draft) -> Option<Hold> {
    let ours = facts.original().is_some();
    let resting = matches!(draft.course, Course::Resting | Course::FirstDeploy);
    let before = draft.status.hold;
    match facts.admission {
        Admission::Holds { .. } if resting && !facts.target.paused => Some(Hold::Admission),
        Admission::Holds { .. } if !resting && ours => Some(Hold::Admission),
        Admission::Absent(_) if ours => Some(Hold::Paused),
        _ => before.or(ours.then_some(Hold::Paused)),
    }
}

/// The status where there is no target to speak of, or none that can be rolled out: what was
/// recorded stays, so that it goes on where it was.
pub fn report_blocked(
    before: &GrayRolloutStatus,
    generation: i64,
    now: jiff::Timestamp,
    phase: Phase,
    reason: Reason,
    message: String,
) -> GrayRolloutStatus {
    let mut status = before.clone();
    status.observed_generation = Some(generation);
    status.phase = Some(phase);
    status.conditions = [
        (ConditionType::Ready, ConditionStatus::False),
        (ConditionType::Progressing, ConditionStatus::False),
        (ConditionType::AwaitingApproval, ConditionStatus::False),
        (
            ConditionType::Stalled,
            if phase == Phase::Stalled { ConditionStatus::True } else { ConditionStatus::False },
        ),
    ]
    .into_iter()
    .map(|(type_, holds)| condition(before, type_, holds, reason, &message, generation, now))
    .collect();
    status.message = Some(message);
    status
}

fn conditions(
    facts: &Facts<'_>,
    draft: &Draft,
    standing: &Standing,
    message: &str,
) -> Vec<Condition> {
    let available = facts.new_replica_set().map_or(0, |rs| rs.available);
    let enough = facts.replicas() - share::own_unavailable(&facts.own, facts.replicas());
    let short = draft.course != Course::Forward && available < enough;
    let (phase, reason) = (standing.phase, standing.reason);
    let ready = match phase {
        Phase::Completed if short => (ConditionStatus::False, Reason::PodsUnavailable),
        Phase::Completed => (ConditionStatus::True, Reason::Completed),
        Phase::Progressing => (ConditionStatus::False, Reason::RolloutInProgress),
        _ => (ConditionStatus::False, reason),
    };
    let progressing = match phase {
        Phase::Progressing | Phase::RollingBack => (ConditionStatus::True, reason),
        _ => (ConditionStatus::False, reason),
    };
    let awaiting = match phase {
        Phase::AwaitingApproval => (ConditionStatus::True, Reason::StageReached),
        _ => (ConditionStatus::False, reason),
    };
    let stalled = match phase {
        Phase::Stalled => (ConditionStatus::True, reason),
        _ => (ConditionStatus::False, reason),
    };
    let before = &facts.rollout.status;
    [
        (ConditionType::Ready, ready),
        (ConditionType::Progressing, progressing),
        (ConditionType::AwaitingApproval, awaiting),
        (ConditionType::Stalled, stalled),
    ]
    .into_iter()
    .map(|(type_, (holds, why))| {
        condition(before, type_, holds, why, message, facts.rollout.generation, facts.now)
    })
    .collect()
}

fn condition(
    before: &GrayRolloutStatus,
    type_: ConditionType,
    status: ConditionStatus,
    reason: Reason,
    message: &str,
    generation: i64,
    now: jiff::Timestamp,
) -> Condition {
    // metav1.Time has whole seconds.
    let seconds = now.round(jiff::Unit::Second).unwrap_or(now);
    let since = before
        .conditions
        .iter()
        .find(|condition| condition.type_ == type_ && condition.status == status)
        .map_or(seconds, |condition| condition.last_transition_time);
    Condition {
        type_,
        status,
        observed_generation: Some(generation),
        last_transition_time: since,
        reason,
        message: message.to_owned(),
    }
}

/// When a status is to be written, beside these actions.
pub fn when(
    before: &GrayRolloutStatus,
    after: &GrayRolloutStatus,
    actions: &[Action],
) -> StatusWrite {
    if before == after {
        return StatusWrite::None;
    }
    let decision = |status: &GrayRolloutStatus| {
        (
            (status.target_uid.clone(), status.rollout, status.stage, status.split),
            (status.stable_revision.clone(), status.update_revision.clone()),
            status.stage_percents.clone(),
            status.hook_ledger.clone(),
            status.phase == Some(Phase::RollingBack),
            status.history.iter().map(|entry| (entry.rollout, entry.result)).collect::<Vec<_>>(),
        )
    };
    if decision(before) != decision(after) {
        let quiets = matches!(actions, [Action::PatchDeployment(patch)] if patch.only_quiets());
        let goes_on = before.rollout == after.rollout;
        return if quiets && goes_on { StatusWrite::Beside } else { StatusWrite::First };
    }
    let news = |status: &GrayRolloutStatus| {
        let reasons: Vec<_> = status.conditions.iter().map(|c| (c.status, c.reason)).collect();
        let wants = |track: &Option<Track>| track.as_ref().map(|track| track.desired);
        (status.phase, reasons, wants(&status.update), wants(&status.stable))
    };
    if news(before) == news(after) { StatusWrite::Soon } else { StatusWrite::Now }
}

/// When to look again, the soonest of all reasons.
pub fn next_look(reasons: &[Option<std::time::Duration>]) -> Option<std::time::Duration> {
    reasons.iter().flatten().min().copied()
}
