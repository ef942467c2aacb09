//! What the operator needs beside ever more rollouts at rest, and how soon it acts after a start.

use std::time::{Duration, Instant};

use grayrollout_e2e::{Json, Operator, Test, Usage};
use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use crate::{
    audit::{Mark, millis},
    figures::{Figure, Target},
    machine::native,
    population::{Population, until},
    report::Report,
};

/// Rollouts at rest; BENCH_SCALE bounds them.
const SIZES: [usize; 5] = [0, 100, 1000, 5000, 10_000];
const MINUTE: Duration = Duration::from_mins(1);
const GRAY: &str = "grayrollout.dev/v1alpha1";
/// The one rollout that is approved while no operator runs.
const LATE: usize = 99_999;
/// The policies are evaluated for every GrayRollout of a namespace at each write there.
const PER_NAMESPACE: usize = 100;
/// The lease that the shipped role allows, and one pod whose container starts again.
const ELECTING: [&str; 4] =
    ["--leader-elect=true", "--lease-namespace=grayrollout-system", "--identity", "bench"];

/// Measures each size, with two revisions of every Deployment.
pub async fn measure(test: &Test, report: &mut Report) {
    let most = std::env::var("BENCH_SCALE").ok().and_then(|size| size.parse().ok());
    let most = most.unwrap_or(usize::MAX);
    let late = Population::new(test, "bench-scale", 4).await;
    let resting = late.spread(PER_NAMESPACE, 0);
    late.deploy(LATE..LATE + 1).await;
    let mut operator = late.operator_of_all_starting(&[]);
    operator.ready().await;
    late.manage(LATE..LATE + 1, &[25, 50, 75, 100]).await;
    late.completed(&operator, 1).await;
    let mut present = 0;
    for size in SIZES.into_iter().filter(|size| *size <= most) {
        println!("at rest: {present} -> {size} rollouts");
        grow(&resting, &operator, present..size).await;
        present = size;
        let figures;
        (operator, figures) = beside(&late, operator, size).await;
        report.add(figures);
    }
}

/// More Deployments at rest, each with an old revision and no pods.
async fn grow(resting: &Population<'_>, operator: &Operator, numbers: std::ops::Range<usize>) {
    if numbers.is_empty() {
        return;
    }
    resting.deploy(numbers.clone()).await;
    let sets = resting.count("apps/v1", "replicasets").await;
    resting.push(numbers.clone(), "v2").await;
    resting.counted("apps/v1", "replicasets", sets + numbers.len()).await;
    resting.manage(numbers.clone(), &[10, 50, 100]).await;
    resting.completed(operator, numbers.end + 1).await;
}

/// A start with an approval outstanding.
struct Started {
    operator: Operator,
    at: Instant,
    /// When it was ready, in s.
    ready: f64,
    /// When it first wrote a ReplicaSet, in s.
    first: f64,
}

/// Kills the operator while a stage is held, approves it, and starts another one with these flags.
async fn killed(late: &Population<'_>, operator: Operator, size: usize, flags: &[&str]) -> Started {
    let number = late.get(GRAY, "grayrollouts", LATE).await.int("/status/rollout") + 1;
    late.push(LATE..LATE + 1, &format!("late-{number}")).await;
    until("the first stage is held", async || {
        let status = late.get(GRAY, "grayrollouts", LATE).await;
        let status = status.at("/status");
        (status.text("/phase"), status.int("/rollout"), status.int("/stage"))
            == ("AwaitingApproval", number, 1)
    })
    .await;
    drop(operator);
    late.approve(LATE, number, 4).await;

    let mark = Mark::now(late.test);
    let (at, began) = (Instant::now(), Timestamp::now());
    let mut operator = late.operator_of_all_starting(flags);
    operator.ready().await;
    let ready = at.elapsed().as_secs_f64();
    late.completed(&operator, size + 1).await;
    let requests = mark.requests_in(late.test, &late.namespace);
    let first = requests.iter().find(|it| it.ours && it.wrote() && it.resource == "replicasets");
    let first = first.map_or(f64::NAN, |it| millis(began, it.answered) / 1000.0);
    Started { operator, at, ready, first }
}

/// Starts an operator again and again, and measures the last one at rest.
async fn beside(late: &Population<'_>, operator: Operator, size: usize) -> (Operator, Vec<Figure>) {
    // The first of the two takes the lease, and dies without giving it back.
    let candidate = killed(late, operator, size, &ELECTING).await.operator;
    let elected = killed(late, candidate, size, &ELECTING).await;
    let Started { operator, at: start, ready, first } =
        killed(late, elected.operator, size, &[]).await;

    tokio::time::sleep(MINUTE.saturating_sub(start.elapsed())).await;
    let early = operator.usage();
    let native_early = native(late.test);
    println!("a minute at rest beside {size} rollouts");
    tokio::time::sleep(MINUTE).await;
    let (rest, native_rest) = (operator.usage(), native(late.test));
    let figure = |what: &str, unit, sample: f64, native: Option<f64>, target: Option<f64>| Figure {
        what: format!("{what}, {size} rollouts at rest, {unit}"),
        unit,
        samples: vec![sample],
        native: native.into_iter().collect(),
        target: target.map(Target::Most),
        more: Value::Null,
    };
    let memory = [(0, 8.0), (100, 12.0), (1000, 30.0), (10_000, 120.0)];
    let of = |table: &[(usize, f64)]| table.iter().find(|(at, _)| *at == size).map(|(_, is)| *is);
    let cpu = |from: Usage, to: Usage| to.cpu_seconds - from.cpu_seconds;
    let figures = vec![
        figure(
            "resident memory",
            "MiB",
            rest.resident_mib,
            Some(native_rest.resident_mib),
            of(&memory),
        ),
        figure("most memory since the start", "MiB", rest.peak_mib, None, None),
        figure(
            "CPU over 60 s",
            "s",
            cpu(early, rest),
            Some(cpu(native_early, native_rest)),
            of(&[(1000, 0.02)]),
        ),
        figure("CPU in the first 60 s", "s", early.cpu_seconds, None, of(&[(1000, 0.5)])),
        figure("start -> ready", "s", ready, None, of(&[(1000, 2.0), (10_000, 15.0)])),
        figure(
            "start -> first ReplicaSet write of an outstanding approval",
            "s",
            first,
            None,
            of(&[(100, 0.3)]),
        ),
        figure(
            "the same with leader election, a container started again",
            "s",
            elected.first,
            None,
            of(&[(100, 1.0)]),
        ),
    ];
    (operator, figures)
}
