//! The calls of hooks: which one comes next, with what key and body.

use std::time::Duration;

use serde_json::json;
use xxhash_rust::xxh3::xxh3_64;

use super::{call_of, called_at, is_same, is_through};
use crate::{
    api::{GrayRolloutStatus, Hook, HookStep},
    plan::{
        calls::{Call, CallRequest, Purpose, identity, seconds},
        course::{Course, recorded_course},
        facts::Facts,
        variables::Variables,
    },
};

/// Seconds that a hook may take.
const TIMEOUT: u64 = 10;
/// The longest wait between two calls for one step.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// What stays the same over all calls of a hook for a step.
fn key(facts: &Facts<'_>, step: &HookStep, hook: &Hook) -> String {
    let mut key = format!(
        "{}/{}/{}/{}/{}",
        facts.rollout.uid,
        step.rollout,
        hook.name,
        step.event.as_str(),
        step.stage
    );
    if let (Some(revision), Some(generation)) = (&step.revision, step.generation) {
        let (from, to) = (step.from.unwrap_or(0), step.to.unwrap_or(0));
        key = format!("{key}/{revision}/{generation}/{from}-{to}");
    }
    key
}

/// Which call it is: the next one after each failure.
pub fn id(facts: &Facts<'_>, step: &HookStep, hook: &Hook) -> String {
    let failures = call_of(step, hook).map_or(0, |call| call.failures);
    format!("{}/{failures}", key(facts, step, hook))
}

/// The wait after so many failures, with jitter that needs no chance.
fn backoff(id: &str, failures: i32) -> Duration {
    let doubled = 2_u32.saturating_pow(u32::try_from(failures - 1).unwrap_or(0));
    let whole = Duration::from_secs(1).saturating_mul(doubled).min(LONGEST_WAIT);
    let percent = u32::try_from(xxh3_64(id.as_bytes()) % 21).unwrap_or(0);
    whole * (80 + percent) / 100
}

/// The one call to make now, and how long until the next try of another.
pub fn calls(facts: &Facts<'_>, draft: &GrayRolloutStatus) -> (Option<Call>, Option<Duration>) {
    let status = &facts.rollout.status;
    let (Some(ledger), Some(kept)) = (&status.hook_ledger, &draft.hook_ledger) else {
        return (None, None);
    };
    let back = recorded_course(status) == Course::Back;
    let (mut next, mut until) = (None, None::<Duration>);
    for step in &ledger.steps {
        let stays = kept.steps.iter().any(|other| is_same(step, other));
        for hook in called_at(facts.spec, step.event) {
            let id = id(facts, step, hook);
            // An answer is kept until it is recorded.
            let answered = facts.answers.iter().any(|answer| answer.id == id);
            if is_through(ledger, step, hook, back) || !stays && !answered {
                continue;
            }
            if facts.begun.contains(&id) {
                return (Some(call(facts, step, hook, id)), None);
            }
            match wait(facts, step, hook, &id) {
                None => next = next.or(Some((step, hook, id))),
                Some(left) => until = Some(until.map_or(left, |until| until.min(left))),
            }
        }
    }
    (next.map(|(step, hook, id)| call(facts, step, hook, id)), until)
}

/// How long until the next try after a failure, if it is not time yet.
fn wait(facts: &Facts<'_>, step: &HookStep, hook: &Hook, id: &str) -> Option<Duration> {
    let last = call_of(step, hook).filter(|call| call.failures > 0)?;
    let gone = Duration::try_from(facts.now.duration_since(last.time)).unwrap_or_default();
    Some(backoff(id, last.failures).saturating_sub(gone)).filter(|left| !left.is_zero())
}

fn call(facts: &Facts<'_>, step: &HookStep, hook: &Hook, id: String) -> Call {
    let status = &facts.rollout.status;
    let percent = facts.percent(step.stage);
    let place = (step.stage, percent);
    let variables = Variables::new(facts.rollout, facts.target, status, place);
    let key = key(facts, step, hook);
    let mut body = identity(facts.rollout, facts.target, status);
    if let Some(body) = body.as_object_mut() {
        body.insert("hook".into(), json!(hook.name));
        body.insert("event".into(), json!(step.event));
        body.insert("rollout".into(), json!(step.rollout));
        body.insert("stage".into(), json!(step.stage));
        body.insert("percent".into(), json!(percent));
        body.insert("idempotencyKey".into(), json!(key));
        if let Some(revision) = &step.revision {
            body.insert("revision".into(), json!(revision));
            body.insert("from".into(), json!(step.from));
            body.insert("to".into(), json!(step.to));
        }
    }
    Call {
        id,
        purpose: Purpose::Hook(step.event),
        request: CallRequest::Post { url: variables.in_url(&hook.webhook.url), key, body },
        timeout: seconds(hook.webhook.timeout_seconds, TIMEOUT),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_half_a_minute() {
        for (failures, seconds) in [(1, 1), (2, 2), (5, 16), (6, 30), (i32::MAX, 30)] {
            let (wait, whole) = (backoff("a", failures), Duration::from_secs(seconds));
            assert!(wait <= whole && wait >= whole * 4 / 5, "{failures}: {wait:?}");
        }
        assert_ne!(backoff("a", 9), backoff("b", 9), "many do not come at once");
    }
}
