//! Random histories: faults, stale reads, crashes and other writers at any moment, then a fair run
//! that must reach its goal. `PROVE_CASES` says how many, `PROVE_SEED` which.

use std::{cell::RefCell, collections::BTreeMap, fmt};

use grayrollout::{
    api::{Approval, GrayRolloutSpec, ORIGINAL_ANNOTATION, OnDelete, OnFailure, Phase},
    plan::Strategy as Form,
};
use proptest::{
    collection::vec,
    prelude::*,
    test_runner::{Config, RngSeed, TestCaseError, TestError, TestRunner},
};

use crate::{
    actors::Act,
    checks::ensure,
    fair::Sim,
    operator::{KINDS, Kind, Mishap},
    world::{Checked, Setup, World, hash, share},
};

/// One step of a history.
#[derive(Debug, Clone)]
pub enum Step {
    Act(Act),
    /// Everyone runs for so many milliseconds, the operator with fresh reads.
    Fair(i64),
    /// Only time and pods go on.
    Pods(i64),
    /// The Deployment controller syncs, perhaps on a Deployment it saw before.
    Native {
        stale: bool,
    },
    /// The ReplicaSet controller syncs.
    ReplicaSets,
    /// One operator's watch of one kind catches up.
    Observe(usize, Kind),
    /// One operator plans on what it saw last.
    Pass(usize, Option<u32>, bool),
    /// The operator stops, or starts again.
    Up(bool),
}

/// A beginning, what happens, and how the cluster behaves.
#[derive(Clone)]
pub struct History {
    pub setup: Setup,
    pub steps: Vec<Step>,
}

impl fmt::Debug for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Setup { replicas, surge, unavailable, spec, start_ms, stop_ms, history_limit } =
            &self.setup;
        writeln!(
            f,
            "{replicas} pods, {surge}/{unavailable}, ready after {start_ms} ms, gone after {stop_ms} \
             ms, revisionHistoryLimit {history_limit}"
        )?;
        for stage in &spec.stages {
            writeln!(
                f,
                "  stage {}% soak {:?} {:?}",
                stage.percent, stage.soak_seconds, stage.approval
            )?;
        }
        writeln!(
            f,
            "  maxSurge {:?} maxUnavailable {:?} deadline {:?} {:?} {:?} wait {}",
            spec.max_surge,
            spec.max_unavailable,
            spec.progress_deadline_seconds,
            spec.on_failure,
            spec.on_delete,
            spec.wait_for_termination
        )?;
        for step in &self.steps {
            writeln!(f, "  {step:?}")?;
        }
        Ok(())
    }
}

fn percents() -> impl Strategy<Value = Vec<i32>> {
    prop_oneof![
        4 => Just(vec![10, 50, 100]),
        2 => Just(vec![20, 100]),
        1 => Just(vec![100]),
        1 => Just(vec![50, 60, 100]),
        1 => Just(vec![1, 99, 100]),
    ]
}

fn spec() -> impl Strategy<Value = GrayRolloutSpec> {
    let budget = prop_oneof![
        6 => Just((None, None)),
        1 => Just((Some("1"), None)),
        1 => Just((Some("0"), None)),
        1 => Just((Some("50%"), Some("25%"))),
        1 => Just((None, Some("1"))),
    ];
    let soak = prop_oneof![4 => Just(None), 1 => Just(Some(2)), 1 => Just(Some(8))];
    let first = prop_oneof![5 => Just(None), 1 => Just(Some(Approval::Required))];
    let deadline = prop_oneof![3 => Just(None), 1 => Just(Some(20))];
    let failure = prop_oneof![3 => Just(OnFailure::Pause), 1 => Just(OnFailure::Rollback)];
    let delete =
        prop_oneof![Just(OnDelete::Hold), Just(OnDelete::Rollback), Just(OnDelete::Promote)];
    let all =
        (percents(), budget, soak, first, deadline, failure, delete, prop::bool::weighted(0.2));
    all.prop_map(|(percents, budget, soak, first, deadline, failure, delete, wait)| {
        let mut spec = crate::world::spec(&percents);
        spec.max_surge = budget.0.map(share);
        spec.max_unavailable = budget.1.map(share);
        for stage in &mut spec.stages {
            stage.soak_seconds = soak;
        }
        if let Some(stage) = spec.stages.first_mut() {
            stage.approval = first;
        }
        spec.progress_deadline_seconds = deadline;
        spec.on_failure = failure;
        spec.on_delete = delete;
        spec.wait_for_termination = wait;
        spec
    })
}

fn setup() -> impl Strategy<Value = Setup> {
    let replicas =
        prop_oneof![1 => Just(0), 2 => Just(1), 1 => Just(2), 1 => Just(3), 4 => Just(10)];
    let own = prop_oneof![
        3 => Just(("25%", "25%")),
        2 => Just(("1", "0")),
        2 => Just(("0", "1")),
        1 => Just(("100%", "0")),
    ];
    let times = prop_oneof![Just(300_i64), Just(1000), Just(2500)];
    let limit = prop_oneof![4 => Just(10), 1 => Just(0), 1 => Just(1)];
    (replicas, own, spec(), times.clone(), times, limit).prop_map(
        |(replicas, (surge, unavailable), spec, start_ms, stop_ms, history_limit)| Setup {
            replicas,
            surge: share(surge),
            unavailable: share(unavailable),
            spec,
            start_ms,
            stop_ms,
            history_limit,
        },
    )
}

fn replicas() -> impl Strategy<Value = i32> {
    prop_oneof![2 => Just(0), 2 => Just(1), 1 => Just(2), 1 => Just(5), 2 => Just(10), 1 => Just(20)]
}

fn people() -> impl Strategy<Value = Act> {
    prop_oneof![
        6 => (1_u32..5).prop_map(Act::Template),
        1 => (1_u32..5, replicas()).prop_map(|(v, r)| Act::TemplateAndReplicas(v, r)),
        5 => replicas().prop_map(Act::Replicas),
        8 => Just(Act::ApproveNext),
        2 => Just(Act::ApproveAll),
        1 => (0_i64..3).prop_map(Act::ApproveStale),
        1 => Just(Act::ApproveTooHigh),
        1 => (-1_i64..2, 1_i32..4).prop_map(|(o, s)| Act::ApproveInGit(o, s)),
        3 => Just(Act::Abort),
        1 => Just(Act::AbortStale),
        2 => Just(Act::Retry),
        2 => prop::bool::ANY.prop_map(Act::Pause),
        1 => percents().prop_map(Act::Stages),
        1 => (0_i32..4).prop_map(Act::Soak),
        1 => prop::bool::ANY.prop_map(Act::Automatic),
        1 => prop::sample::select(vec![OnDelete::Hold, OnDelete::Rollback, OnDelete::Promote])
            .prop_map(Act::OnDelete),
        2 => (1_u32..5, prop::bool::ANY).prop_map(|(v, b)| Act::Broken(v, b)),
        1 => (0_usize..20).prop_map(Act::PodFails),
    ]
}

fn strangers() -> impl Strategy<Value = Act> {
    prop_oneof![
        3 => Just(Act::Resume),
        3 => Just(Act::GitOps),
        1 => Just(Act::PauseDeployment),
        2 => (0_u32..9).prop_map(Act::Annotate),
        1 => Just(Act::RemoveAnnotations),
        4 => (0_usize..4, 0_i32..12).prop_map(|(i, n)| Act::ScaleSet(i, n)),
        1 => (0_usize..4).prop_map(Act::DeleteSet),
        1 => prop_oneof![Just("0"), Just("30%"), Just("2")].prop_map(|s| Act::OwnStrategy(s.into())),
        1 => prop::bool::ANY.prop_map(Act::Quota),
        1 => prop::bool::ANY.prop_map(Act::WaitForTermination),
        1 => Just(Act::DeleteGray),
        2 => Just(Act::CreateGray),
        1 => Just(Act::DeleteDeployment),
        3 => Just(Act::CreateDeployment),
        1 => Just(Act::LoseStatus),
    ]
}

fn moments() -> impl Strategy<Value = i64> {
    prop_oneof![2 => Just(10_i64), 2 => Just(30), 2 => Just(300), 4 => 1000_i64..4000, 3 => Just(15_000), 1 => Just(40_000)]
}

/// People and strangers act while everyone runs as they should.
fn calm() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => people().prop_map(Step::Act),
        1 => strangers().prop_map(Step::Act),
        5 => moments().prop_map(Step::Fair),
    ]
}

/// Crashes, lagging watches, a second operator, controllers that act at odd moments.
fn hostile() -> impl Strategy<Value = Step> {
    let which = prop_oneof![5 => Just(0_usize), 1 => Just(1)];
    let kind = prop::sample::select(&KINDS[..]);
    let crash = prop_oneof![4 => Just(None), 1 => (1_u32..4).prop_map(Some)];
    prop_oneof![
        5 => people().prop_map(Step::Act),
        2 => strangers().prop_map(Step::Act),
        4 => moments().prop_map(Step::Fair),
        2 => (100_i64..4000).prop_map(Step::Pods),
        4 => prop::bool::weighted(0.3).prop_map(|stale| Step::Native { stale }),
        4 => Just(Step::ReplicaSets),
        4 => (which.clone(), kind).prop_map(|(w, k)| Step::Observe(w, k)),
        6 => (which, crash, prop::bool::ANY).prop_map(|(w, c, b)| Step::Pass(w, c, b)),
        1 => prop::bool::ANY.prop_map(Step::Up),
    ]
}

fn history(step: impl Strategy<Value = Step>) -> impl Strategy<Value = History> {
    (setup(), vec(step, 1..50)).prop_map(|(setup, steps)| History { setup, steps })
}

fn take(sim: &mut Sim, step: &Step) -> Checked {
    match step {
        Step::Act(act) => sim.act(act),
        Step::Fair(ms) => sim.fair(*ms)?,
        Step::Pods(ms) => sim.pods(*ms),
        Step::Native { stale: false } => {
            sim.native();
        }
        Step::Native { stale: true } => sim.native_stale(),
        Step::ReplicaSets => {
            sim.replica_sets();
        }
        Step::Observe(which, kind) => sim.observe(*which, *kind),
        Step::Pass(which, crash_after, native_between) => {
            let mishap = Mishap { crash_after: *crash_after, native_between: *native_between };
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
fn finish(sim: &mut Sim) -> Checked {
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

fn run(history: &History) -> Checked {
    let mut sim = Sim::new(&history.setup);
    let told = history.steps.iter().try_for_each(|step| take(&mut sim, step));
    told.and_then(|()| finish(&mut sim)).map_err(|why| {
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
fn prove(name: &str, share: u64, step: impl Strategy<Value = Step>) {
    let cases = number("PROVE_CASES").unwrap_or(1000) / share;
    let seed = number("PROVE_SEED").unwrap_or(1);
    let most = number("PROVE_KINDS").unwrap_or(3);
    let config = Config {
        cases: u32::try_from(cases).unwrap_or(u32::MAX),
        rng_seed: RngSeed::Fixed(seed),
        failure_persistence: None,
        max_shrink_iters: 2000,
        ..Config::default()
    };
    let histories = history(step);
    let found = RefCell::new(BTreeMap::new());
    for _ in 0..most {
        let outcome = TestRunner::new(config.clone()).run(&histories, |history| {
            let result = run(&history);
            match &result {
                Err(why) if found.borrow().contains_key(&kind(why)) => Ok(()),
                _ => result.map_err(TestCaseError::fail),
            }
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
}

#[test]
fn calm_histories_keep_the_invariants_and_end_well() {
    prove("calm", 2, calm());
}

#[test]
fn hostile_histories_keep_the_invariants_and_end_well() {
    prove("hostile", 2, hostile());
}
