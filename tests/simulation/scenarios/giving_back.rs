//! Deleting the GrayRollout, its Deployment or the stable ReplicaSet, and first sight.

use grayrollout::api::{ORIGINAL_ANNOTATION, OnDelete, Phase, ROLLOUT_ANNOTATION, Reason};

use super::{LONG, Story};
use crate::{
    actors::Act,
    fair::Sim,
    world::{Setup, World, spec},
};

fn ten(on_delete: OnDelete) -> Setup {
    let surge = Setup::new(&[20, 50, 100]).surge("25%", "25%");
    surge.with(|spec| spec.on_delete = on_delete)
}

fn released(world: &World) -> bool {
    let annotations = &world.deployment().annotations;
    !annotations.contains_key(ORIGINAL_ANNOTATION) && !annotations.contains_key(ROLLOUT_ANNOTATION)
}

fn own_strategy(story: &mut Story) {
    let same = story.world().deployment().strategy == story.world().user_strategy;
    story.check(same, "the user's own strategy");
}

/// A3855, K272, K305: at each stage, for each onDelete, the operator up or down at the moment.
#[test]
fn a_deleted_grayrollout_leaves_what_it_promised() {
    for on_delete in [OnDelete::Hold, OnDelete::Rollback, OnDelete::Promote] {
        for stage in 1..=2 {
            for up in [true, false] {
                let mut story = Story::new(&ten(on_delete));
                story.act(Act::Template(2)).held_at(1);
                if stage == 2 {
                    story.approve().held_at(2);
                }
                story.run(5000);
                story.0.up = up;
                story.act(Act::DeleteGray).run(3000);
                story.0.up = true;
                story.until_that("the Deployment to be released", released).run(60_000);
                own_strategy(&mut story);
                let new = story.world().size(2);
                let deployment = story.world().deployment().clone();
                match on_delete {
                    OnDelete::Hold => {
                        let kept = [2, 5][stage - 1];
                        story.check(deployment.paused, "still paused");
                        story.check((kept..=kept + 3).contains(&new), "about the same share");
                    }
                    OnDelete::Rollback => {
                        story.check(deployment.template == 1, "the stable template");
                        story.check(new == 0 && story.world().size(1) == 10, "v1 alone");
                        story.check(!deployment.paused, "unpaused");
                    }
                    OnDelete::Promote => {
                        story.check(deployment.template == 2, "the new template");
                        story.check(new == 10 && story.world().size(1) == 0, "v2 alone");
                    }
                }
                // K305: native goes on alone from here.
                story.act(Act::Resume).act(Act::Template(3)).run(60_000);
                story.check(story.world().size(3) == 10, "the next template rolls out natively");
            }
        }
    }
}

#[test]
fn a_deleted_grayrollout_leaves_at_once_where_nothing_rolls_out() {
    for template in [1, 2] {
        let mut story = Story::new(&ten(OnDelete::Hold));
        if template == 2 {
            story.act(Act::Template(2)).held_at(1).act(Act::ApproveAll).completed(2);
        }
        story.act(Act::DeleteGray).until_that("the Deployment to be released", released);
        let deployment = story.world().deployment().clone();
        story.check(!deployment.paused, "unpaused, as the user had it");
        own_strategy(&mut story);
        story.run(20_000);
        story.check(story.world().size(template) == 10, "the same pods");
    }
}

#[test]
fn a_deleted_grayrollout_after_a_rollback_keeps_its_promise() {
    for (on_delete, new) in [(OnDelete::Hold, 0), (OnDelete::Rollback, 0), (OnDelete::Promote, 10)]
    {
        let mut story = Story::new(&ten(on_delete));
        story.act(Act::Template(2)).held_at(1).act(Act::Abort).rolled_back(1);
        story.act(Act::DeleteGray).until_that("the Deployment to be released", released);
        story.run(60_000);
        own_strategy(&mut story);
        let is = story.world().size(2);
        story.check(is == new, &format!("{new} pods of v2, not {is}"));
    }
}

/// An originally paused Deployment is given back paused.
#[test]
fn a_paused_deployment_is_given_back_paused() {
    let setup = ten(OnDelete::Hold);
    let mut sim = Sim::without_rollout(&setup);
    sim.act(&Act::PauseDeployment);
    sim.world.create_gray(setup.spec);
    let mut story = Story(sim);
    story.until(Phase::Completed).act(Act::Template(2)).held_at(1);
    story.act(Act::ApproveAll).completed(2);
    story.act(Act::DeleteGray).until_that("the Deployment to be released", released);
    let paused = story.world().deployment().paused;
    story.check(paused, "paused, as the user had it");
}

/// K186, S19: whatever goes first, nothing is left to do.
#[test]
fn a_deleted_deployment_ends_the_rollout_and_another_starts_afresh() {
    let mut story = Story::new(&ten(OnDelete::Hold));
    story.act(Act::Template(2)).held_at(1).act(Act::DeleteDeployment).until(Phase::Pending).quiet();
    story.act(Act::CreateDeployment).completed(1);
    story.act(Act::Template(2)).held_at(1).act(Act::ApproveAll).completed(2);
    story.act(Act::DeleteDeployment).act(Act::DeleteGray).run(5000).quiet();
}

#[test]
fn a_native_rollout_in_flight_is_held_at_its_split() {
    let setup = Setup::new(&[20, 50, 100]).surge("25%", "25%");
    let mut sim = Sim::without_rollout(&setup);
    sim.act(&Act::Template(2));
    let native = sim.until(LONG, "some new pods", |world| world.size(2) >= 3 && world.size(1) > 3);
    sim.tell(native);
    let least = sim.world.size(2);
    sim.world.create_gray(setup.spec);
    let mut story = Story(sim);
    story.until(Phase::AwaitingApproval).run(30_000);
    let new = story.world().size(2);
    story.check(new >= least, "never fewer new pods");
    story.check(story.world().total() == 10, "ten pods");
    story.act(Act::ApproveAll).completed(2);
}

#[test]
fn a_deployment_made_together_with_its_grayrollout_completes_once_available() {
    let setup = Setup::new(&[20, 50, 100]);
    let mut sim = Sim::without_rollout(&setup);
    sim.act(&Act::DeleteDeployment);
    sim.world.create_gray(spec(&[20, 50, 100]));
    sim.act(&Act::CreateDeployment);
    let mut story = Story(sim);
    let phase = |world: &World| world.status().phase == Some(Phase::Progressing);
    story.until_that("Progressing", phase).completed(1);
    story.check(story.status().history.is_empty(), "no rollout");
}

#[test]
fn a_lost_stable_revision_is_told_and_can_be_finished() {
    let mut story = Story::new(&ten(OnDelete::Hold));
    story.act(Act::Template(2)).held_at(1).run(3000).act(Act::DeleteSet(0));
    story.until(Phase::Stalled).run(5000);
    let lost = story.status().conditions.iter().any(|c| c.reason == Reason::StableLost);
    story.check(lost, "StableLost");
    let told = story.world().log.iter().filter(|line| line.contains("StableLost")).count();
    story.check(told == 1, "told once");
    let ready = story.world().ready(2);
    story.check(ready >= 2, "capacity is left alone");
    story.act(Act::Abort).run(5000);
    story.check(story.status().phase == Some(Phase::Stalled), "the abort is refused");
    story.act(Act::ApproveAll).completed(2);
}

/// The version with the pods is the one to go back to then; as its sizes are no stage's, it is said
/// why the next template waits.
#[test]
fn another_template_after_a_lost_stable_revision_says_what_it_waits_for() {
    let mut story = Story::new(&ten(OnDelete::Hold));
    story.act(Act::Template(2)).held_at(1).run(3000).act(Act::DeleteSet(0));
    story.until(Phase::Stalled).act(Act::Template(3)).until(Phase::AwaitingApproval).run(3000);
    let message = story.status().message.clone().unwrap_or_default();
    story.check(message.contains("they stay as they are"), &message);
    story.act(Act::ApproveAll).completed(3);
}

/// What follows is a first deployment, and not the rollback any more.
#[test]
fn a_stable_template_that_is_set_again_after_its_revision_was_lost_comes_up() {
    let mut story = Story::new(&ten(OnDelete::Hold));
    story.act(Act::Template(2)).held_at(1).act(Act::Abort).rolled_back(1);
    story.act(Act::DeleteSet(0)).act(Act::Template(1));
    story.completed(1);
}

#[test]
fn at_no_replicas_a_first_deployment_is_completed_once_its_replica_set_is_there() {
    let mut story = Story::new(&ten(OnDelete::Hold).replicas(0));
    story.act(Act::Template(2)).run(3000).act(Act::Template(1)).passes(1);
    // It has just been given back, and is not complete yet.
    story.act(Act::DeleteSet(0)).act(Act::Template(3)).completed(3);
    let made = story.world().cluster.replica_sets.iter().any(|set| set.template == 3);
    story.check(made, "a ReplicaSet");
}

/// revisionHistoryLimit 0: an abort during the last soak still finds its way back.
#[test]
fn without_history_the_last_soak_keeps_a_way_back() {
    let mut setup = ten(OnDelete::Hold).with(|spec| spec.stages[2].soak_seconds = Some(600));
    setup.history_limit = 0;
    let mut story = Story::new(&setup);
    story.act(Act::Template(2)).held_at(1).act(Act::ApproveAll).run(60_000);
    story.check(story.world().size(2) == 10, "everything new");
    story.check(story.world().size(1) == 1, "one stable pod kept");
    story.act(Act::Abort).rolled_back(1);
}
