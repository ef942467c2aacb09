//! What random histories are made of.

use std::fmt;

use grayrollout::{
    api::{
        Approval, Check, FailurePolicy, GrayRolloutSpec, Hook, HookEvent, OnDelete, OnFailure,
        PrometheusQuery, Webhook,
    },
    plan::{Call, CallRequest, Outcome},
};
use proptest::{collection::vec, prelude::*};

use crate::{
    actors::Act,
    operator::{KINDS, Kind},
    world::{Setup, done, refused, share},
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
    /// The lease goes to the other operator.
    Lead(usize),
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
            "  maxSurge {:?} maxUnavailable {:?} deadline {:?} interval {:?} {:?} {:?} wait {}",
            spec.max_surge,
            spec.max_unavailable,
            spec.progress_deadline_seconds,
            spec.step_interval_seconds,
            spec.on_failure,
            spec.on_delete,
            spec.wait_for_termination
        )?;
        for hook in &spec.hooks {
            writeln!(f, "  hook {} {:?} at {:?}", hook.name, hook.failure_policy, hook.on)?;
        }
        writeln!(f, "  {} checks", spec.checks.len())?;
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
    let deadline = prop_oneof![1 => Just(None), 2 => Just(Some(20))];
    let failure = prop_oneof![3 => Just(OnFailure::Pause), 1 => Just(OnFailure::Rollback)];
    let delete =
        prop_oneof![Just(OnDelete::Hold), Just(OnDelete::Rollback), Just(OnDelete::Promote)];
    let interval = prop_oneof![4 => Just(None), 1 => Just(Some(3))];
    let wait = prop::bool::weighted(0.2);
    let all = (percents(), budget, soak, first, deadline, interval, failure, delete, wait);
    all.prop_map(|(percents, budget, soak, first, deadline, interval, failure, delete, wait)| {
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
        spec.step_interval_seconds = interval;
        spec.on_failure = failure;
        spec.on_delete = delete;
        spec.wait_for_termination = wait;
        spec
    })
}

pub fn setup() -> impl Strategy<Value = Setup> {
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

/// The same with hooks, and sometimes a check.
pub fn hooked() -> impl Strategy<Value = Setup> {
    let one = (vec(prop::sample::select(&HookEvent::ALL[..]), 1..9), prop::bool::ANY);
    let check = prop::bool::weighted(0.3);
    (setup(), vec(one, 1..3), check).prop_map(|(setup, hooks, check)| {
        setup.with(|spec| {
            let named = (1..).zip(hooks).map(|(number, (mut on, block))| {
                on.sort_unstable();
                on.dedup();
                let policy = if block { FailurePolicy::Block } else { FailurePolicy::Ignore };
                hook(&format!("h{number}"), &on, policy)
            });
            spec.hooks = named.collect();
            if check {
                spec.checks = vec![Check { failure_limit: 100, ..errors("errors") }];
            }
        })
    })
}

/// A hook called by this name.
pub fn hook(name: &str, on: &[HookEvent], failure_policy: FailurePolicy) -> Hook {
    let webhook = Webhook { url: "http://lb/${stage}".into(), timeout_seconds: None };
    Hook { name: name.into(), on: on.to_vec(), webhook, failure_policy }
}

/// A check of this name, measured every five seconds.
pub fn errors(name: &str) -> Check {
    Check {
        name: name.into(),
        from_stage: 1,
        interval_seconds: 5,
        initial_delay_seconds: 0,
        failure_limit: 2,
        inconclusive_limit: 3,
        prometheus: Some(PrometheusQuery {
            address: "http://prometheus.monitoring:9090".into(),
            query: "errors{revision=\"${updateRevision}\"}".into(),
            min: None,
            max: Some(0.01),
            timeout_seconds: None,
        }),
        webhook: None,
    }
}

/// An endpoint that fails now and then, but no step more than three times.
pub fn moody(call: &Call, before: usize) -> Outcome {
    let mood = call.id.bytes().fold(7_u32, |sum, byte| sum.wrapping_mul(31) ^ u32::from(byte));
    match (&call.request, mood % 4) {
        (CallRequest::Query { .. }, 0) => Outcome::None("no sample".into()),
        (CallRequest::Query { .. }, 1) => Outcome::Value(0.5),
        (CallRequest::Query { .. }, _) => Outcome::Value(0.0),
        (CallRequest::Post { .. }, 0 | 1) if before < 3 => refused(),
        (CallRequest::Post { .. }, _) => done(),
    }
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
        1 => prop_oneof![Just(None), Just(Some(2))].prop_map(Act::StepInterval),
        1 => prop::bool::ANY.prop_map(Act::Automatic),
        1 => prop::sample::select(vec![OnDelete::Hold, OnDelete::Rollback, OnDelete::Promote])
            .prop_map(Act::OnDelete),
        4 => (1_u32..5, prop::bool::weighted(0.8)).prop_map(|(v, b)| Act::Broken(v, b)),
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
        3 => prop::bool::weighted(0.7).prop_map(Act::Quota),
        1 => prop::bool::ANY.prop_map(Act::WaitForTermination),
        1 => Just(Act::DeleteGray),
        2 => Just(Act::CreateGray),
        1 => Just(Act::DeleteDeployment),
        3 => Just(Act::CreateDeployment),
        1 => Just(Act::LoseStatus),
    ]
}

fn moments() -> impl Strategy<Value = i64> {
    prop_oneof![2 => Just(10_i64), 2 => Just(30), 2 => Just(300), 4 => 1000_i64..4000, 3 => Just(15_000), 4 => Just(40_000)]
}

/// People and strangers act while everyone runs as they should.
pub fn calm() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => people().prop_map(Step::Act),
        1 => strangers().prop_map(Step::Act),
        5 => moments().prop_map(Step::Fair),
    ]
}

/// Crashes, lagging watches, a second operator, controllers that act at odd moments.
pub fn hostile() -> impl Strategy<Value = Step> {
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

/// A rollout that only people and the controllers take part in, at odd moments.
pub fn strict() -> impl Strategy<Value = Step> {
    let kind = prop::sample::select(&KINDS[..]);
    let act = prop_oneof![
        3 => (2_u32..4).prop_map(Act::Template),
        4 => Just(Act::ApproveNext),
        1 => Just(Act::ApproveAll),
        2 => Just(Act::Abort),
    ];
    prop_oneof![
        3 => act.prop_map(Step::Act),
        3 => prop_oneof![Just(10_i64), Just(30), Just(300), Just(5000)].prop_map(Step::Fair),
        1 => (100_i64..4000).prop_map(Step::Pods),
        3 => prop::bool::ANY.prop_map(|stale| Step::Native { stale }),
        2 => Just(Step::ReplicaSets),
        4 => (0_usize..2, kind).prop_map(|(w, k)| Step::Observe(w, k)),
        6 => (0_usize..2, prop::bool::ANY).prop_map(|(w, b)| Step::Pass(w, None, b)),
        1 => (0_usize..2).prop_map(Step::Lead),
    ]
}

/// Small rollouts with stages close to everything.
pub fn small() -> impl Strategy<Value = Setup> {
    let replicas = prop_oneof![Just(2), Just(3), Just(10)];
    let own = prop_oneof![Just(("25%", "25%")), Just(("1", "0")), Just(("0", "1"))];
    let percents = prop_oneof![Just(vec![50, 100]), Just(vec![30, 95, 100])];
    (replicas, own, percents).prop_map(|(replicas, (surge, unavailable), percents)| {
        Setup::new(&percents).replicas(replicas).surge(surge, unavailable)
    })
}

pub fn history(
    setup: impl Strategy<Value = Setup>,
    step: impl Strategy<Value = Step>,
) -> impl Strategy<Value = History> {
    (setup, vec(step, 1..50)).prop_map(|(setup, steps)| History { setup, steps })
}
