//! From an approval to the first ReplicaSet write.

use std::time::Duration;

use grayrollout_e2e::{Json, Test, deployment, grayrollout};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    audit::{Mark, Request, millis},
    figures::{Figure, Target, percentile},
    report::Report,
};

/// Stages of 10% each, of which all but the first are approved.
const STAGES: i64 = 10;
/// 207 approvals of each kind.
const ROLLOUTS: i64 = 23;
const PATIENCE: Duration = Duration::from_secs(30);

/// Measures approvals at once and after a pause, and the native answer to a new size beside them.
pub async fn measure(test: &Test, report: &mut Report) {
    let native = scaled(test).await;
    let target = Some(Target::Median(50.0));
    for (name, pause, what) in [
        ("at-once", Duration::ZERO, "approved at once -> first ReplicaSet write stored, ms"),
        ("held", Duration::from_secs(2), "approved after 2 s -> first ReplicaSet write stored, ms"),
    ] {
        let latencies = approved(test, name, pause).await;
        let samples: Vec<f64> = latencies.iter().map(|latency| latency.stored).collect();
        report.add([growth(name, &samples)]);
        let received: Vec<f64> = latencies.iter().map(|latency| latency.received).collect();
        report.add([Figure {
            what: what.to_owned(),
            unit: "ms",
            native: native.clone(),
            target,
            more: json!({
                "native": "scale patch -> first ReplicaSet write stored",
                "untilReceivedP50": percentile(&received, 50),
                "timelineOfTheMedian": timeline_of(&latencies, percentile(&samples, 50)),
                "timelineOfTheSlowest": timeline_of(&latencies, percentile(&samples, 100)),
            }),
            samples,
        }]);
    }
}

/// Each rollout adds an old revision, up to the ten that a Deployment keeps.
fn growth(name: &str, samples: &[f64]) -> Figure {
    let part = samples.len() / 4;
    Figure {
        what: format!("approvals, {name}: the last quarter, with ten old revisions, ms"),
        unit: "ms",
        samples: samples.iter().skip(samples.len() - part).copied().collect(),
        native: samples.iter().take(part).copied().collect(),
        target: None,
        more: json!({"native": "the operator's own first quarter, with none to five"}),
    }
}

pub struct Latency {
    /// From when the approval came in until the ReplicaSet's new size was stored, in ms.
    pub stored: f64,
    /// The same until the write of it came in.
    received: f64,
    timeline: Vec<Value>,
}

fn timeline_of(latencies: &[Latency], stored: f64) -> &[Value] {
    let found = latencies.iter().find(|latency| (latency.stored - stored).abs() < 1e-9);
    found.map_or(&[], |latency| &latency.timeline)
}

/// Rolls out stage by stage, each approved a while after it is held.
pub async fn approved(test: &Test, name: &str, pause: Duration) -> Vec<Latency> {
    let percents: Vec<i64> = (1..=STAGES).map(|stage| stage * 100 / STAGES).collect();
    test.manage_with(&deployment(name, STAGES), &grayrollout(name, &percents)).await;
    let mut latencies = Vec::new();
    for round in 1..=ROLLOUTS {
        println!("approvals, {name}: rollout {round} of {ROLLOUTS}");
        let mark = Mark::now(test);
        test.patch_deployment(name, &image(round)).await;
        for stage in 2..=STAGES {
            let rollout = awaiting(test, name, stage - 1).await;
            tokio::time::sleep(pause).await;
            let approval = json!({"status": {"approval": {"rollout": rollout, "stage": stage}}});
            let done = test.api.patch(&format!("{}/status", test.gr_path(name)), &approval).await;
            done.unwrap_or_else(|error| panic!("the approval is refused: {error}"));
        }
        test.completed(name).await;
        latencies.extend(latencies_in(&mark.requests(test), name));
    }
    latencies
}

/// Waits until a stage is held, and tells the rollout's number.
async fn awaiting(test: &Test, name: &str, stage: i64) -> i64 {
    test.until_within(&format!("stage {stage} is held"), PATIENCE, |now| {
        let status = now.gr(name).at("/status");
        status.text("/phase") == "AwaitingApproval" && status.int("/stage") == stage
    })
    .await;
    test.rollout(name)
}

/// What became of each approval of a Deployment whose ReplicaSets' names begin with `name`.
pub fn latencies_in(requests: &[Request], name: &str) -> Vec<Latency> {
    let approvals = requests.iter().filter(|request| {
        !request.ours
            && request.wrote()
            && request.resource == "grayrollouts/status"
            && request.name == name
    });
    approvals
        .filter_map(|approval| {
            let start = approval.received;
            let after = requests.iter().filter(|request| request.received >= start);
            let size = after.clone().find(|request| {
                request.ours
                    && request.wrote()
                    && request.resource == "replicasets"
                    && request.name.starts_with(name)
            })?;
            let until = size.answered;
            let timeline = after
                .filter(|request| request.received <= until && (request.ours || request.writes()))
                .map(|request| request.since(start))
                .collect();
            Some(Latency {
                stored: millis(start, size.answered),
                received: millis(start, size.received),
                timeline,
            })
        })
        .collect()
}

/// The native controller's answer to a new size of a Deployment that has no GrayRollout.
async fn scaled(test: &Test) -> Vec<f64> {
    let name = "scaled";
    test.create(&deployment(name, STAGES)).await;
    available(test, name, STAGES).await;
    let mark = Mark::now(test);
    let rounds = ROLLOUTS * (STAGES - 1);
    println!("native: {rounds} new sizes");
    for round in 0..rounds {
        let replicas = STAGES + 1 - round % 2;
        test.scale(name, replicas).await;
        available(test, name, replicas).await;
    }
    let requests = mark.requests(test);
    let starts = requests.iter().filter(|request| request.resource == "deployments/scale");
    starts.filter_map(|start| first_native(&requests, start.received)).collect()
}

async fn available(test: &Test, name: &str, replicas: i64) {
    test.until(&format!("{replicas} pods are available"), |now| {
        let status = now.deployment(name).at("/status");
        status.int("/availableReplicas") == replicas && status.int("/replicas") == replicas
    })
    .await;
}

fn first_native(requests: &[Request], start: Timestamp) -> Option<f64> {
    let mut after = requests.iter().filter(|request| request.received >= start);
    let size = after.find(|request| {
        request.native && request.wrote() && request.resource.starts_with("replicasets")
    })?;
    Some(millis(start, size.answered))
}

fn image(round: i64) -> Value {
    grayrollout_e2e::new_template(&format!("v{}", round + 1), json!({}))
}
