//! Clean rollouts at every size and surge, changes of replicas, aborts and reverts.

use grayrollout::api::{HistoryResult, Phase};

use super::Story;
use crate::{
    actors::Act,
    checks::{budget, count},
    world::Setup,
};

/// A whole rollout of v2, strict at every moment, with the sizes at each stage.
fn clean(setup: &Setup) {
    let mut story = Story::new(setup);
    story.0.strict = true;
    story.act(Act::Template(2));
    let percents: Vec<i32> = setup.spec.stages.iter().map(|stage| stage.percent).collect();
    let replicas = setup.replicas;
    let surge = budget(&setup.spec, &setup.strategy(), replicas).map_or(0, |b| b.surge);
    for (stage, percent) in (1..).zip(percents.iter().take(percents.len() - 1)) {
        story.held_at(stage).run(60_000);
        let new = count(replicas, *percent, surge);
        let old = if replicas == 1 { 1 } else { replicas - new };
        story.sizes(&[old, new]);
        story.approve();
    }
    story.completed(2);
    let status = story.status();
    let first = status.history.first();
    story.check(
        first.is_some_and(|entry| entry.result == HistoryResult::Completed),
        "a history that says Completed",
    );
}

#[test]
fn ten_pods_roll_out_with_each_surge() {
    for (surge, unavailable) in [("1", "0"), ("25%", "25%"), ("0", "1"), ("0", "3"), ("100%", "0")]
    {
        clean(&Setup::new(&[10, 50, 100]).surge(surge, unavailable));
    }
}

#[test]
fn small_deployments_roll_out_with_each_surge() {
    for replicas in 1..=5 {
        for (surge, unavailable) in [("1", "0"), ("25%", "25%"), ("0", "1"), ("2", "1")] {
            clean(&Setup::new(&[10, 50, 100]).replicas(replicas).surge(surge, unavailable));
        }
    }
}

#[test]
fn stages_of_the_same_count_each_ask() {
    clean(&Setup::new(&[70, 95, 100]).replicas(2));
    clean(&Setup::new(&[10, 100]).replicas(3));
}

#[test]
fn a_hundred_pods_stay_within_ten_percent() {
    clean(&Setup::new(&[50, 100]).replicas(100).surge("10%", "0"));
}

#[test]
fn at_no_replicas_no_stage_is_entered_until_there_are_some() {
    let mut story = Story::new(&Setup::new(&[50, 100]).replicas(0));
    story.act(Act::Template(2)).run(30_000).sizes(&[0, 0]);
    let stage = story.status().stage;
    story.check(stage == Some(0), "stage 0");
    story.act(Act::Replicas(4)).held_at(1).sizes(&[2, 2]);
    story.approve().completed(2);
}

#[test]
fn replicas_follow_at_each_stage() {
    for stage in 1..=2 {
        for replicas in [1, 3, 6, 20, 0] {
            let mut story = Story::new(&Setup::new(&[20, 50, 100]));
            story.act(Act::Template(2));
            story.held_at(1);
            if stage == 2 {
                story.approve().held_at(2);
            }
            story.act(Act::Replicas(replicas)).run(30_000);
            let percent = [20, 50][stage - 1];
            let new = count(replicas, percent, 1);
            let old = if replicas == 1 { 1 } else { replicas - new };
            story.sizes(&[old, new]);
            let now = story.status().stage;
            story.check(now == i32::try_from(stage).ok(), "the same stage");
            story.act(Act::Replicas(10)).run(30_000);
            let new = count(10, percent, 1);
            story.sizes(&[10 - new, new]);
            story.act(Act::ApproveAll).completed(2);
        }
    }
}

#[test]
fn replicas_may_change_while_pods_move() {
    for replicas in [0, 1, 5, 20] {
        for after in [50, 500, 1500, 2500] {
            let mut story = Story::new(&Setup::new(&[50, 100]).surge("2", "0"));
            story.act(Act::Template(2)).run(after);
            story.act(Act::Replicas(replicas)).run(40_000);
            let new = count(replicas, 50, 2);
            story.sizes(&[if replicas == 1 { 1 } else { replicas - new }, new]);
            story.act(Act::Replicas(6)).run(40_000).sizes(&[3, 3]);
            story.act(Act::ApproveAll).completed(2);
        }
    }
}

#[test]
fn replicas_follow_once_rolled_back() {
    let mut story = Story::new(&Setup::new(&[20, 100]));
    story.act(Act::Template(2)).held_at(1).act(Act::Abort).rolled_back(1);
    for replicas in [4, 0, 7] {
        story.act(Act::Replicas(replicas)).run(10_000).sizes(&[replicas, 0]);
    }
    story.quiet();
}

#[test]
fn an_abort_goes_back_from_each_stage() {
    for stage in 1..=3 {
        let soak = Setup::new(&[10, 50, 100]).with(|spec| spec.stages[2].soak_seconds = Some(600));
        let mut story = Story::new(&soak);
        story.0.strict = true;
        story.act(Act::Template(2)).held_at(1);
        for _ in 1..stage {
            story.approve().run(60_000);
        }
        story.act(Act::Abort).rolled_back(1);
        let result = story.status().history.first().map(|entry| entry.result);
        story.check(result == Some(HistoryResult::Aborted), "a history that says Aborted");
    }
}

#[test]
fn an_abort_while_pods_move_goes_back() {
    for after in [10, 30, 60, 500, 1500, 3000] {
        for surge in ["1", "0", "50%"] {
            let mut story = Story::new(&Setup::new(&[50, 100]).surge(surge, "1"));
            story.act(Act::Template(2)).run(after);
            story.act(Act::Abort).rolled_back(1);
        }
    }
}

#[test]
fn a_reverted_template_goes_back_from_each_stage() {
    for stage in 1..=2 {
        let mut story = Story::new(&Setup::new(&[10, 50, 100]));
        story.act(Act::Template(2)).held_at(1);
        if stage == 2 {
            story.approve().held_at(2);
        }
        story.act(Act::Template(1)).run(100).completed(1);
        let result = story.status().history.first().map(|entry| entry.result);
        story.check(
            result == Some(HistoryResult::RevertedByTemplate),
            "a history that says RevertedByTemplate",
        );
    }
}

#[test]
fn a_third_template_supersedes_and_the_second_goes_first() {
    for stage in 1..=2 {
        let mut story = Story::new(&Setup::new(&[20, 50, 100]));
        story.0.strict = true;
        story.act(Act::Template(2)).held_at(1);
        if stage == 2 {
            story.approve().held_at(2);
        }
        let number = story.status().rollout.unwrap_or(0);
        story
            .act(Act::Template(3))
            .until_that("the next rollout", |world| world.status().rollout == Some(number + 1));
        story.held_at(1).run(20_000).sizes(&[8, 0, 2]);
        let blamed = story.world().log.iter().any(|line| line.contains("DriftCorrected"));
        story.check(!blamed, "nobody is blamed for what the rollout itself takes away");
        let status = story.status();
        story.check(
            status.history.first().map(|entry| entry.result) == Some(HistoryResult::Superseded),
            "a history that says Superseded",
        );
        story.act(Act::ApproveAll).completed(3);
    }
}

#[test]
fn a_rollout_of_four_stages_stays_within_fifty_writes() {
    let mut story = Story::new(&Setup::new(&[10, 30, 60, 100]).surge("25%", "25%"));
    story.act(Act::Template(2));
    for stage in 1..=3 {
        story.held_at(stage).approve();
    }
    story.until(Phase::Completed).run(3000);
    let writes = story.world().writes;
    story.check(
        writes.total() <= 50,
        &format!("at most 50 writes, not {} of {writes:?}", writes.total()),
    );
}
