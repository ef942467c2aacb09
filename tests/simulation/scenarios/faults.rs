//! Crashes, conflicts, two operators, and objects that make no sense.

use grayrollout::{
    api::{GrayRolloutStatus, ORIGINAL_ANNOTATION, Phase, Split},
    plan::{Orphan, Snapshot, StatusWrite, plan, release},
};

use super::{LONG, Story};
use crate::{
    actors::Act,
    fair::Sim,
    operator::{Kind, Mishap},
    world::{Setup, World, replica_set, rollout, spec, stages, target, time},
};

/// Runs until the phase, approving as soon as asked, the operator crashing after every `nth` of its
/// writes.
fn crashing(sim: &mut Sim, nth: u32, once: bool, wanted: Phase) {
    let end = sim.world.cluster.now + LONG;
    let mut left = nth;
    let mut armed = true;
    while sim.world.status().phase != Some(wanted) {
        let now = sim.world.cluster.now;
        let story = sim.world.summary();
        let late = if now < end { Ok(()) } else { Err(format!("L7: not within time: {story}")) };
        sim.tell(late);
        if sim.world.status().phase == Some(Phase::AwaitingApproval) {
            sim.act(&Act::ApproveNext);
        }
        sim.up = false;
        let others = sim.fair(50);
        sim.tell(others);
        sim.operators[0].observe_all(&sim.world);
        let before = sim.world.writes;
        let mishap = Mishap { crash_after: armed.then_some(left), ..Mishap::default() };
        let pass = sim.pass(0, mishap);
        sim.tell(pass);
        let after = sim.world.writes;
        let objects = |w: crate::world::Writes| w.status + w.deployment + w.sets;
        let written = objects(after) - objects(before);
        if written >= left {
            left = nth;
            armed = !once;
        } else {
            left -= written;
        }
    }
    sim.up = true;
}

/// L7: whichever write is the last before a crash, the rollout goes on without anyone's help.
#[test]
fn a_crash_after_any_write_loses_nothing() {
    for (surge, unavailable) in [("1", "0"), ("25%", "25%"), ("0", "1")] {
        for nth in 1..=30 {
            let setup = Setup::new(&[20, 50, 100]).replicas(5).surge(surge, unavailable);
            let mut sim = Sim::new(&setup);
            sim.act(&Act::Template(2));
            crashing(&mut sim, nth, true, Phase::AwaitingApproval);
            crashing(&mut sim, nth, true, Phase::Completed);
            Story(sim).completed(2);
        }
    }
}

/// L7 for the way back.
#[test]
fn a_crash_on_the_way_back_loses_nothing() {
    for nth in 1..=12 {
        let mut story = Story::new(&Setup::new(&[20, 50, 100]));
        story.act(Act::Template(2)).held_at(1).approve().held_at(2).act(Act::Abort);
        crashing(&mut story.0, nth, true, Phase::RolledBack);
        story.rolled_back(1);
    }
}

/// L7 where every single write is the last.
#[test]
fn a_crash_after_every_write_still_ends() {
    let mut sim = Sim::new(&Setup::new(&[20, 50, 100]));
    sim.act(&Act::Template(2));
    crashing(&mut sim, 1, false, Phase::AwaitingApproval);
    crashing(&mut sim, 1, false, Phase::Completed);
    Story(sim).completed(2);
}

/// L6, A4073.
#[test]
fn a_busy_writer_stops_nothing() {
    for every in [2, 3, 7] {
        let mut story = Story::new(&Setup::new(&[20, 50, 100]));
        story.0.busy_every = Some(every);
        story.act(Act::Template(2)).held_at(1).approve().held_at(2).approve();
        story.until(Phase::Completed);
        story.0.busy_every = None;
        story.completed(2);
    }
}

/// S15: each sees the other's writes late, and both plan.
#[test]
fn two_operators_do_no_harm() {
    let mut story = Story::new(&Setup::new(&[20, 50, 100]).surge("25%", "25%"));
    story.0.strict = true;
    story.act(Act::Template(2));
    for round in 0..600 {
        if story.status().phase == Some(Phase::AwaitingApproval) {
            story.approve();
        }
        story.run(40);
        if round % 3 == 0 {
            let sim = &mut story.0;
            let pass = sim.pass(1, Mishap::default());
            sim.tell(pass);
            sim.operators[1].observe_all(&sim.world);
        }
    }
    story.completed(2);
}

/// A4694: an approval given at the very moment counts within two seconds.
#[test]
fn an_approval_at_any_moment_counts() {
    for after in 0..60 {
        let mut story = Story::new(&Setup::new(&[20, 100]).replicas(5));
        story.act(Act::Template(2)).run(after * 40).approve();
        let result = story.0.until(LONG, "the second stage", |world: &World| {
            world.status().stage == Some(2) || world.status().approval.is_none()
        });
        story.0.tell(result);
        if story.status().approval.is_none() {
            story.held_at(1).approve();
            let result = story
                .0
                .until(2000, "the approval to count", |world| world.status().stage == Some(2));
            story.0.tell(result);
        }
        story.completed(2);
    }
}

/// The user's strategy is in the status before another takes its place, so that it is not lost with
/// the annotation.
#[test]
fn a_start_is_recorded_before_the_strategy_is_replaced() {
    let mut story = Story::new(&Setup::new(&[10, 50, 100]).replicas(1));
    let sim = &mut story.0;
    sim.act(&Act::Template(2));
    sim.observe(0, Kind::Deployment);
    // The record conflicts with this.
    sim.act(&Act::Automatic(true));
    let passed = sim.pass(0, Mishap::default());
    sim.tell(passed);
    sim.act(&Act::RemoveAnnotations);
    story.completed(2);
}

/// N59848, F989, F1673: the template is known only from the Deployment; a status older than the
/// last write starts nothing.
#[test]
fn a_lost_status_starts_no_rollout_and_reuses_no_number() {
    let mut story = Story::new(&Setup::new(&[20, 50, 100]));
    story.act(Act::LoseStatus).completed(1);
    story.act(Act::Template(2)).held_at(1).approve().held_at(2).run(5000);
    let number = story.status().rollout.unwrap_or(0);
    story.act(Act::LoseStatus).run(20_000);
    story.check(story.world().size(2) == 5, "the split stays");
    let again = story.status();
    story.check(again.rollout == Some(number + 1), "the next number");
    story.act(Act::Abort).rolled_back(1);
}

fn snapshots() -> Vec<Snapshot> {
    let mut found = Vec::new();
    let mut story = Story::new(&Setup::new(&[20, 50, 100]));
    let mut keep = |story: &Story| {
        let sim = &story.0;
        let mut operator = sim.operators[0].clone();
        operator.observe_all(&sim.world);
        found.extend(operator.snapshot(sim.world.cluster.now));
    };
    keep(&story);
    story.act(Act::Template(2)).run(500);
    keep(&story);
    story.held_at(1);
    keep(&story);
    story.approve().run(1500);
    keep(&story);
    story.act(Act::Abort).run(500);
    keep(&story);
    story.rolled_back(1);
    keep(&story);
    found
}

/// S18: any object of ours, and any number in the others, is planned for without a panic.
#[test]
fn odd_objects_are_survived() {
    let far = [i32::MIN, -1, 0, 1, i32::MAX];
    for seen in snapshots() {
        let mut odd = vec![seen.clone(); 4];
        odd[0].rollout.spec = Err("spec.stages: missing".into());
        odd[1].rollout.status = GrayRolloutStatus::default();
        odd[2].target = None;
        odd[3].older_twin = Some("older".into());
        for number in far {
            let mut with = |change: &dyn Fn(&mut Snapshot)| {
                let mut one = seen.clone();
                change(&mut one);
                odd.push(one);
            };
            with(&|one| one.rollout.status.stage = Some(number));
            with(&|one| one.rollout.status.rollout = Some(i64::from(number)));
            with(&|one| one.rollout.status.stage_percents = vec![number, number]);
            with(&|one| {
                one.rollout.status.split = Some(Split { replicas: number, update: i32::MAX });
            });
            with(&|one| {
                if let Some(target) = &mut one.target {
                    target.replicas = number;
                    target.revision_history_limit = Some(number);
                    target.progress_deadline_seconds = Some(number);
                    target.original = Some(Err("no JSON".into()));
                }
            });
            with(&|one| {
                for set in &mut one.replica_sets {
                    set.replicas = number;
                    set.available = number;
                    set.current = number;
                    set.terminating = number;
                    set.max_annotation = Some(number);
                }
            });
            with(&|one| {
                one.rollout.spec = Ok(spec(&[number]));
            });
            with(&|one| {
                if let Ok(spec) = &mut one.rollout.spec {
                    spec.stages = stages(&[]);
                    spec.progress_deadline_seconds = Some(number);
                    spec.max_surge = Some(number.into());
                    spec.max_unavailable = Some(number.into());
                }
            });
        }
        for one in odd {
            let answer = plan(&one);
            let rests = one.target.is_none() || one.rollout.spec.is_err();
            assert!(
                !rests || answer.actions.is_empty(),
                "acts on what it cannot read: {answer:#?}"
            );
            if let Some(target) = one.target {
                let replica_sets = one.replica_sets;
                let _ = release(&Orphan { now: one.now, target, replica_sets });
            }
        }
    }
}

/// Labels are anyone's to change: with one pod-template-hash on both ReplicaSets the decision once
/// ran around in circles.
#[test]
fn one_label_on_two_replica_sets_is_survived() {
    for mut seen in snapshots() {
        let Some(label) = seen.replica_sets.first().map(|set| set.revision.clone()) else {
            continue;
        };
        for set in &mut seen.replica_sets {
            set.revision.clone_from(&label);
        }
        seen.rollout.status.update_revision = Some(label.clone());
        let first = plan(&seen);
        let after = crate::effect::apply(&seen, &first);
        assert_eq!(plan(&after).status.rollout, first.status.rollout, "it starts once");
    }
}

/// A4971, S12: an object that cannot be followed is reported once.
#[test]
fn an_invalid_spec_is_reported_and_left_alone() {
    let mut story = Story::new(&Setup::new(&[20, 50, 100]));
    story.act(Act::Template(2)).held_at(1);
    if let Some(gray) = &mut story.0.world.gray {
        gray.spec = Err("spec.stages: the last must be 100".into());
        gray.generation += 1;
    }
    story.until(Phase::Stalled).run(10_000).sizes(&[8, 2]).quiet();
}

/// An older GrayRollout for the same Deployment works, this one is told so.
#[test]
fn the_younger_of_two_stands_back() {
    let story = Story::new(&Setup::new(&[20, 50, 100]));
    let world = story.world();
    let gray = world.gray.as_ref().unwrap();
    let deployment = world.deployment();
    let seen = Snapshot {
        answers: Vec::new(),
        begun: Vec::new(),
        admission: grayrollout::plan::Admission::Unknown,
        now: time(world.cluster.now),
        rollout: rollout(gray),
        target: Some(target(deployment)),
        replica_sets: world.cluster.owned(deployment).iter().map(replica_set).collect(),
        older_twin: Some("other".into()),
    };
    let answer = plan(&seen);
    assert_eq!(answer.status.phase, Some(Phase::Stalled));
    assert_ne!(answer.write, StatusWrite::None);
    assert!(answer.actions.is_empty());
}

/// An unreadable note of ours on the Deployment neither panics nor loses the Deployment.
#[test]
fn an_unreadable_original_is_no_dead_end() {
    let mut story = Story::new(&Setup::new(&[20, 50, 100]));
    story.act(Act::Template(2)).held_at(1).run(3000);
    story.0.world.cluster.change_deployment(|deployment| {
        deployment.annotations.insert(ORIGINAL_ANNOTATION.into(), "{".into());
    });
    story.run(10_000).sizes(&[8, 2]);
}
