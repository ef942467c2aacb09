//! Without any one of its guards the operator does harm, which these checks find; with all of them
//! the very same histories are clean.

use proptest::test_runner::{Config, RngSeed, TestCaseError, TestRunner};

use super::phase;
use crate::{
    actors::Act,
    checks::ensure,
    fair::Sim,
    generate::{History, history, small, strict},
    guards::Guard,
    histories::{finish, take},
    operator::{Kind, Mishap},
    world::{Checked, Setup, World},
};
use grayrollout::{api::Phase, plan::Strategy};

fn run(history: &History) -> Checked {
    let mut sim = Sim::new(&history.setup);
    sim.world.undisturbed = true;
    sim.world.leader = Some(0);
    history.steps.iter().try_for_each(|step| take(&mut sim, step))?;
    finish(&mut sim)
}

/// More is demanded at every moment where only people and the controllers act.
#[test]
fn with_all_guards_random_rollouts_are_clean() {
    let config = Config {
        cases: 300,
        rng_seed: RngSeed::Fixed(crate::histories::seed()),
        failure_persistence: None,
        ..Config::default()
    };
    let outcome = TestRunner::new(config)
        .run(&history(small(), strict()), |history| run(&history).map_err(TestCaseError::fail));
    if let Err(why) = outcome {
        panic!("{why}");
    }
}

/// The history is clean, and goes wrong in this way without the guard.
fn needed(guard: Guard, setup: &Setup, wrong: &str, script: fn(&mut Sim) -> Checked) {
    let begin = |without| {
        let mut sim = Sim::new(setup);
        sim.world.undisturbed = true;
        sim.world.without = without;
        sim
    };
    let mut sim = begin(None);
    let clean = script(&mut sim);
    sim.tell(clean);
    let mut sim = begin(Some(guard));
    let harm = script(&mut sim).err();
    let found = harm.as_ref().is_some_and(|harm| harm.contains(wrong));
    sim.tell(if found { Ok(()) } else { Err(format!("{wrong} is not found: {harm:?}")) });
}

fn ten(percents: &[i32]) -> Setup {
    Setup::new(percents).surge("25%", "25%")
}

fn pass(sim: &mut Sim, which: usize) -> Checked {
    sim.pass(which, Mishap::default())
}

/// One operator plans on what there is, `times` times; nobody else acts.
fn passes(sim: &mut Sim, times: u32) -> Checked {
    for _ in 0..times {
        sim.operators[0].observe_all(&sim.world);
        pass(sim, 0)?;
    }
    Ok(())
}

fn held(sim: &mut Sim, stage: i32) -> Checked {
    sim.until(60_000, "a stage is held", move |world: &World| {
        let status = world.status();
        status.phase == Some(Phase::AwaitingApproval) && status.stage == Some(stage)
    })
}

#[test]
fn a_status_is_written_only_on_the_version_it_was_planned_on() {
    needed(Guard::StatusVersion, &ten(&[20, 100]), "S4: the stored stage 2", |sim| {
        sim.act(&Act::Template(2));
        sim.observe(1, Kind::Deployment);
        held(sim, 1)?;
        sim.act(&Act::ApproveNext);
        sim.fair(30)?;
        // The other one has seen the template, and nothing since.
        pass(sim, 1)
    });
}

#[test]
fn the_revision_to_go_back_to_is_looked_for_where_a_watch_lags() {
    needed(Guard::Look, &ten(&[20, 100]), "which was fully out last", |sim| {
        sim.act(&Act::Template(2));
        held(sim, 1)?;
        sim.act(&Act::ApproveNext);
        sim.until(60_000, "it is over", |world| world.status().phase == Some(Phase::Completed))?;
        sim.act(&Act::Template(3));
        // The other one's watch of ReplicaSets has stood still since before the rollout.
        sim.observe(1, Kind::Gray);
        sim.observe(1, Kind::Deployment);
        pass(sim, 1)
    });
}

#[test]
fn a_deployment_is_patched_only_in_the_version_it_was_planned_on() {
    needed(Guard::DeploymentVersion, &ten(&[20, 100]), "S16", |sim| {
        sim.act(&Act::Template(2));
        held(sim, 1)?;
        sim.operators[1].observe_all(&sim.world);
        sim.fair(2000)?;
        sim.act(&Act::ApproveNext);
        sim.until(20_000, "pods move", |world| world.size(2) > 3)?;
        // The other one believes that the first stage is still to be held.
        pass(sim, 1)?;
        sim.native().map(|_| ())
    });
}

#[test]
fn a_replica_set_is_scaled_only_in_the_version_it_was_planned_on() {
    needed(Guard::SetVersion, &ten(&[50, 100]), "S2", |sim| {
        sim.act(&Act::Template(2));
        sim.until(20_000, "the first new pods", |world| world.ready(2) == 3)?;
        sim.replica_sets();
        sim.operators[1].observe_all(&sim.world);
        sim.act(&Act::ApproveAll);
        sim.until(60_000, "most are new", |world| world.size(2) > 8)?;
        pass(sim, 1)
    });
}

#[test]
fn no_size_is_touched_before_the_native_controller_has_seen_the_form() {
    needed(Guard::Handshake, &ten(&[20, 100]), "S16", |sim| {
        sim.native()?;
        sim.act(&Act::Template(2));
        passes(sim, 3)?;
        sim.native_stale().map(|_| ())
    });
}

#[test]
fn a_status_that_is_not_current_counts_for_nothing() {
    let setup = Setup::new(&[10, 100]).surge("1", "0");
    needed(Guard::SetStatus, &setup, "S3", |sim| {
        sim.act(&Act::Template(2));
        sim.until(20_000, "the new pod runs", |world| world.ready(2) == 1)?;
        sim.replica_sets();
        passes(sim, 1)?;
        // The pod is deleted, and the status still tells of it.
        sim.replica_sets();
        sim.act(&Act::Abort);
        passes(sim, 4)
    });
}

#[test]
fn an_approval_counts_for_its_number_only() {
    needed(Guard::ApprovalNumber, &ten(&[20, 100]), "S5", |sim| {
        sim.act(&Act::Template(2));
        held(sim, 1)?;
        sim.act(&Act::ApproveNext);
        sim.act(&Act::Template(3));
        sim.fair(60_000)
    });
}

#[test]
fn below_100_percent_one_old_pod_stays() {
    needed(Guard::LastOldPod, &ten(&[20, 95, 100]).replicas(3), "S1", |sim| {
        sim.act(&Act::Template(2));
        held(sim, 1)?;
        sim.act(&Act::ApproveNext);
        sim.fair(10_000)
    });
}

/// Else the native controller takes a full ReplicaSet for the end, and empties the others.
#[test]
fn desired_replicas_is_written_with_every_size() {
    needed(Guard::Desired, &ten(&[50, 100]), "S16", |sim| {
        sim.act(&Act::Template(2));
        held(sim, 1)?;
        sim.act(&Act::ApproveNext);
        sim.until(60_000, "it completes", phase(Phase::Completed))
    });
}

/// Else the native controller takes the wrong total for the whole when replicas change.
#[test]
fn max_replicas_is_written_with_every_size() {
    needed(Guard::Max, &ten(&[50, 100]), "the share", |sim| {
        sim.world.undisturbed = false;
        sim.act(&Act::Template(2));
        sim.until(20_000, "pods move", |world| world.size(2) > 0)?;
        sim.act(&Act::Replicas(40));
        sim.until(60_000, "as many of each", |world| {
            let moving = world.deployment().strategy == Strategy::Recreate;
            moving && world.ready(2) == 20 && world.size(1) == 20
        })?;
        sim.replica_sets();
        passes(sim, 1)?;
        sim.pods(600);
        passes(sim, 1)?;
        // Replicas go down again while the native controller has not seen the held form yet.
        sim.up = false;
        sim.act(&Act::Replicas(20));
        sim.fair(10_000)?;
        let sizes = (sim.world.size(1), sim.world.size(2));
        let kept = (8..=12).contains(&sizes.0) && sizes.0 + sizes.1 == 20;
        ensure(kept, || format!("the share is not kept: {sizes:?}"))
    });
}

/// The second operator has seen that a new ReplicaSet is due, the first one made it and went back.
fn late_to_create(sim: &mut Sim) -> Checked {
    let moving = |world: &World| {
        let deployment = world.deployment();
        let seen = deployment.status.observed_generation == deployment.generation;
        seen && deployment.template == 2 && deployment.strategy == Strategy::Recreate
    };
    sim.act(&Act::Template(2));
    sim.until(1000, "the moving form", moving)?;
    let due = sim.world.size(2) == 0;
    ensure(due, || "it is made already".into())?;
    sim.operators[1].observe_all(&sim.world);
    sim.until(20_000, "the new pods run", |world| world.ready(2) > 0)?;
    sim.act(&Act::Abort);
    sim.until(20_000, "it is rolled back", phase(Phase::RolledBack))?;
    sim.fair(5000)?;
    pass(sim, 1)
}

#[test]
fn a_replica_set_is_created_only_for_the_form_that_was_planned_on() {
    needed(Guard::Creation, &ten(&[20, 100]), "S1", late_to_create);
}

/// An operator that was stopped between reading the Deployment and creating, past its lease.
#[test]
fn the_lease_is_looked_at_before_a_write() {
    needed(Guard::Lease, &ten(&[20, 100]), "S1", |sim| {
        sim.world.leader = Some(0);
        late_to_create(sim)
    });
}

#[test]
fn what_was_written_is_seen_before_the_next_plan() {
    needed(Guard::OwnWrites, &ten(&[20, 100]), "S16", |sim| {
        sim.operators[0].observe_all(&sim.world);
        sim.act(&Act::Template(2));
        for step in 0..30 {
            if step == 15 {
                sim.act(&Act::Abort);
            }
            // The watch of ReplicaSets stands still all the time.
            sim.observe(0, Kind::Gray);
            sim.observe(0, Kind::Deployment);
            pass(sim, 0)?;
            sim.native()?;
        }
        Ok(())
    });
}
