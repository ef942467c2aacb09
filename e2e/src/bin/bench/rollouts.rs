//! How long a whole rollout takes, and how much the operator writes for it.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use grayrollout_e2e::{Json, Snapshot, Split, Test, deployment, grayrollout, new_template};
use serde_json::{Value, json};

use crate::{
    audit::Mark,
    figures::{Figure, Target, percentile},
    report::Report,
};

const REPLICAS: i64 = 10;
const STAGES: [i64; 4] = [10, 25, 50, 100];
/// Rollouts of each case.
const ROUNDS: usize = 9;
const PATIENCE: Duration = Duration::from_mins(1);
/// After this long without a write a rollout is over, its events and last counts included.
const QUIET: Duration = Duration::from_millis(1500);
/// The native controller defers nothing.
const QUIET_NATIVELY: Duration = Duration::from_millis(500);

/// Bounds of a Deployment. The GrayRollout keeps the same ones, unless they are left to it.
struct Case {
    name: &'static str,
    words: &'static str,
    strategy: Option<(Value, Value)>,
    stages: &'static [i64],
    times_native: f64,
    most_writes: Option<f64>,
}

/// Four stages without limits of their own on what they write.
const CASE: Case = Case {
    name: "defaults",
    words: "all defaults",
    strategy: None,
    stages: &STAGES,
    times_native: 2.0,
    most_writes: None,
};

/// Measures rollouts with several bounds.
pub async fn measure(test: &Test, report: &mut Report) {
    let cases = [
        Case {
            name: "one-zero",
            words: "surge 1, unavailable 0",
            strategy: Some((json!(1), json!(0))),
            times_native: 1.5,
            most_writes: Some(40.0),
            ..CASE
        },
        Case {
            name: "whole",
            words: "one stage of 100%, surge 1, unavailable 0",
            strategy: Some((json!(1), json!(0))),
            stages: &[100],
            times_native: 1.1,
            ..CASE
        },
        Case {
            name: "quarter-zero",
            words: "surge 25%, unavailable 0",
            strategy: Some((json!("25%"), json!(0))),
            most_writes: Some(25.0),
            ..CASE
        },
        Case {
            name: "one-quarter",
            words: "surge 1, unavailable 25%",
            strategy: Some((json!(1), json!("25%"))),
            ..CASE
        },
        Case {
            name: "quarter-quarter",
            words: "surge 25%, unavailable 25%",
            strategy: Some((json!("25%"), json!("25%"))),
            ..CASE
        },
        CASE,
    ];
    for case in &cases {
        let rounds = case.rounds(test).await;
        report.add(case.times(&rounds));
        report.add([case.writes(&rounds)]);
    }
}

/// A rollout of each kind, one after the other.
struct Round {
    ours: Took,
    native: Took,
    our_writes: BTreeMap<String, usize>,
    native_writes: BTreeMap<String, usize>,
}

/// From the patch of the template, in s.
struct Took {
    /// Until every pod is new and available, and no old one is left.
    pods: f64,
    /// Until the status says that it is complete.
    told: f64,
}

impl Case {
    async fn rounds(&self, test: &Test) -> Vec<Round> {
        let ours = format!("{}-gray", self.name);
        let native = format!("{}-native", self.name);
        test.create(&self.deployment(&native)).await;
        test.manage_with(&self.deployment(&ours), &self.grayrollout(&ours)).await;
        let mut rounds = Vec::new();
        for round in 1..=ROUNDS {
            println!("rollouts, {}: {round} of {ROUNDS}", self.words);
            let version = format!("v{}", round + 1);
            let mark = Mark::now(test);
            let native_took = roll(test, &native, &version, is_told_natively, false).await;
            let native_writes = mark.quiet(test, QUIET_NATIVELY, |request| request.native).await;
            let mark = Mark::now(test);
            let our_took = roll(test, &ours, &version, is_completed, true).await;
            let our_writes = mark.quiet(test, QUIET, |request| request.ours).await;
            let (ours, native) = (our_took, native_took);
            rounds.push(Round { ours, native, our_writes, native_writes });
        }
        rounds
    }

    fn deployment(&self, name: &str) -> Value {
        let plain = deployment(name, REPLICAS);
        let Some((surge, unavailable)) = &self.strategy else { return plain };
        let bounds = json!({"maxSurge": surge, "maxUnavailable": unavailable});
        plain
            .with(json!({"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": bounds}}}))
    }

    fn grayrollout(&self, name: &str) -> Value {
        let plain = grayrollout(name, self.stages);
        let Some((_, unavailable)) = &self.strategy else { return plain };
        plain.with(json!({"spec": {"maxUnavailable": unavailable}}))
    }

    fn times(&self, rounds: &[Round]) -> [Figure; 2] {
        let figure = |what: &str, of: fn(&Took) -> f64| Figure {
            what: format!("rollout, {}: {what}, s", self.words),
            unit: "s",
            samples: rounds.iter().map(|round| of(&round.ours)).collect(),
            native: rounds.iter().map(|round| of(&round.native)).collect(),
            target: Some(Target::TimesNative(self.times_native)),
            more: Value::Null,
        };
        [figure("pods replaced", |took| took.pods), figure("told complete", |took| took.told)]
    }

    fn writes(&self, rounds: &[Round]) -> Figure {
        let total = |counts: &BTreeMap<String, usize>| -> f64 {
            u32::try_from(counts.values().sum::<usize>()).unwrap_or(u32::MAX).into()
        };
        let samples: Vec<f64> = rounds.iter().map(|round| total(&round.our_writes)).collect();
        let most = percentile(&samples, 100);
        let worst = rounds.iter().find(|round| (total(&round.our_writes) - most).abs() < 1e-9);
        Figure {
            what: format!("writes, {}", self.words),
            unit: "requests",
            native: rounds.iter().map(|round| total(&round.native_writes)).collect(),
            target: self.most_writes.map(Target::Most),
            more: json!({
                "mostOfOurs": worst.map(|round| &round.our_writes),
                "nativeBesideIt": worst.map(|round| &round.native_writes),
            }),
            samples,
        }
    }
}

/// Rolls a version out, approving each stage as soon as it is held.
async fn roll(
    test: &Test,
    name: &str,
    version: &str,
    is_told: fn(&Value, &Snapshot, &str) -> bool,
    approves: bool,
) -> Took {
    let start = Instant::now();
    let (path, template) = (test.deployment_path(name), new_template(version, json!({})));
    let patched = test.api.patch(&path, &template).await;
    let patched = patched.unwrap_or_else(|error| panic!("the patch is refused: {error}"));
    let (mut pods, mut told) = (None, None);
    let mut entered = 1;
    while told.is_none() || pods.is_none() {
        let mut approve = None;
        let step = test.record.until(PATIENCE, |now| {
            let since = || start.elapsed().as_secs_f64();
            if pods.is_none() && replaced(now, name, version) {
                pods = Some(since());
            }
            if told.is_none() && is_told(&patched, now, name) {
                told = Some(since());
            }
            let status = now.gr(name).at("/status");
            let waits = approves
                && status.text("/phase") == "AwaitingApproval"
                && status.int("/stage") == entered;
            approve = waits.then(|| status.int("/rollout"));
            waits || pods.is_some() && told.is_some()
        });
        step.await.unwrap_or_else(|why| panic!("the rollout of {name} does not end: {why}"));
        if let Some(rollout) = approve {
            entered += 1;
            let approval = json!({"status": {"approval": {"rollout": rollout, "stage": entered}}});
            let done = test.api.patch(&format!("{}/status", test.gr_path(name)), &approval).await;
            done.unwrap_or_else(|error| panic!("the approval is refused: {error}"));
        }
    }
    Took { pods: pods.unwrap_or(f64::NAN), told: told.unwrap_or(f64::NAN) }
}

fn replaced(now: &Snapshot, name: &str, version: &str) -> bool {
    let image = now.deployment(name).text("/spec/template/spec/containers/0/image");
    image == format!("app:{version}")
        && now.split(name) == Split { new: REPLICAS, old: 0 }
        && now.settled(name)
}

/// What `kubectl rollout status` waits for.
fn is_told_natively(patched: &Value, now: &Snapshot, name: &str) -> bool {
    let status = now.deployment(name).at("/status");
    let counts = ["/updatedReplicas", "/replicas", "/availableReplicas"];
    status.int("/observedGeneration") >= patched.int("/metadata/generation")
        && counts.iter().all(|count| status.int(count) == REPLICAS)
}

fn is_completed(patched: &Value, now: &Snapshot, name: &str) -> bool {
    let status = now.gr(name).at("/status");
    status.text("/phase") == "Completed"
        && now.deployment(name).int("/metadata/generation") > patched.int("/metadata/generation")
        && now.deployment(name).annotation("grayrollout.dev/rollout").is_none()
}
