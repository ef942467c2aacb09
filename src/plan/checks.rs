//! Checks: what is measured at a stage, and what that means for it.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;

use super::{
    EventKind,
    calls::{Answer, Call, CallRequest, Outcome, Purpose, cut, identity, seconds},
    course::{Draft, gave_up},
    facts::Facts,
    variables::Variables,
};
use crate::api::{
    Check, CheckResult, CheckStatus, GrayRolloutStatus, HistoryResult, Phase, PrometheusQuery,
};

/// Seconds that a measurement may take.
const TIMEOUT: u64 = 5;

/// The checks of the stage at hand.
fn of_stage<'a>(facts: &Facts<'a>, status: &GrayRolloutStatus) -> impl Iterator<Item = &'a Check> {
    let stage = status.stage.filter(|stage| *stage > 0);
    facts.spec.checks.iter().filter(move |check| stage.is_some_and(|s| check.from_stage <= s))
}

/// The last measurement of a check at the stage at hand.
fn measured<'s>(status: &'s GrayRolloutStatus, check: &Check) -> Option<&'s CheckStatus> {
    status.checks.iter().find(|last| last.name == check.name && Some(last.stage) == status.stage)
}

/// The check that has failed the stage, if one has.
pub fn failed<'s>(facts: &Facts<'_>, status: &'s GrayRolloutStatus) -> Option<&'s CheckStatus> {
    of_stage(facts, status)
        .filter_map(|check| Some((check, measured(status, check)?)))
        .find(|(check, last)| last.failures >= check.failure_limit.max(1))
        .map(|(_, last)| last)
}

/// The check that has had no result for so long that someone should look, if one has.
pub fn unknown<'s>(facts: &Facts<'_>, status: &'s GrayRolloutStatus) -> Option<&'s CheckStatus> {
    of_stage(facts, status)
        .filter_map(|check| Some((check, measured(status, check)?)))
        .find(|(check, last)| last.inconclusive >= check.inconclusive_limit.max(1))
        .map(|(_, last)| last)
}

/// The check that the stage waits for: its last measurement since every pod of the stage is
/// available must have passed.
pub fn pending<'a>(facts: &Facts<'a>, status: &GrayRolloutStatus) -> Option<&'a Check> {
    of_stage(facts, status).find(|check| {
        !measured(status, check).is_some_and(|last| {
            last.result == CheckResult::Passed
                && status.stage_reached_at.is_some_and(|reached| last.time >= reached)
        })
    })
}

/// Whether nothing moves on until someone acts: paused, or failed by a check.
pub fn halted(facts: &Facts<'_>, status: &GrayRolloutStatus) -> bool {
    facts.spec.paused || failed(facts, status).is_some()
}

/// What the check says that the stage waits for, in words.
pub fn words(facts: &Facts<'_>, status: &GrayRolloutStatus) -> String {
    let last = failed(facts, status).or_else(|| unknown(facts, status));
    let last = last.or_else(|| measured(status, pending(facts, status)?));
    match last {
        Some(last) => format!("check {}: {}", last.name, last.message),
        None => match pending(facts, status) {
            Some(check) => format!("check {}: not measured yet", check.name),
            None => String::new(),
        },
    }
}

/// The check that made the last rollout go back, in words.
pub fn why_given_up(status: &GrayRolloutStatus) -> String {
    let failed = status.checks.iter().find(|last| last.result == CheckResult::Failed);
    let by_failure = gave_up(status) == Some(HistoryResult::Failed);
    failed
        .filter(|_| by_failure)
        .map_or_else(String::new, |last| format!(", check {}: {}", last.name, last.message))
}

/// When a check is to be measured next, where it is measured at all.
fn due(status: &GrayRolloutStatus, check: &Check) -> Option<Timestamp> {
    let after = |time: Timestamp, seconds: i32| {
        time.checked_add(Duration::from_secs(u64::try_from(seconds).unwrap_or(0))).ok()
    };
    let first = after(status.stage_started_at?, check.initial_delay_seconds)?;
    let Some(last) = measured(status, check) else { return Some(first) };
    let next = after(last.time, check.interval_seconds.max(1))?;
    // What was measured before all pods of the stage were there says little of the stage.
    let reached = status.stage_reached_at.filter(|reached| last.time < *reached);
    Some(reached.map_or(next, |reached| reached.min(next)).max(first))
}

/// Whether anything is measured now.
fn is_measured(facts: &Facts<'_>, status: &GrayRolloutStatus) -> bool {
    status.phase != Some(Phase::RollingBack) && facts.replicas() > 0 && !halted(facts, status)
}

fn id(status: &GrayRolloutStatus, check: &Check) -> String {
    let last = measured(status, check).map_or(0, |last| last.time.as_millisecond());
    let (rollout, stage) = (status.rollout.unwrap_or(0), status.stage.unwrap_or(0));
    format!("{}/check/{rollout}/{stage}/{last}", check.name)
}

/// Takes what was measured into the status.
pub fn take(facts: &Facts<'_>, draft: &mut Draft) {
    let checks = &facts.spec.checks;
    draft.status.checks.retain(|last| checks.iter().any(|check| check.name == last.name));
    if !is_measured(facts, &draft.status) {
        return;
    }
    for check in of_stage(facts, &facts.rollout.status) {
        let id = id(&draft.status, check);
        if let Some(answer) = facts.answers.iter().find(|answer| answer.id == id) {
            record(draft, check, answer);
        }
    }
}

fn record(draft: &mut Draft, check: &Check, answer: &Answer) {
    let (result, value, message) = judge(check, &answer.outcome);
    let last = measured(&draft.status, check);
    let (failures, inconclusive) = last.map_or((0, 0), |last| (last.failures, last.inconclusive));
    let (failures, inconclusive) = match result {
        CheckResult::Passed => (0, 0),
        CheckResult::Failed => (failures.saturating_add(1), 0),
        CheckResult::Inconclusive => (failures, inconclusive.saturating_add(1)),
    };
    let number = draft.status.rollout.unwrap_or(0);
    let stage = draft.status.stage.unwrap_or(0);
    let news = match result {
        CheckResult::Passed => false,
        CheckResult::Failed => failures == 1 || failures == check.failure_limit,
        CheckResult::Inconclusive => inconclusive == check.inconclusive_limit,
    };
    if news {
        let text = format!("rollout {number}, stage {stage}: check {}: {message}", check.name);
        draft.tell(EventKind::CheckFailed, text);
    }
    let time = answer.begun.round(jiff::Unit::Millisecond).unwrap_or(answer.begun);
    let name = check.name.clone();
    let last = CheckStatus { name, stage, result, value, time, failures, inconclusive, message };
    let checks = &mut draft.status.checks;
    match checks.iter_mut().find(|known| known.name == check.name) {
        Some(known) => *known = last,
        None => checks.push(last),
    }
}

fn judge(check: &Check, outcome: &Outcome) -> (CheckResult, Option<String>, String) {
    match outcome {
        Outcome::Value(value) => {
            let (result, message) = match &check.prometheus {
                Some(query) => within(query, *value),
                None => (CheckResult::Inconclusive, "it is no query any more".to_owned()),
            };
            (result, Some(value.to_string()), message)
        }
        Outcome::Http { status, message } => {
            let result = match status {
                200..=299 => CheckResult::Passed,
                400..=499 => CheckResult::Failed,
                _ => CheckResult::Inconclusive,
            };
            let colon = if message.is_empty() { "" } else { ": " };
            (result, Some(status.to_string()), cut(&format!("answered {status}{colon}{message}")))
        }
        Outcome::None(why) => (CheckResult::Inconclusive, None, cut(why)),
    }
}

/// Whether a value lies within the bounds of a query.
fn within(query: &PrometheusQuery, value: f64) -> (CheckResult, String) {
    if !value.is_finite() {
        return (CheckResult::Inconclusive, format!("the value is {value}"));
    }
    match (query.min, query.max) {
        (Some(min), _) if value < min => {
            (CheckResult::Failed, format!("{value} is below the least of {min}"))
        }
        (_, Some(max)) if value > max => {
            (CheckResult::Failed, format!("{value} is above the most of {max}"))
        }
        (None, None) => (CheckResult::Inconclusive, "there is no bound to pass within".to_owned()),
        _ => (CheckResult::Passed, format!("{value} is within its bounds")),
    }
}

/// The measurements to take now, and how long until the next.
pub fn calls(facts: &Facts<'_>, draft: &GrayRolloutStatus) -> (Vec<Call>, Option<Duration>) {
    let status = &facts.rollout.status;
    let same = (draft.rollout, draft.stage) == (status.rollout, status.stage);
    let goes_on = draft.phase != Some(Phase::RollingBack) && !halted(facts, draft);
    if !same || !goes_on || !is_measured(facts, status) {
        return (Vec::new(), None);
    }
    let (mut calls, mut until) = (Vec::new(), None::<Duration>);
    for check in of_stage(facts, status) {
        let Some(due) = due(status, check) else { continue };
        if due <= facts.now {
            calls.extend(call(facts, status, check));
        } else {
            let left = Duration::try_from(due.duration_since(facts.now)).unwrap_or_default();
            until = Some(until.map_or(left, |until| until.min(left)));
        }
    }
    (calls, until)
}

fn call(facts: &Facts<'_>, status: &GrayRolloutStatus, check: &Check) -> Option<Call> {
    let stage = status.stage.unwrap_or(0);
    let place = (stage, facts.percent(stage));
    let variables = Variables::new(facts.rollout, facts.target, status, place);
    let id = id(status, check);
    let (request, timeout) = match (&check.prometheus, &check.webhook) {
        (Some(query), _) => {
            let address = variables.in_url(&query.address);
            let timeout = seconds(query.timeout_seconds, TIMEOUT);
            (CallRequest::Query { address, query: variables.in_query(&query.query) }, timeout)
        }
        (None, Some(webhook)) => {
            let key = format!("{}/{id}", facts.rollout.uid);
            let mut body = identity(facts.rollout, facts.target, status);
            if let Some(body) = body.as_object_mut() {
                body.insert("check".into(), json!(check.name));
                body.insert("stage".into(), json!(stage));
                body.insert("percent".into(), json!(place.1));
                body.insert("idempotencyKey".into(), json!(key));
            }
            let url = variables.in_url(&webhook.url);
            let timeout = seconds(webhook.timeout_seconds, TIMEOUT);
            (CallRequest::Post { url, key, body }, timeout)
        }
        (None, None) => return None,
    };
    Some(Call { id, purpose: Purpose::Check, request, timeout })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_passes_within_its_bounds() {
        use CheckResult::{Failed, Inconclusive, Passed};
        let query = |min, max| PrometheusQuery {
            address: String::new(),
            query: String::new(),
            min,
            max,
            timeout_seconds: None,
        };
        for (min, max, value, result) in [
            (None, Some(0.01), 0.01, Passed),
            (None, Some(0.01), 0.011, Failed),
            (Some(1.0), None, 1.0, Passed),
            (Some(1.0), None, 0.0, Failed),
            (Some(0.0), Some(1.0), -0.5, Failed),
            (None, Some(1.0), f64::NAN, Inconclusive),
            (None, Some(1.0), f64::NEG_INFINITY, Inconclusive),
            (None, None, 1.0, Inconclusive),
        ] {
            assert_eq!(within(&query(min, max), value).0, result, "{min:?} {max:?} {value}");
        }
    }
}
