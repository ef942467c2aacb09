//! Random histories: faults, stale reads, crashes and other writers at any moment, then a fair run
//! that must reach its goal. `PROVE_CASES` says how many, `PROVE_SEED` which.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    panic::resume_unwind,
};

use grayrollout::{
    api::{ORIGINAL_ANNOTATION, Phase, Reason},
    plan::Strategy as Form,
};
use proptest::{
    strategy::Strategy,
    test_runner::{Config, RngSeed, TestCaseError, TestError, TestRunner},
};

use crate::{
    actors::Act,
    checks::ensure,
    fair::Sim,
    generate::{History, Step, calm, history, hooked, hostile, moody, setup},
    operator::Mishap,
    world::{Checked, Setup, World, hash},
};

pub fn take(sim: &mut Sim, step: &Step) -> Checked {
    match step {
        Step::Act(act) => sim.act(act),
        Step::Fair(ms) => sim.fair(*ms)?,
        Step::Pods(ms) => sim.pods(*ms),
        Step::Native { stale } => {
            if *stale {
                sim.native_stale()?
            } else {
                sim.native()?
            };
        }
        Step::Lead(which) => sim.lead(*which),
        Step::ReplicaSets => {
            sim.replica_sets();
        }
        Step::Observe(which, kind) => sim.observe(*which, *kind),
        Step::Pass(which, crash_after, native_between) => {
            let mishap = Mishap {
                crash_after: *crash_after,
                native_between: *native_between,
                ..Mishap::default()
            };
            sim.pass(*which, mishap)?;
        }
        Step::Up(up) => sim.up = *up,
    }
    Ok(())
}

/// Faults end: pods can get ready, nothing is paused, there are replicas, the operator runs.
fn heal(sim: &mut Sim) {
    sim.up = true;
    for template in sim.world.cluster.broken.clone() {
        sim.act(&Act::Broken(template, false));
    }
    if sim.world.cluster.quota {
        sim.act(&Act::Quota(false));
    }
    let paused = sim
        .world
        .gray
        .as_ref()
        .and_then(|gray| gray.spec.as_ref().ok())
        .is_some_and(|spec| spec.paused);
    if paused {
        sim.act(&Act::Pause(false));
    }
    let deployment = sim.world.cluster.deployment.as_ref();
    if deployment.is_some_and(|deployment| deployment.replicas == 0) {
        sim.act(&Act::Replicas(4));
    }
}

/// Whether nothing is left to do.
fn goal(world: &World) -> bool {
    let status = world.status();
    let Some(deployment) = &world.cluster.deployment else {
        return world.gray.is_none() || status.phase == Some(Phase::Pending);
    };
    if world.gray.is_none() {
        return !deployment.annotations.contains_key(ORIGINAL_ANNOTATION);
    }
    let recorded = status.template_hash == Some(hash(deployment.template).to_string());
    recorded && matches!(status.phase, Some(Phase::Completed | Phase::RolledBack))
}

/// L1, L2, L3, L6, L7: the goal is reached with nothing but approvals, well before a resync.
pub fn finish(sim: &mut Sim) -> Checked {
    heal(sim);
    let end = sim.world.cluster.now + 400_000;
    sim.fair(100)?;
    loop {
        let left = end - sim.world.cluster.now;
        ensure(left > 0, || format!("L: the goal is not reached: {}", sim.world.summary()))?;
        let waits = |world: &World| {
            let status = world.status();
            goal(world)
                || status.phase == Some(Phase::AwaitingApproval)
                || (status.phase == Some(Phase::Stalled) && status.stage != status.stages)
        };
        sim.until(left, "the goal, or something to approve", waits)?;
        if goal(&sim.world) {
            // Pods that failed last may take a while.
            sim.fair(15_000)?;
            if goal(&sim.world) {
                break;
            }
        } else {
            let lost = sim.world.status().phase == Some(Phase::Stalled);
            let under_way = sim.world.status().stage.is_some();
            sim.act(match (lost, under_way) {
                (true, true) => &Act::ApproveAll,
                (true, false) => &Act::Retry,
                (false, _) => &Act::ApproveNext,
            });
            sim.fair(2000)?;
        }
    }
    settled(&sim.world)?;
    let before = sim.world.writes;
    sim.fair(1_300_000)?;
    let after = sim.world.writes;
    ensure(before == after, || format!("S12: writes at rest: {before:?}, then {after:?}"))
}

/// What is left once all is done.
fn settled(world: &World) -> Checked {
    let Some(deployment) = &world.cluster.deployment else {
        return Ok(());
    };
    let summary = || world.summary();
    let replicas = deployment.replicas;
    let own = deployment.strategy == world.user_strategy && deployment.strategy != Form::Recreate;
    ensure(own, || format!("L: not the user's own strategy at rest: {}", summary()))?;
    let status = world.status();
    if world.gray.is_none() {
        return ensure(
            deployment.annotations.keys().all(|name| !name.contains("grayrollout")),
            || format!("L: annotations of ours are left: {}", summary()),
        );
    }
    ensure(world.total() == replicas, || format!("L: not {replicas} pods at rest: {}", summary()))?;
    let size = world.size(deployment.template);
    if status.phase == Some(Phase::RolledBack) {
        ensure(size == 0 && deployment.paused, || format!("L2: {}", summary()))
    } else {
        ensure(size == replicas, || format!("L1: {}", summary()))
    }
}

/// Runs one history; returns what it came past.
fn run(history: &History) -> Checked<BTreeSet<&'static str>> {
    let mut sim = Sim::new(&history.setup);
    sim.world.endpoint.answer = moody;
    let told = history.steps.iter().try_for_each(|step| take(&mut sim, step));
    let told = told.and_then(|()| finish(&mut sim));
    told.map(|()| std::mem::take(&mut sim.world.seen)).map_err(|why| {
        let log = sim.world.log.join("\n");
        format!("{why}\n\nwhat happened:\n{log}\n")
    })
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// What kind of fault a failure is: its first line without numbers and names.
fn kind(why: &str) -> String {
    let line = why.lines().next().unwrap_or_default();
    line.split(' ')
        .filter(|word| !word.contains(|c: char| c.is_ascii_digit() || "[]{}()".contains(c)))
        .collect()
}

/// Runs histories until none fails in a way that was not found before; fails with the shortest
/// history of each kind of fault.
fn prove(
    name: &str,
    cases: u64,
    setup: impl Strategy<Value = Setup>,
    step: impl Strategy<Value = Step>,
) -> BTreeSet<&'static str> {
    let seed = seed();
    let most = number("PROVE_KINDS").unwrap_or(3);
    let config = Config {
        cases: u32::try_from(cases).unwrap_or(u32::MAX),
        rng_seed: RngSeed::Fixed(seed),
        failure_persistence: None,
        max_shrink_iters: 2000,
        ..Config::default()
    };
    let histories = history(setup, step);
    let (found, seen) = (RefCell::new(BTreeMap::new()), RefCell::new(BTreeSet::new()));
    for _ in 0..most {
        let outcome = TestRunner::new(config.clone()).run(&histories, |history| {
            match run(&history) {
                Ok(passed) => seen.borrow_mut().extend(passed),
                Err(why) if found.borrow().contains_key(&kind(&why)) => {}
                Err(why) => return Err(TestCaseError::fail(why)),
            }
            Ok(())
        });
        match outcome {
            Ok(()) => break,
            Err(TestError::Fail(why, history)) => {
                let why = why.message().to_owned();
                let story = format!("{why}\n\nthe shortest history that fails so:\n{history:?}");
                found.borrow_mut().insert(kind(&why), story);
            }
            Err(TestError::Abort(why)) => panic!("{name}, PROVE_SEED={seed}: {why}"),
        }
    }
    let found = found.into_inner();
    let stories: Vec<_> = found.into_values().collect();
    assert!(stories.is_empty(), "{name}, PROVE_SEED={seed}\n{}", stories.join("\n=====\n"));
    seen.into_inner()
}

/// Where the random numbers start.
pub fn seed() -> u64 {
    number("PROVE_SEED").unwrap_or(1)
}

/// Histories of both kinds together.
fn cases() -> u64 {
    number("PROVE_CASES").unwrap_or(2000)
}

/// Every phase, and every reason that these histories can lead to.
fn came_past_everything(seen: &BTreeSet<&'static str>) {
    let reasons = [
        Reason::StageMoving,
        Reason::Soaking,
        Reason::ScaledToZero,
        Reason::FirstDeploy,
        Reason::StageReached,
        Reason::ProgressDeadlineExceeded,
        Reason::ReplicaFailure,
        Reason::StableLost,
    ];
    let wanted = Phase::ALL.into_iter().map(Phase::as_str);
    let wanted = wanted.chain(reasons.into_iter().map(Reason::as_str));
    let missed: Vec<_> = wanted.filter(|what| !seen.contains(what)).collect();
    assert!(missed.is_empty(), "the histories never came past {missed:?}");
}

#[test]
fn histories_keep_the_invariants_and_end_well() {
    let seen = std::thread::scope(|scope| {
        let calm = scope.spawn(|| prove("calm", cases() / 2, setup(), calm()));
        let hostile = scope.spawn(|| prove("hostile", cases() / 2, setup(), hostile()));
        [calm, hostile].map(|kind| kind.join().unwrap_or_else(|why| resume_unwind(why)))
    });
    if cases() >= 1000 {
        came_past_everything(&seen.into_iter().flatten().collect());
    }
}

/// With hooks that fail now and then, and a check, the same holds.
#[test]
fn histories_with_hooks_and_checks_end_well() {
    std::thread::scope(|scope| {
        let calm = scope.spawn(|| prove("calm, hooks", cases() / 8, hooked(), calm()));
        let hostile = scope.spawn(|| prove("hostile, hooks", cases() / 8, hooked(), hostile()));
        [calm, hostile].map(|kind| kind.join().unwrap_or_else(|why| resume_unwind(why)))
    });
}
