//! A least time between one batch of pods and the next.

use grayrollout::api::{OnFailure, Phase};

use super::Story;
use crate::{actors::Act, world::Setup};

const INTERVAL_MS: i64 = 60_000;

/// Two pods at a time, a minute apart.
fn slow() -> Setup {
    Setup::new(&[50, 100]).surge("2", "0").with(|spec| spec.step_interval_seconds = Some(60))
}

/// When the new revision grew and to which size, seen every 100 ms until `done`.
fn batches(story: &mut Story, done: impl Fn(&Story) -> bool) -> Vec<(i64, i32)> {
    let mut seen = vec![(story.world().cluster.now, story.world().size(2))];
    for _ in 0..20_000 {
        if done(story) {
            return seen.split_off(1);
        }
        story.run(100);
        let size = story.world().size(2);
        if seen.last().is_some_and(|(_, before)| size > *before) {
            seen.push((story.world().cluster.now, size));
        }
    }
    panic!("it never ends: {seen:?}");
}

fn apart(story: &mut Story, batches: &[(i64, i32)]) {
    for pair in batches.windows(2) {
        let gap = pair[1].0 - pair[0].0;
        story.check(
            (INTERVAL_MS - 100..INTERVAL_MS + 1500).contains(&gap),
            &format!("a batch a minute after the last, not after {gap} ms: {batches:?}"),
        );
    }
}

fn sizes(batches: &[(i64, i32)]) -> Vec<i32> {
    batches.iter().map(|(_, size)| *size).collect()
}

fn held(stage: i32) -> impl Fn(&Story) -> bool {
    move |story| {
        let status = story.status();
        status.phase == Some(Phase::AwaitingApproval) && status.stage == Some(stage)
    }
}

#[test]
fn batches_come_the_interval_apart_and_the_first_at_once() {
    let mut story = Story::new(&slow());
    let start = story.world().cluster.now;
    story.act(Act::Template(2));
    let seen = batches(&mut story, held(1));
    assert_eq!(sizes(&seen), [2, 4, 5]);
    assert!(seen[0].0 - start < 2000, "{seen:?}");
    apart(&mut story, &seen);
    // What waited for an approval for longer than that waits no more.
    story.run(INTERVAL_MS).approve();
    let asked = story.world().cluster.now;
    let seen = batches(&mut story, |story| story.status().phase == Some(Phase::Completed));
    assert_eq!(sizes(&seen), [7, 9, 10]);
    assert!(seen[0].0 - asked < 2000, "{seen:?}");
    apart(&mut story, &seen);
    story.completed(2);
}

#[test]
fn the_last_batch_of_a_stage_counts_for_the_first_of_the_next() {
    let mut story = Story::new(&slow());
    story.act(Act::Template(2)).act(Act::ApproveAll).run(500).act(Act::ApproveAll);
    let seen = batches(&mut story, |story| story.status().phase == Some(Phase::Completed));
    assert_eq!(sizes(&seen).last(), Some(&10));
    apart(&mut story, &seen);
}

#[test]
fn the_message_says_when_and_nothing_is_written_meanwhile() {
    let mut story = Story::new(&slow());
    story.act(Act::Template(2)).run(20_000);
    let status = story.status();
    let message = status.message.unwrap_or_default();
    let due = status.last_step.map(|step| step.time + jiff::SignedDuration::from_secs(60));
    let due = due.and_then(|due| due.round(jiff::Unit::Second).ok());
    let told = due.is_some_and(|due| message.contains(&format!("the next pods move at {due}")));
    story.check(told, &format!("the message tells of {due:?}: {message}"));
    let before = story.world().writes;
    story.run(30_000);
    let after = story.world().writes;
    story.check(before == after, &format!("no writes while waiting: {before:?}, then {after:?}"));
}

#[test]
fn the_deadline_does_not_run_while_it_waits() {
    let setup = slow().with(|spec| {
        spec.progress_deadline_seconds = Some(20);
        spec.on_failure = OnFailure::Rollback;
    });
    let mut story = Story::new(&setup);
    story.act(Act::Template(2));
    let seen = batches(&mut story, held(1));
    apart(&mut story, &seen);
    // A pod that is lost while it waits has the whole deadline to come back.
    let mut story = Story::new(&setup);
    story.act(Act::Template(2)).run(40_000).act(Act::Broken(2, true)).run(15_000);
    story.check(story.status().phase == Some(Phase::Progressing), "not failed yet");
    story.act(Act::Broken(2, false)).held_at(1);
}

#[test]
fn going_back_never_waits() {
    let mut story = Story::new(&slow());
    story.act(Act::Template(2)).run(70_000).sizes(&[6, 4]).act(Act::Abort).run(20_000);
    story.sizes(&[10, 0]).rolled_back(1);
    let mut story = Story::new(&slow());
    story.act(Act::Template(2)).run(70_000).act(Act::Template(1)).run(20_000);
    story.sizes(&[10, 0]);
}

#[test]
fn the_next_rollout_starts_at_once() {
    let mut story = Story::new(&slow());
    story.act(Act::Template(2)).run(70_000).sizes(&[6, 4]).act(Act::Template(3)).run(5000);
    let new = story.world().size(3);
    story.check(new > 0, "the first batch of the next rollout");
    story.held_at(1).sizes(&[5, 0, 5]);
}

#[test]
fn replicas_are_followed_at_once_in_proportion() {
    let mut story = Story::new(&slow());
    story.act(Act::Template(2)).run(10_000).sizes(&[8, 2]);
    story.act(Act::Replicas(20)).run(15_000).sizes(&[16, 4]);
    story.act(Act::Replicas(5)).run(15_000).sizes(&[4, 1]);
    story.act(Act::Replicas(10)).run(10_000).sizes(&[8, 2]);
    story.held_at(1).sizes(&[5, 5]);
}

#[test]
fn pods_that_are_lost_come_back_at_once() {
    let mut story = Story::new(&slow());
    story.act(Act::Template(2)).run(10_000).sizes(&[8, 2]);
    story.act(Act::ScaleSet(0, 4)).run(10_000).sizes(&[8, 2]);
    story.act(Act::ScaleSet(1, 0)).run(10_000).sizes(&[8, 2]);
    story.held_at(1);
}

#[test]
fn it_can_be_set_and_taken_away_on_the_way() {
    let mut story = Story::new(&Setup::new(&[50, 100]).surge("2", "0"));
    story.act(Act::Template(2)).held_at(1);
    story.check(story.status().last_step.is_none(), "nothing is recorded without it");
    story.act(Act::StepInterval(Some(60))).approve().run(30_000).sizes(&[5, 5]);
    story.act(Act::StepInterval(None)).run(20_000).completed(2);
    story.check(story.status().last_step.is_none(), "what was recorded is gone");
}

/// Up and down again before anything has settled: what was sized for more is no batch.
#[test]
fn replicas_that_flap_are_no_batch() {
    let mut story = Story::new(&slow());
    story.act(Act::Template(2)).run(10_000).sizes(&[8, 2]);
    for ms in [20, 40, 100, 500, 1100, 2100] {
        story.act(Act::Replicas(20)).run(ms).act(Act::Replicas(10)).run(3000).sizes(&[8, 2]);
    }
}
