//! With the admission policies installed a Deployment rests unpaused.

use grayrollout::api::{Hold, ORIGINAL_ANNOTATION, Phase, ROLLOUT_ANNOTATION};

use super::Story;
use crate::{
    actors::Act,
    fair::Sim,
    world::{Setup, World},
};

/// At rest under the policies, none of the operator's marks on the Deployment.
fn policed(setup: &Setup) -> Story {
    let mut sim = Sim::without_rollout(setup);
    sim.world.policed = true;
    sim.world.create_gray(setup.spec.clone());
    let start = sim.fair(3000);
    sim.tell(start);
    sim.operators[1].observe_all(&sim.world);
    let writes = sim.world.writes;
    let mut story = Story(sim);
    story.check(writes.deployment == 0, "a Deployment that nobody has touched");
    as_its_owner_made_it(&mut story);
    story
}

fn setup() -> Setup {
    Setup::new(&[20, 50, 100]).surge("25%", "25%")
}

fn marks(world: &World) -> usize {
    let annotations = &world.deployment().annotations;
    let marked = |name: &&str| annotations.contains_key(*name);
    [ORIGINAL_ANNOTATION, ROLLOUT_ANNOTATION].iter().filter(|name| marked(name)).count()
}

fn as_its_owner_made_it(story: &mut Story) {
    let world = story.world();
    let (paused, marks) = (world.deployment().paused, marks(world));
    let hold = story.status().hold;
    story.check(!paused && marks == 0, "unpaused, and without a mark");
    story.check(hold == Some(Hold::Admission), &format!("hold Admission, not {hold:?}"));
}

fn rests_paused(story: &mut Story) {
    let paused = story.world().deployment().paused;
    let (hold, message) = (story.status().hold, story.status().message.unwrap_or_default());
    story.check(paused && hold == Some(Hold::Paused), "paused, and says so");
    story.check(message.contains("rests paused, since nothing is installed"), &message);
}

/// A rollout from a Deployment at rest to one at rest, and the next one.
#[test]
fn rollouts_begin_and_end_unpaused() {
    let mut story = policed(&setup());
    for (template, number) in [(2, 1), (3, 2)] {
        story.act(Act::Template(template)).held_at(1).approve().held_at(2).approve();
        story.completed(template);
        as_its_owner_made_it(&mut story);
        let rollout = story.status().rollout;
        story.check(rollout == Some(number), &format!("rollout {number}, not {rollout:?}"));
    }
}

/// While no operator runs, a new template is held whatever anyone does, and taken up later.
#[test]
fn a_template_is_held_while_no_operator_runs() {
    let mut story = policed(&setup());
    story.0.up = false;
    story.act(Act::Template(2)).run(5000);
    for act in [Act::Resume, Act::GitOps, Act::RemoveAnnotations, Act::Template(3)] {
        story.act(act).run(2000).sizes(&[10, 0, 0]);
    }
    story.0.up = true;
    story.held_at(1).sizes(&[8, 0, 2]).act(Act::ApproveAll);
    story.completed(3);
    as_its_owner_made_it(&mut story);
}

/// A template that is taken back before anyone saw it leaves nothing behind.
#[test]
fn a_template_taken_back_unseen_leaves_no_mark() {
    let mut story = policed(&setup());
    story.0.up = false;
    story.act(Act::Template(2)).run(100).act(Act::Template(1)).run(100);
    story.0.up = true;
    story.until_that("no mark", |world| marks(world) == 0).run(3000);
    as_its_owner_made_it(&mut story);
    let events = story.world().log.iter().filter(|line| line.contains("DriftCorrected")).count();
    story.check(events == 0, "nobody is blamed");
}

/// Policies come and go at rest: no rollout, no pod, and the number is kept.
#[test]
fn the_hold_changes_at_rest_without_a_rollout() {
    let mut story = policed(&setup());
    story.act(Act::Template(2)).held_at(1).act(Act::ApproveAll).completed(2);
    for round in 0..2 {
        story.0.world.policed = false;
        story.until_that("paused", |world| world.deployment().paused).run(3000);
        rests_paused(&mut story);
        story.sizes(&[0, 10]).completed(2);
        // A size that only the paused one knows.
        let replicas = 7 + round;
        story.act(Act::Replicas(replicas)).run(3000).sizes(&[0, replicas]);
        story.0.world.policed = true;
        story.until_that("unpaused", |world| !world.deployment().paused).run(3000);
        as_its_owner_made_it(&mut story);
        story.act(Act::Replicas(10)).run(3000).sizes(&[0, 10]).completed(2);
    }
    let rollout = story.status().rollout;
    story.check(rollout == Some(1), "still the one rollout");
    let blamed = story.world().log.iter().any(|line| line.contains("DriftCorrected"));
    story.check(!blamed, "nobody is blamed");
}

/// Policies come and go in the midst of a rollout.
#[test]
fn the_hold_changes_in_the_midst_of_a_rollout() {
    for installed in [false, true] {
        let mut story = if installed { policed(&setup()) } else { Story::new(&setup()) };
        story.act(Act::Template(2)).held_at(1).run(3000);
        story.0.world.policed = !installed;
        story.run(3000).sizes(&[8, 2]).approve().held_at(2).approve().completed(2);
        if installed {
            rests_paused(&mut story);
        } else {
            as_its_owner_made_it(&mut story);
        }
    }
}

/// The policies went unseen: the native controller begins, and is stopped.
#[test]
fn a_rollout_that_begins_unheld_is_stopped() {
    let mut story = policed(&setup().surge("1", "0"));
    story.0.world.policed = false;
    story.act(Act::Template(2)).held_at(1).sizes(&[8, 2]).act(Act::ApproveAll).completed(2);
    rests_paused(&mut story);
}

/// A Deployment that its owner had paused is unpaused by the hold, and given back paused.
#[test]
fn a_paused_one_is_given_back_paused() {
    let setup = setup();
    let mut sim = Sim::without_rollout(&setup);
    sim.act(&Act::PauseDeployment);
    sim.world.policed = true;
    sim.world.create_gray(setup.spec.clone());
    let mut story = Story(sim);
    story.until(Phase::Completed).run(3000);
    let paused = story.world().deployment().paused;
    story.check(!paused && marks(story.world()) == 1, "unpaused, and remembered");
    story.act(Act::Template(2)).held_at(1).act(Act::ApproveAll).completed(2);
    story.act(Act::DeleteGray).run(3000);
    let paused = story.world().deployment().paused;
    story.check(paused && marks(story.world()) == 0, "given back paused");
}

/// Someone pauses the Deployment at rest: the hold decides, and says so.
#[test]
fn a_pause_at_rest_is_undone_and_told() {
    let mut story = policed(&setup());
    story.act(Act::PauseDeployment).run(3000);
    as_its_owner_made_it(&mut story);
    let told = story.world().log.iter().any(|line| line.contains("someone paused the Deployment"));
    story.check(told, "it is told");
    story.quiet();
}

/// A status that is lost between the template and the operator's first look, and at rest.
#[test]
fn a_lost_status_is_no_reason_for_a_mark() {
    let mut story = policed(&setup());
    story.act(Act::LoseStatus).until(Phase::Completed).run(3000);
    as_its_owner_made_it(&mut story);
    story.0.up = false;
    story.act(Act::Template(2)).run(1000);
    story.0.world.change_status(|status| *status = grayrollout::api::GrayRolloutStatus::default());
    story.0.up = true;
    story.held_at(1).sizes(&[8, 2]).act(Act::ApproveAll).completed(2);
    as_its_owner_made_it(&mut story);
    story.act(Act::DeleteGray).run(3000);
    let paused = story.world().deployment().paused;
    story.check(!paused, "the hold's pause is not its owner's");
}

/// No replicas: held all the same, and rolled out once there are some.
#[test]
fn without_replicas_it_is_held_too() {
    let mut story = policed(&setup());
    story.act(Act::Replicas(0)).run(3000);
    as_its_owner_made_it(&mut story);
    story.act(Act::Template(2)).run(3000).act(Act::Replicas(10)).held_at(1).sizes(&[8, 2]);
    story.act(Act::ApproveAll).completed(2);
    as_its_owner_made_it(&mut story);
}

/// Going back by an abort and by the template.
#[test]
fn going_back_ends_paused_or_unpaused() {
    let mut story = policed(&setup());
    story.act(Act::Template(2)).held_at(1).act(Act::Abort).rolled_back(1);
    story.act(Act::Template(1)).completed(1);
    as_its_owner_made_it(&mut story);
    story.act(Act::Template(3)).held_at(1).act(Act::Template(1)).completed(1);
    as_its_owner_made_it(&mut story);
}
