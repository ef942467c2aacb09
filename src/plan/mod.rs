//! The decision: from what is seen to what is to be done, pure and total.
//!
//! [`plan`] reads a snapshot in steps: which ReplicaSet is which (`facts`), which way the rollout
//! goes (`course`), which sizes that asks for (`share`) and which of them may be written now
//! (`pace`), where it stands (`standing`), in which form the Deployment must be for that (`form`,
//! `drive`), and what the status says (`report`, `words`).

mod action;
mod adopt;
mod calls;
mod checks;
mod course;
mod drift;
mod drive;
mod facts;
mod form;
mod hooks;
mod interval;
mod pace;
mod preview;
mod release;
mod report;
mod share;
mod snapshot;
mod stages;
mod standing;
mod variables;
mod words;

use jiff::Timestamp;

pub use action::{
    Action, AnnotationChange, DeploymentPatch, Event, EventKind, EventOn, Plan, ReleasePlan,
    StatusWrite,
};
pub use adopt::{Adoption, AdoptionAction, AdoptionPlan, adopt, written};
pub use calls::{Answer, Call, CallRequest, Outcome, Purpose};
pub use preview::{Pods, StagePreview, preview, preview_from};
pub use release::release;
pub use share::{Bounds, new_pods, old_pods};
pub use snapshot::{
    Admission, Original, Orphan, ReplicaSet, Rollout, Snapshot, Target, TemplateHash,
};
pub use variables::percent_encoded;

use crate::api::{
    GrayRolloutSpec, GrayRolloutStatus, HistoryResult, HookEvent, OnFailure, Phase, Reason,
};
pub use crate::api::{RollingUpdate, Strategy};
use course::{Course, Draft};
use drive::Sizes;
use facts::Facts;
use standing::Standing;

/// Decides what is to be done for one `GrayRollout`.
#[must_use]
pub fn plan(snapshot: &Snapshot) -> Plan {
    if lags_behind(snapshot) {
        return unchanged(snapshot);
    }
    match usable(snapshot) {
        Ok((spec, target)) => {
            let now = rounded(snapshot.now);
            let (answers, begun) = (&snapshot.answers, &snapshot.begun);
            let seen = &snapshot.replica_sets;
            let facts = Facts::new(now, &snapshot.rollout, spec, target, seen);
            let sets = hooks::counted(&Facts { answers, ..facts });
            let facts = Facts::new(now, &snapshot.rollout, spec, target, &sets);
            roll(&Facts { admission: &snapshot.admission, seen, answers, begun, ..facts })
        }
        Err(blocked) => blocked_plan(snapshot, blocked),
    }
}

/// Whether the Deployment is seen in an older state than the status was written on, as by an
/// operator that has just taken over.
fn lags_behind(snapshot: &Snapshot) -> bool {
    let status = &snapshot.rollout.status;
    snapshot.target.as_ref().is_some_and(|target| {
        status.target_uid.as_deref() == Some(&target.uid)
            && status.target_generation.is_some_and(|seen| target.generation < seen)
    })
}

fn unchanged(snapshot: &Snapshot) -> Plan {
    Plan {
        status: snapshot.rollout.status.clone(),
        write: StatusWrite::None,
        recorded: Vec::new(),
        actions: Vec::new(),
        acted: Vec::new(),
        calls: Vec::new(),
        requeue_after: Some(std::time::Duration::from_secs(1)),
    }
}

/// Why a rollout cannot be looked at further.
struct Blocked {
    phase: Phase,
    reason: Reason,
    message: String,
}

fn usable(snapshot: &Snapshot) -> Result<(&GrayRolloutSpec, &Target), Blocked> {
    let stalled = |reason, message| Blocked { phase: Phase::Stalled, reason, message };
    let rollout = &snapshot.rollout;
    if let Some(older) = &snapshot.older_twin {
        return Err(stalled(
            Reason::TargetConflict,
            format!(
                "the older GrayRollout {older} rolls out Deployment {} already; delete one of the two",
                rollout.target_name
            ),
        ));
    }
    let spec = rollout.spec.as_ref().map_err(|why| {
        stalled(Reason::InvalidSpec, format!("the spec cannot be followed: {why}; correct it"))
    })?;
    let Some(target) = &snapshot.target else {
        return Err(Blocked {
            phase: Phase::Pending,
            reason: Reason::TargetNotFound,
            message: format!(
                "there is no Deployment {} in namespace {}; it goes on once there is",
                rollout.target_name, rollout.namespace
            ),
        });
    };
    let status = &rollout.status;
    let known = status.target_uid.as_deref() == Some(&target.uid);
    let going_back = known && course::recorded_course(status) == Course::Back;
    if target.template_labelled && !going_back {
        return Err(stalled(
            Reason::InvalidTemplate,
            "the pod template carries the label pod-template-hash, which belongs to the Deployment controller; remove it".into(),
        ));
    }
    let own = facts::own_strategy(target, if known { Some(status) } else { None });
    if !matches!(own, Strategy::RollingUpdate { .. }) && !going_back {
        return Err(stalled(
            Reason::UnsupportedStrategy,
            "the Deployment's strategy is not RollingUpdate, so old and new pods may not run side by side; set it to RollingUpdate, or delete this GrayRollout".into(),
        ));
    }
    Ok((spec, target))
}

fn blocked_plan(snapshot: &Snapshot, blocked: Blocked) -> Plan {
    let rollout = &snapshot.rollout;
    let mut before = rollout.status.clone();
    let mut recorded = Vec::new();
    if blocked.reason == Reason::TargetNotFound {
        if before.phase != Some(Phase::Pending) {
            let message = blocked.message.clone();
            recorded.push(Event { kind: EventKind::TargetNotFound, message, on: EventOn::Rollout });
        }
        before = without_target(&before);
    }
    let going_back =
        course::recorded_course(&rollout.status) == Course::Back && blocked.phase == Phase::Stalled;
    let phase = if going_back { Phase::RollingBack } else { blocked.phase };
    let status = report::report_blocked(
        &before,
        rollout.generation,
        rounded(snapshot.now),
        phase,
        blocked.reason,
        blocked.message,
    );
    let write = report::when(&rollout.status, &status, &[]);
    let (acted, calls) = (Vec::new(), Vec::new());
    Plan { status, write, recorded, actions: Vec::new(), acted, calls, requeue_after: None }
}

/// What stays when the target is gone: the number and the history.
fn without_target(before: &GrayRolloutStatus) -> GrayRolloutStatus {
    GrayRolloutStatus {
        rollout: before.rollout,
        history: before.history.clone(),
        conditions: before.conditions.clone(),
        approval: before.approval.clone(),
        abort: before.abort.clone(),
        retry: before.retry.clone(),
        ..GrayRolloutStatus::default()
    }
}

fn roll(facts: &Facts<'_>) -> Plan {
    let mut draft = course::decide(facts);
    interval::note(facts, &mut draft);
    let (mut sizes, mut standing) = look(facts, &mut draft);
    let late = standing.reason == Reason::ProgressDeadlineExceeded;
    let failed = checks::failed(facts, &draft.status).is_some() && !facts.spec.paused;
    if (late || failed)
        && draft.course == Course::Forward
        && facts.of_revision(draft.status.stable_revision.as_deref()).is_some()
        && facts.spec.on_failure == OnFailure::Rollback
    {
        if late {
            draft.events.push(deadline_event(facts, &draft));
        }
        draft = course::give_up(facts, draft, HistoryResult::Failed);
        (sizes, standing) = look(facts, &mut draft);
    }
    let mut moves = drive::drive(facts, &draft, &sizes, &standing);
    if moves.settled && end(facts, &mut draft) {
        (sizes, standing) = look(facts, &mut draft);
        moves = drive::drive(facts, &draft, &sizes, &standing);
    }
    let mut status = report::report(facts, &draft, &sizes, &standing, &moves);
    let mut write = report::when(&facts.rollout.status, &status, &moves.actions);
    if write != StatusWrite::First
        && let Some(step) = interval::made(facts, &draft, &moves)
    {
        (status.last_step, write) = (Some(step), StatusWrite::Now);
    }
    let told = transitions(facts, &draft, &standing, &status);
    let mut recorded = std::mem::take(&mut draft.events);
    recorded.extend(told);
    let (mut calls, next_check) = checks::calls(facts, &status);
    let (hook, next_hook) = hooks::calls(facts, &status);
    calls.extend(hook);
    Plan {
        requeue_after: report::next_look(&[standing.until, moves.until, next_check, next_hook]),
        calls,
        status,
        write,
        recorded,
        actions: moves.actions,
        acted: moves.events,
    }
}

fn look<'a>(facts: &Facts<'a>, draft: &mut Draft) -> (Sizes<'a>, Standing) {
    let mut sizes = drive::sizes(facts, draft);
    hooks::gate(facts, draft, &mut sizes);
    standing::note_progress(facts, draft, !sizes.batch.is_empty());
    let standing = standing::stand(facts, draft);
    (sizes, standing)
}

/// Ends a rollout whose Deployment is given back, or a way back that is through.
fn end(facts: &Facts<'_>, draft: &mut Draft) -> bool {
    let (stage, number) = (draft.status.stage.unwrap_or(0), draft.status.rollout.unwrap_or(0));
    match draft.course {
        Course::Forward if stages::is_finished(facts, &draft.status) && !facts.spec.paused => {
            course::complete(facts, draft, HistoryResult::Completed);
            hooks::end(facts, draft, HookEvent::Completed, stage, number);
            draft.course = Course::Resting;
            true
        }
        Course::Back if drive::is_back(facts, &draft.status) => {
            if drive::is_reverted(&draft.status) {
                course::complete(facts, draft, HistoryResult::RevertedByTemplate);
                draft.course = Course::Resting;
            } else {
                course::rest_rolled_back(facts, draft);
            }
            hooks::end(facts, draft, HookEvent::RolledBack, stage, number);
            true
        }
        _ => false,
    }
}

fn deadline_event(facts: &Facts<'_>, draft: &Draft) -> Event {
    Event {
        kind: EventKind::ProgressDeadlineExceeded,
        message: format!(
            "rollout {}: no progress within the deadline, {} pods of the new revision are available",
            draft.status.rollout.unwrap_or(0),
            facts.new_replica_set().map_or(0, |rs| rs.available),
        ),
        on: EventOn::Rollout,
    }
}

/// What changed since the status was last written, told once.
fn transitions(
    facts: &Facts<'_>,
    draft: &Draft,
    standing: &Standing,
    status: &GrayRolloutStatus,
) -> Vec<Event> {
    let before = &facts.rollout.status;
    let message = status.message.clone().unwrap_or_default();
    let had = |reason| before.conditions.iter().any(|condition| condition.reason == reason);
    let mut events = Vec::new();
    let mut tell = |kind, message, on| events.push(Event { kind, message, on });
    if standing.phase == Phase::AwaitingApproval && before.phase != Some(Phase::AwaitingApproval) {
        let after_seconds =
            status.stage_started_at.map_or(0.0, |at| course::seconds_since(facts, at));
        tell(EventKind::AwaitingApproval { after_seconds }, message.clone(), EventOn::Rollout);
    }
    match standing.reason {
        Reason::ProgressDeadlineExceeded if !had(Reason::ProgressDeadlineExceeded) => {
            tell(EventKind::ProgressDeadlineExceeded, message, EventOn::Rollout);
        }
        Reason::StableLost if !had(Reason::StableLost) => {
            tell(EventKind::StableLost, message, EventOn::Rollout);
        }
        Reason::ReplicaFailure if !had(Reason::ReplicaFailure) => {
            tell(EventKind::ReplicaFailure, message, EventOn::Rollout);
        }
        _ => {}
    }
    if let Some(message) = rescaled(before, status, draft) {
        // On the GrayRollout the approval says it.
        let approved = |event: &Event| matches!(event.kind, EventKind::StageApproved { .. });
        let approved = draft.events.iter().any(approved);
        let on = if approved { EventOn::Target } else { EventOn::Both };
        tell(EventKind::ReplicaSetScaled, message, on);
    }
    if let Some(message) = ignored(facts, status) {
        tell(EventKind::ApprovalIgnored, message, EventOn::Rollout);
    }
    events
}

/// New sizes that are aimed at: at a stage, after a change of replicas, on the way back.
fn rescaled(
    before: &GrayRolloutStatus,
    after: &GrayRolloutStatus,
    draft: &Draft,
) -> Option<String> {
    // The start of a rollout tells of its first pods by itself.
    let goes_on = before.rollout == after.rollout;
    if !goes_on || !matches!(draft.course, Course::Forward | Course::Back) {
        return None;
    }
    let changes: Vec<_> = [(&before.update, &after.update), (&before.stable, &after.stable)]
        .into_iter()
        .filter_map(|(old, new)| {
            let (old, new) = (old.as_ref()?, new.as_ref()?);
            let name = new.replica_set.as_ref()?;
            let same = old.replica_set.as_ref() == Some(name) && old.desired != new.desired;
            same.then(|| format!("{name} from {} to {}", old.desired, new.desired))
        })
        .collect();
    (!changes.is_empty()).then(|| format!("scaling {}", changes.join(", ")))
}

/// An approval in the spec that does not count, told when the spec was changed.
fn ignored(facts: &Facts<'_>, status: &GrayRolloutStatus) -> Option<String> {
    let approval = facts.spec.approval.as_ref()?;
    let seen = facts.rollout.status.observed_generation == Some(facts.rollout.generation);
    let counts = status.stage.is_some()
        && Some(approval.rollout) == status.rollout
        && Some(&approval.revision) == status.update_revision.as_ref();
    (!seen && !counts).then(|| {
        format!(
            "spec.approval of rollout {} revision {} does not count: rollout {} of revision {} is at hand{}",
            approval.rollout,
            approval.revision,
            status.rollout.unwrap_or(0),
            status.update_revision.as_deref().unwrap_or("unknown"),
            if status.stage.is_some() { "" } else { ", and nothing is rolling out" },
        )
    })
}

/// The present time as statuses carry it, in whole milliseconds.
fn rounded(now: Timestamp) -> Timestamp {
    now.round(jiff::Unit::Millisecond).unwrap_or(now)
}
