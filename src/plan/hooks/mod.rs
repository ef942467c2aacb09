//! Hooks: what they are told of a rollout, and what waits for them.
//!
//! A step is recorded in the ledger of the status before any hook is called for it, and stays there
//! until all of them are through with it. So a crash repeats at most the calls that were not
//! recorded yet, for the same step and with the same key.

mod calls;
mod gate;

use std::borrow::Cow;

use super::{
    EventKind, ReplicaSet,
    calls::{Answer, Outcome, cut},
    course::{Course, Draft, decide, recorded_course},
    facts::Facts,
};
use crate::api::{
    FailurePolicy, GrayRolloutSpec, GrayRolloutStatus, Hook, HookCall, HookEvent, HookLedger,
    HookResult, HookStatus, HookStep,
};

pub use calls::calls;
pub use gate::{Held, gate};

/// Calls for a step that nothing waits for, until it is given up.
const MOST_CALLS: i32 = 10;
/// Steps of rollouts that ended and still have to be told.
const MOST_ENDS: usize = 2;

/// The hooks that are called at an event.
fn called_at(spec: &GrayRolloutSpec, event: HookEvent) -> impl Iterator<Item = &Hook> {
    spec.hooks.iter().filter(move |hook| hook.on.contains(&event))
}

fn is_called(spec: &GrayRolloutSpec, event: HookEvent) -> bool {
    called_at(spec, event).next().is_some()
}

fn call_of<'s>(step: &'s HookStep, hook: &Hook) -> Option<&'s HookCall> {
    step.calls.iter().find(|call| call.hook == hook.name)
}

/// Whether a hook is through with a step. On the way back one call is enough, and pods wait for
/// none that has failed there before.
fn is_through(ledger: &HookLedger, step: &HookStep, hook: &Hook, back: bool) -> bool {
    let lenient = hook.failure_policy == FailurePolicy::Ignore || back;
    let most = match step.event {
        _ if lenient => 1,
        HookEvent::PodsRemoved | HookEvent::Completed | HookEvent::RolledBack => MOST_CALLS,
        _ => i32::MAX,
    };
    back && step.event.counts_pods() && ledger.given_up.contains(&hook.name)
        || call_of(step, hook).is_some_and(|call| call.done || call.failures >= most)
}

/// Whether every hook is through with a step.
fn is_over(spec: &GrayRolloutSpec, ledger: &HookLedger, step: &HookStep, back: bool) -> bool {
    called_at(spec, step.event).all(|hook| is_through(ledger, step, hook, back))
}

/// Whether two records speak of the same step.
fn is_same(one: &HookStep, other: &HookStep) -> bool {
    one.event == other.event
        && (one.rollout, one.stage) == (other.rollout, other.stage)
        && (&one.revision, one.generation) == (&other.revision, other.generation)
        && (one.from, one.to) == (other.from, other.to)
}

/// The ReplicaSets as they count for a rollout: where a hook must have taken note of added pods,
/// they are not available before it has.
pub fn counted<'a>(facts: &Facts<'a>) -> Cow<'a, [ReplicaSet]> {
    let (sets, status) = (facts.seen, &facts.rollout.status);
    let blocks = called_at(facts.spec, HookEvent::PodsAdded)
        .any(|hook| hook.failure_policy == FailurePolicy::Block);
    if status.stage.is_none() || !blocks {
        return Cow::Borrowed(sets);
    }
    // What was answered, and decided, just now counts already.
    let draft = decide(facts);
    if draft.course != Course::Forward {
        return Cow::Borrowed(sets);
    }
    let ledger = draft.status.hook_ledger.filter(|l| Some(l.rollout) == status.rollout);
    let Some(ledger) = ledger else { return Cow::Borrowed(sets) };
    let count = |rs: &ReplicaSet| {
        let told = told(&ledger, &rs.revision);
        ReplicaSet { available: rs.available.min(told), ..rs.clone() }
    };
    Cow::Owned(sets.iter().map(count).collect())
}

/// Pods of a revision that hooks know of.
fn told(ledger: &HookLedger, revision: &str) -> i32 {
    ledger.told.iter().find(|told| told.revision == revision).map_or(0, |told| told.pods)
}

/// Takes what hooks answered into the status.
pub fn take(facts: &Facts<'_>, draft: &mut Draft) {
    let hooks = &facts.spec.hooks;
    if hooks.is_empty() {
        draft.status.hook_ledger = None;
        draft.status.hooks.clear();
        return;
    }
    draft.status.hooks.retain(|last| hooks.iter().any(|hook| hook.name == last.name));
    let Some(mut ledger) = draft.status.hook_ledger.take() else { return };
    let back = recorded_course(&draft.status) == Course::Back;
    let mut steps = std::mem::take(&mut ledger.steps);
    for step in &mut steps {
        for hook in called_at(facts.spec, step.event) {
            let id = calls::id(facts, step, hook);
            let answer = facts.answers.iter().find(|answer| answer.id == id);
            let open = !call_of(step, hook).is_some_and(|call| call.done);
            let Some(answer) = answer.filter(|_| open) else { continue };
            if !record(draft, step, hook, answer) && back && !ledger.given_up.contains(&hook.name) {
                ledger.given_up.push(hook.name.clone());
            }
        }
    }
    ledger.steps = steps;
    close(facts.spec, &mut ledger, back);
    draft.status.hook_ledger = Some(ledger);
}

/// Records one answer; whether the call succeeded.
fn record(draft: &mut Draft, step: &mut HookStep, hook: &Hook, answer: &Answer) -> bool {
    let (done, message) = match &answer.outcome {
        Outcome::Http { status: 200..=299, message } => (true, cut(message)),
        Outcome::Http { status, message } if message.is_empty() => {
            (false, format!("answered {status}"))
        }
        Outcome::Http { status, message } => (false, cut(&format!("answered {status}: {message}"))),
        Outcome::Value(value) => (false, format!("answered {value}")),
        Outcome::None(why) => (false, cut(why)),
    };
    let time = answer.ended.round(jiff::Unit::Millisecond).unwrap_or(answer.ended);
    let failed = i32::from(!done);
    let failures = if let Some(call) = step.calls.iter_mut().find(|call| call.hook == hook.name) {
        call.failures = call.failures.saturating_add(failed);
        (call.done, call.time) = (done, time);
        call.failures
    } else {
        step.calls.push(HookCall { hook: hook.name.clone(), done, failures: failed, time });
        failed
    };
    let told = format!("rollout {}: hook {} at {}", step.rollout, hook.name, gate::title(step));
    if !done && failures == 1 {
        draft.tell(EventKind::HookFailed, format!("{told}: {message}"));
    } else if done && !message.is_empty() {
        draft.tell(EventKind::HookMessage, format!("{told}: {message}"));
    }
    let last = HookStatus {
        name: hook.name.clone(),
        event: step.event,
        result: if done { HookResult::Done } else { HookResult::Failed },
        time,
        failures: if done { 0 } else { failures },
        message,
    };
    let hooks = &mut draft.status.hooks;
    match hooks.iter_mut().find(|known| known.name == hook.name) {
        Some(known) => *known = last,
        None => hooks.push(last),
    }
    done
}

/// Closes the steps that every hook is through with. Those of pods about to come or go stay until
/// they do, since they stand for the permission.
fn close(spec: &GrayRolloutSpec, ledger: &mut HookLedger, back: bool) {
    let (over, open): (Vec<_>, Vec<_>) = std::mem::take(&mut ledger.steps)
        .into_iter()
        .partition(|step| !is_permission(step) && is_over(spec, ledger, step, back));
    ledger.steps = open;
    for step in over {
        match step.event {
            HookEvent::StageStarting => ledger.started = step.stage,
            HookEvent::StageReached => ledger.reached = step.stage,
            HookEvent::RollingBack => ledger.turned_back = true,
            HookEvent::PodsAdded | HookEvent::PodsRemoved => {
                gate::tell(ledger, step.revision.as_deref().unwrap_or_default(), step.to);
            }
            _ => {}
        }
    }
}

fn is_permission(step: &HookStep) -> bool {
    matches!(step.event, HookEvent::PodsAdding | HookEvent::PodsRemoving)
}

/// Whether the stage at hand has started and been reached as far as hooks go.
pub fn stage_is_told(facts: &Facts<'_>, status: &GrayRolloutStatus) -> bool {
    let stage = status.stage.unwrap_or(0);
    let ledger = status.hook_ledger.as_ref().filter(|l| Some(l.rollout) == status.rollout);
    let over = |event, of: fn(&HookLedger) -> i32| {
        !is_called(facts.spec, event) || ledger.is_some_and(|ledger| of(ledger) >= stage)
    };
    stage <= 0
        || status.split.is_some()
        || over(HookEvent::StageStarting, |ledger| ledger.started)
            && over(HookEvent::StageReached, |ledger| ledger.reached)
}

/// The rollout at hand ended: what is left is to say so.
pub fn end(facts: &Facts<'_>, draft: &mut Draft, event: HookEvent, stage: i32, number: i64) {
    if !is_called(facts.spec, event) {
        return;
    }
    let ledger = draft.status.hook_ledger.get_or_insert_default();
    ledger.steps.push(new_step(facts, event, stage, number));
    let ends: usize = ledger.steps.iter().filter(|step| is_end(step)).count();
    for _ in MOST_ENDS..ends {
        if let Some(oldest) = ledger.steps.iter().position(is_end) {
            ledger.steps.remove(oldest);
        }
    }
}

/// A step that is at hand from now on and that no hook has been called for.
fn new_step(facts: &Facts<'_>, event: HookEvent, stage: i32, rollout: i64) -> HookStep {
    HookStep {
        event,
        rollout,
        stage,
        since: facts.now,
        revision: None,
        generation: None,
        from: None,
        to: None,
        calls: Vec::new(),
    }
}

fn is_end(step: &HookStep) -> bool {
    matches!(step.event, HookEvent::Completed | HookEvent::RolledBack)
}

/// Since when the newest step is at hand: to come so far was progress.
pub fn newest_step(status: &GrayRolloutStatus) -> Option<jiff::Timestamp> {
    status.hook_ledger.as_ref()?.steps.iter().map(|step| step.since).max()
}
