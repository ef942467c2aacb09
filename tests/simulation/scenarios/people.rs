//! What people ran into elsewhere, and what they do at odd moments.

use grayrollout::api::{Approval, ConditionStatus, ConditionType, OnFailure, Phase, Reason};

use super::Story;
use crate::{actors::Act, world::Setup};

fn ten() -> Setup {
    Setup::new(&[20, 50, 100])
}

#[test]
fn approvals_count_once_and_for_their_number_only() {
    let mut story = Story::new(&ten());
    story.act(Act::Template(2)).held_at(1);
    story.act(Act::ApproveStale(1)).act(Act::ApproveTooHigh).run(5000);
    story.check(story.status().approval.is_none(), "both refused");
    story.approve().run(100).act(Act::ApproveStale(0)).run(5000);
    story.held_at(2).run(30_000).sizes(&[5, 5]);
    story.act(Act::Template(3)).held_at(1).run(30_000).sizes(&[8, 0, 2]);
}

#[test]
fn an_approval_given_early_counts_when_the_stage_may_be_left() {
    let mut story = Story::new(&ten().with(|spec| spec.stages[0].soak_seconds = Some(60)));
    story.act(Act::Template(2)).run(500);
    story.act(Act::ApproveNext).run(30_000).sizes(&[8, 2]);
    story.run(60_000).sizes(&[5, 5]);
}

#[test]
fn a_required_first_stage_touches_nothing() {
    let setup = ten().with(|spec| spec.stages[0].approval = Some(Approval::Required));
    let mut story = Story::new(&setup);
    story.act(Act::Template(2)).held_at(0).run(30_000).sizes(&[10, 0]);
    story.approve().held_at(1).sizes(&[8, 2]);
    story.act(Act::ApproveAll).completed(2);
}

#[test]
fn automatic_stages_need_nobody() {
    let setup = ten().with(|spec| {
        for stage in &mut spec.stages {
            stage.approval = Some(Approval::Automatic);
            stage.soak_seconds = Some(20);
        }
    });
    let mut story = Story::new(&setup);
    story.act(Act::Template(2)).completed(2);
}

/// A4265.
#[test]
fn all_approved_while_paused_runs_through_once_unpaused() {
    let mut story = Story::new(&ten());
    story.act(Act::Template(2)).held_at(1);
    story.act(Act::Pause(true)).until(Phase::Paused);
    story.act(Act::ApproveAll).run(30_000).sizes(&[8, 2]);
    story.act(Act::Pause(false)).completed(2);
}

/// A4461.
#[test]
fn an_abort_wins_over_approvals_of_a_broken_template() {
    let mut story = Story::new(&ten());
    story.act(Act::Broken(2, true)).act(Act::Template(2)).run(20_000);
    story.act(Act::ApproveAll).run(20_000);
    story.act(Act::Abort).rolled_back(1);
}

/// A2048, F862.
#[test]
fn after_an_abort_another_template_or_a_retry_starts_at_stage_one() {
    let mut story = Story::new(&ten());
    story.act(Act::Template(2)).held_at(1).approve().held_at(2);
    story.act(Act::Abort).rolled_back(1);
    let number = story.status().rollout.unwrap_or(0);
    story.act(Act::Retry).held_at(1).run(20_000).sizes(&[8, 2]);
    story.check(story.status().rollout == Some(number + 1), "the next number");
    story.act(Act::Abort).rolled_back(1);
    story.act(Act::Template(3)).held_at(1).sizes(&[8, 0, 2]);
    story.act(Act::ApproveAll).completed(3);
}

/// A841.
#[test]
fn a_new_template_starts_though_the_way_back_is_stuck() {
    let mut story = Story::new(&ten());
    story.act(Act::Template(2)).held_at(1).approve().held_at(2);
    story.act(Act::Broken(1, true)).act(Act::Abort).run(20_000);
    story.act(Act::Template(3)).until_that("pods of v3", |world| world.size(3) >= 2);
    story.act(Act::ApproveAll).completed(3);
}

#[test]
fn a_retry_beside_an_abort_is_one_decision() {
    let mut story = Story::new(&Setup::new(&[10, 50, 100]));
    story.act(Act::Quota(true)).act(Act::Template(2)).until(Phase::Stalled);
    story.act(Act::Retry).act(Act::Abort).passes(1);
    let status = story.status();
    story.check(status.rollout == Some(2), "the next rollout has started");
    story.act(Act::Quota(false)).held_at(1).sizes(&[9, 1]);
}

/// At no replicas the native controller gives the youngest ReplicaSet that there is everything.
#[test]
fn an_abandoned_revision_gets_no_pod_when_replicas_come_back() {
    for given_up in [false, true] {
        let mut story = Story::new(&Setup::new(&[10, 50, 100]));
        story.act(Act::Template(2)).held_at(1).run(3000);
        story.act(Act::Template(3)).held_at(1).run(3000).sizes(&[9, 0, 1]);
        if given_up {
            story.act(Act::Abort).rolled_back(1);
        }
        story.act(Act::Replicas(0)).run(5000).sizes(&[0, 0, 0]).act(Act::Replicas(6));
        for _ in 0..200 {
            story.run(20);
            let abandoned = story.world().size(2);
            story.check(abandoned == 0, &format!("{abandoned} pods of what was superseded"));
        }
        story.sizes(if given_up { &[6, 0, 0] } else { &[5, 0, 1] });
    }
}

/// A1292, K339.
#[test]
fn requests_with_nothing_rolling_out_do_nothing() {
    let mut story = Story::new(&ten());
    story.act(Act::Abort).act(Act::ApproveNext).act(Act::Retry).run(5000).completed(1);
    story.act(Act::Template(2)).held_at(1).act(Act::Abort).rolled_back(1);
    story.act(Act::ApproveNext).act(Act::Abort).rolled_back(1);
}

/// A4261.
#[test]
fn both_sides_follow_replicas_while_paused() {
    let mut story = Story::new(&ten().replicas(5));
    story.act(Act::Template(2)).held_at(1).approve().held_at(2).sizes(&[2, 3]);
    story.act(Act::Pause(true)).until(Phase::Paused);
    story.act(Act::Replicas(8)).run(20_000).sizes(&[4, 4]);
    story.act(Act::Replicas(4)).run(20_000).sizes(&[2, 2]);
    story.act(Act::Pause(false)).held_at(2).act(Act::ApproveAll).completed(2);
}

/// A738, N40304.
#[test]
fn replicas_follow_though_the_new_pods_fail() {
    let mut story = Story::new(&Setup::new(&[50, 100]).replicas(4));
    story.act(Act::Template(2)).held_at(1).act(Act::Broken(2, true)).run(5000);
    story.act(Act::Replicas(8)).run(30_000);
    let new = story.world().size(2);
    story.check(new <= 4, "no more than the stage's share");
    story.act(Act::Replicas(4)).run(30_000);
    story.check(story.world().ready(1) >= 2, "the old pods stay");
    story.act(Act::Broken(2, false)).held_at(1).sizes(&[2, 2]);
}

/// A995.
#[test]
fn a_good_template_replaces_a_broken_one() {
    let mut story = Story::new(&ten());
    story.act(Act::Broken(1, true)).run(5000);
    story.act(Act::Template(2)).held_at(1).act(Act::ApproveAll).completed(2);
}

/// A1593.
#[test]
fn a_missed_deadline_rolls_back_on_time() {
    let setup = ten().with(|spec| {
        spec.progress_deadline_seconds = Some(60);
        spec.on_failure = OnFailure::Rollback;
    });
    let mut story = Story::new(&setup);
    story.act(Act::Broken(2, true)).act(Act::Template(2)).run(58_000);
    story.check(story.status().phase == Some(Phase::Progressing), "Progressing at 58 s");
    story.run(5_000);
    let phase = story.status().phase;
    let back = matches!(phase, Some(Phase::RollingBack | Phase::RolledBack));
    story.check(back, &format!("going back at 63 s, not {phase:?}"));
    story.rolled_back(1);
}

/// A1225, N36427.
#[test]
fn waiting_for_an_approval_is_no_missed_deadline() {
    let setup = ten().with(|spec| spec.progress_deadline_seconds = Some(60));
    let mut story = Story::new(&setup);
    story.act(Act::Template(2)).held_at(1).run(590_000).held_at(1);
    story.approve().held_at(2).act(Act::ApproveAll).completed(2);
}

/// A939, K174.
#[test]
fn pods_that_get_ready_late_clear_stalled() {
    let setup = ten().with(|spec| spec.progress_deadline_seconds = Some(60));
    let mut story = Story::new(&setup);
    story.act(Act::Broken(2, true)).act(Act::Template(2)).run(65_000);
    let status = story.status();
    let stalled = status.conditions.iter().find(|c| c.type_ == ConditionType::Stalled);
    let reason = stalled.map(|c| (c.status, c.reason));
    story.check(
        reason == Some((ConditionStatus::True, Reason::ProgressDeadlineExceeded)),
        "Stalled by the deadline",
    );
    story.quiet();
    story.act(Act::Broken(2, false)).held_at(1).act(Act::ApproveAll).completed(2);
}

/// A2239.
#[test]
fn terminating_pods_count_where_asked() {
    let mut setup = ten().surge("0", "1").with(|spec| spec.wait_for_termination = true);
    setup.stop_ms = 20_000;
    let mut story = Story::new(&setup);
    story.act(Act::Template(2));
    for _ in 0..30 {
        story.run(1000);
        let pods = story.world().cluster.pods.len();
        story.check(pods <= 11, &format!("at most 11 pods, terminating ones included, not {pods}"));
    }
    story.held_at(1).act(Act::ApproveAll).completed(2);
}

/// A4288, F1504.
#[test]
fn a_reapplied_manifest_is_held_again() {
    let mut story = Story::new(&ten().surge("25%", "25%"));
    story.act(Act::Template(2)).held_at(1).approve().held_at(2);
    for _ in 0..5 {
        story.act(Act::GitOps).run(10_000).sizes(&[5, 5]);
    }
    story.act(Act::Resume).run(10_000).sizes(&[5, 5]);
    story.act(Act::RemoveAnnotations).run(10_000).sizes(&[5, 5]);
    story.act(Act::ApproveAll).completed(2);
}

/// A2068.
#[test]
fn pods_that_die_after_completion_start_nothing() {
    let mut story = Story::new(&ten());
    story.act(Act::PodFails(0)).act(Act::PodFails(1)).run(1000);
    story.check(story.status().phase == Some(Phase::Completed), "still Completed");
    story.completed(1);
}

/// N28271.
#[test]
fn sizes_set_by_hand_are_put_back() {
    let mut story = Story::new(&ten());
    story.act(Act::Template(2)).held_at(1).run(5000);
    for (index, size) in [(0, 3), (1, 9), (0, 20), (1, 0)] {
        story.act(Act::ScaleSet(index, size)).run(20_000).sizes(&[8, 2]);
    }
    story.act(Act::ApproveAll).completed(2);
}

/// Where terminating pods count, no pod is added before those that the hand took away are going.
#[test]
fn a_size_set_by_hand_is_put_back_though_terminating_pods_count() {
    let setup =
        Setup::new(&[10, 100]).surge("1", "0").with(|spec| spec.wait_for_termination = true);
    let mut story = Story::new(&setup);
    story.act(Act::Template(2)).held_at(1).act(Act::ScaleSet(0, 1));
    story.until_that("it is put back", |world| world.size(1) == 9 && world.size(2) == 1);
    story.held_at(1).approve().completed(2);
}

/// N105395.
#[test]
fn replicas_and_template_in_one_write() {
    for replicas in [4, 20] {
        let mut story = Story::new(&ten());
        story.act(Act::TemplateAndReplicas(2, replicas)).held_at(1).run(5000);
        let new = replicas / 5 + i32::from(replicas % 5 > 0);
        story.sizes(&[replicas - new, new]);
        story.act(Act::ApproveAll).completed(2);
    }
}

/// A1860.
#[test]
fn a_quota_shows_and_its_end_is_noticed() {
    let mut story = Story::new(&ten());
    story.act(Act::Quota(true)).act(Act::Template(2)).run(10_000);
    story.act(Act::Template(3)).run(10_000);
    let stalled = story
        .status()
        .conditions
        .iter()
        .any(|condition| condition.reason == Reason::ReplicaFailure);
    story.check(stalled, "ReplicaFailure");
    story.act(Act::Quota(false)).held_at(1).sizes(&[8, 0, 2]);
    story.act(Act::ApproveAll).completed(3);
}
