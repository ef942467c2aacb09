//! Checks: what they let through, what they hold, and what makes it go back.

use grayrollout::{
    api::{Check, CheckResult, HistoryResult, OnFailure, Phase, Reason},
    plan::{Call, CallRequest, Outcome},
};

use super::Story;
use crate::{
    actors::Act,
    generate::errors,
    world::{Setup, World},
};

fn good(_: &Call, _: usize) -> Outcome {
    Outcome::Value(0.0)
}

fn bad(_: &Call, _: usize) -> Outcome {
    Outcome::Value(0.5)
}

fn silent(_: &Call, _: usize) -> Outcome {
    Outcome::None("the query gave no sample".into())
}

fn story(answer: fn(&Call, usize) -> Outcome) -> Story {
    of(&Setup::new(&[20, 50, 100]).with(|spec| spec.checks = vec![errors("errors")]), answer)
}

fn of(setup: &Setup, answer: fn(&Call, usize) -> Outcome) -> Story {
    let mut story = Story::new(setup);
    story.0.world.endpoint.answer = answer;
    story
}

fn stalled(world: &World) -> bool {
    let holds = |reason| world.status().conditions.iter().any(|c| c.reason == reason);
    world.status().phase == Some(Phase::Stalled) && holds(Reason::ChecksFailed)
}

#[test]
fn a_good_version_passes_each_stage() {
    let mut story = story(good);
    story.0.strict = true;
    story.act(Act::Template(2)).held_at(1);
    let status = story.status();
    let last = &status.checks[0];
    let reached = status.stage_reached_at.expect("it is reached");
    story
        .check(last.result == CheckResult::Passed && last.time >= reached, "measured at the stage");
    let query = match &story.world().endpoint.arrived[0].call.request {
        CallRequest::Query { query, .. } => query.clone(),
        CallRequest::Post { .. } => String::new(),
    };
    let revision = status.update_revision.clone().expect("a revision");
    assert_eq!(query, format!("errors{{revision=\"{revision}\"}}"));
    story.approve().held_at(2).approve().completed(2);
    let stages: std::collections::BTreeSet<_> =
        story.world().endpoint.arrived.iter().map(|a| a.call.id.clone()).collect();
    story.check(stages.len() >= 3, "measured at each stage, the last one too");
}

#[test]
fn a_bad_version_goes_back_at_the_first_stage() {
    let setup = Setup::new(&[20, 50, 100]).with(|spec| {
        spec.checks = vec![errors("errors")];
        spec.on_failure = OnFailure::Rollback;
    });
    let mut story = of(&setup, bad);
    story.act(Act::Template(2));
    let began = story.world().cluster.now;
    story.until(Phase::RollingBack);
    let took = story.world().cluster.now - began;
    story.check(took <= 10_000, &format!("within two intervals, not {took} ms"));
    story.check(story.world().size(2) <= 2, "no more than the first stage");
    story.rolled_back(1);
    let status = story.status();
    story.check(status.history[0].result == HistoryResult::Failed, "failed");
    let message = status.message.clone().unwrap_or_default();
    story.check(message.contains("errors: 0.5 is above the most of 0.01"), &message);
}

#[test]
fn with_pause_the_pods_stay_as_they_are_until_a_retry() {
    let setup = Setup::new(&[50, 100]).with(|spec| spec.checks = vec![errors("errors")]);
    let mut story = of(&Setup { start_ms: 4000, ..setup }, bad);
    story.act(Act::Template(2)).until_that("the check has failed", stalled);
    let new = story.world().size(2);
    story.check(new < 5, &format!("it failed on the way: {new}"));
    story.run(60_000);
    story.check(story.world().size(2) == new, "nothing moves");
    story.act(Act::Replicas(20)).run(30_000);
    story.check(story.world().size(2) == 2 * new, "replicas are followed in proportion");
    story.check(story.world().endpoint.arrived.len() == 2, "nothing is measured any more");
    let number = story.status().rollout;
    story.0.world.endpoint.answer = good;
    story.act(Act::Retry).held_at(1);
    story.check(story.status().rollout > number, "the next number");
    story.approve().completed(2);
}

#[test]
fn no_result_holds_the_stage_until_there_is_one() {
    let mut story = story(silent);
    story.act(Act::Template(2)).until_that("it stalls", stalled);
    let status = story.status();
    let message = status.message.clone().unwrap_or_default();
    story.check(message.contains("no sample"), &message);
    story.check(story.world().size(2) == 2, "the pods of the stage are there");
    story.approve().run(30_000);
    story.check(story.status().stage == Some(1), "an approval does not get past it");
    story.0.world.endpoint.answer = good;
    story.held_at(2);
}

#[test]
fn what_is_not_a_number_is_no_result() {
    let mut story = story(|_, _| Outcome::Value(f64::NAN));
    story.act(Act::Template(2)).until_that("it stalls", stalled);
    let last = story.status().checks[0].clone();
    story.check(last.result == CheckResult::Inconclusive && last.failures == 0, "inconclusive");
}

#[test]
fn a_check_that_fails_withdraws_the_readiness_and_keeps_the_approval() {
    let setup = Setup::new(&[20, 50, 100]).with(|spec| {
        spec.checks = vec![Check { failure_limit: 10, ..errors("errors") }];
    });
    let mut story = of(&setup, good);
    story.act(Act::Template(2)).held_at(1);
    story.0.world.endpoint.answer = bad;
    story.until(Phase::Progressing);
    let status = story.status();
    let waits = status.conditions.iter().any(|c| c.reason == Reason::AwaitingChecks);
    story.check(waits, "the reason");
    let message = status.message.clone().unwrap_or_default();
    story.check(message.contains("check errors: 0.5 is above"), &message);
    story.approve().run(12_000);
    story.check(story.status().stage == Some(1), "a failing check holds an approved stage");
    story.0.world.endpoint.answer = good;
    story.held_at(2);
}

#[test]
fn removing_the_check_lets_it_go_on() {
    let mut story = story(bad);
    story.act(Act::Template(2)).until_that("the check has failed", stalled);
    story.0.world.change_spec(|spec| spec.checks.clear());
    story.held_at(1);
    story.check(story.status().checks.is_empty(), "nothing is left of it");
}

/// Measuring costs one write of the status in each interval, and none beyond.
#[test]
fn a_measurement_is_one_write() {
    let mut story = story(good);
    story.act(Act::Template(2)).held_at(1).run(5000);
    let before = story.world().writes.status;
    story.run(60_000);
    let writes = story.world().writes.status - before;
    story.check(writes <= 13, &format!("{writes} writes in a minute"));
}
