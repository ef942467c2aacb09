//! Many rollouts at once.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use futures::{StreamExt, TryStreamExt, stream::FuturesUnordered};
use grayrollout_e2e::{Json, Test, path_of};
use kube::core::WatchEvent;
use serde_json::Value;

use crate::{
    approvals::latencies_in,
    audit::Mark,
    figures::{Figure, Target, percentile},
    machine::native,
    population::{Population, name_of, number_of, until},
    report::Report,
};

const CROWDS: [usize; 2] = [100, 500];
const REPLICAS: i64 = 4;
const STAGES: [i64; 4] = [25, 50, 75, 100];
const GRAY: &str = "grayrollout.dev/v1alpha1";
/// A crowd that stands still for so long fails.
const PATIENCE: Duration = Duration::from_mins(2);

/// Measures rollouts in four stages, each approved as soon as it is held, beside native ones.
pub async fn measure(test: &Test, report: &mut Report) {
    for crowd in CROWDS {
        println!("{crowd} rollouts at once");
        report.add(at_once(test, crowd).await);
    }
}

/// From the first patch, in s.
struct Took {
    each: Vec<f64>,
    cpu_seconds: f64,
}

async fn at_once(test: &Test, crowd: usize) -> Vec<Figure> {
    let people = Population::new(test, "bench-crowd", REPLICAS).await;
    people.deploy(0..crowd).await;
    let pods = crowd * usize::try_from(REPLICAS).unwrap_or(0);
    people.counted("v1", "pods", pods).await;
    let native_before = native(test);
    let natively = roll(&people, crowd, "v2", "apps/v1", "deployments", is_out).await;
    let cpu_seconds = native(test).cpu_seconds - native_before.cpu_seconds;
    let natively = Took { each: natively, cpu_seconds };

    let operator = people.operator().await;
    people.manage(0..crowd, &STAGES).await;
    people.completed(&operator, crowd).await;
    until("the status of each is told", async || {
        people.get(GRAY, "grayrollouts", crowd - 1).await.text("/status/phase") == "Completed"
    })
    .await;
    let (before, mark) = (operator.usage(), Mark::now(test));
    let each = roll(&people, crowd, "v3", GRAY, "grayrollouts", is_completed).await;
    let after = operator.usage();
    let ours = Took { each, cpu_seconds: after.cpu_seconds - before.cpu_seconds };
    let requests = mark.requests_in(test, &people.namespace);
    let approvals = (0..crowd).flat_map(|number| latencies_in(&requests, &name_of(number)));
    let approvals = approvals.map(|latency| latency.stored).collect();
    people.api.delete(&format!("/api/v1/namespaces/{}", people.namespace)).await.expect("it ends");
    figures(crowd, &ours, &natively, approvals, after.peak_mib)
}

fn figures(
    crowd: usize,
    ours: &Took,
    native: &Took,
    approvals: Vec<f64>,
    peak_mib: f64,
) -> Vec<Figure> {
    let is_hundred = crowd == 100;
    let target = |most| is_hundred.then_some(Target::Most(most));
    let figure = |what: &str, unit, samples, native, target| Figure {
        what: format!("{crowd} rollouts at once: {what}, {unit}"),
        unit,
        samples,
        native,
        target,
        more: Value::Null,
    };
    let wall = |took: &Took| vec![percentile(&took.each, 100)];
    let unfair = |took: &Took| vec![percentile(&took.each, 100) / percentile(&took.each, 50)];
    vec![
        figure("all complete", "s", wall(ours), wall(native), target(12.0)),
        figure("each", "s", ours.each.clone(), native.each.clone(), None),
        figure("slowest / median", "times", unfair(ours), unfair(native), None),
        figure("approved -> first ReplicaSet write", "ms", approvals, Vec::new(), None),
        figure("CPU", "s", vec![ours.cpu_seconds], vec![native.cpu_seconds], target(2.0)),
        figure("most memory", "MiB", vec![peak_mib], Vec::new(), target(25.0)),
    ]
}

/// Sets a template everywhere, approves whatever waits, and tells when each was out.
async fn roll(
    people: &Population<'_>,
    crowd: usize,
    version: &str,
    api_version: &str,
    plural: &str,
    is_out: fn(&Value, &str) -> bool,
) -> Vec<f64> {
    let path = path_of(api_version, &people.namespace, plural);
    let list = people.api.get(&(path.clone() + "?limit=1")).await.expect("a list");
    let from = list.text("/metadata/resourceVersion").to_owned();
    let uri = format!("{path}?watch=1&timeoutSeconds=3600&resourceVersion={from}");
    let request = http::Request::get(uri).body(Vec::new()).expect("a request");
    let events = people.api.client().request_events::<Value>(request).await.expect("a watch");
    let mut events = std::pin::pin!(events);
    let start = Instant::now();
    let push = async { people.push(0..crowd, version).await };
    let follow = async {
        let (mut out, mut approved) = (BTreeMap::new(), BTreeMap::new());
        let mut approvals = FuturesUnordered::new();
        while out.len() < crowd {
            let event = tokio::select! {
                event = tokio::time::timeout(PATIENCE, events.try_next()) => event,
                Some(()) = approvals.next() => continue,
            };
            let event = event.expect("something goes on").expect("the watch holds");
            let Some(WatchEvent::Added(object) | WatchEvent::Modified(object)) = event else {
                continue;
            };
            let name = object.text("/metadata/name").to_owned();
            if is_out(&object, version) {
                out.entry(name).or_insert_with(|| start.elapsed().as_secs_f64());
            } else if object.text("/status/phase") == "AwaitingApproval" {
                let (rollout, stage) = (object.int("/status/rollout"), object.int("/status/stage"));
                if approved.insert(name.clone(), stage) != Some(stage) {
                    let number = number_of(&name);
                    approvals.push(people.approve(number, rollout, stage + 1));
                }
            }
        }
        out.into_values().collect()
    };
    let ((), out) = tokio::join!(push, follow);
    out
}

/// A Deployment of which `kubectl rollout status` would say that it is out.
fn is_out(deployment: &Value, version: &str) -> bool {
    let status = deployment.at("/status");
    let counts = ["/updatedReplicas", "/replicas", "/availableReplicas"];
    deployment.text("/spec/template/spec/containers/0/image") == format!("app:{version}")
        && status.int("/observedGeneration") >= deployment.int("/metadata/generation")
        && counts.iter().all(|count| status.int(count) == REPLICAS)
}

/// A GrayRollout whose first rollout is complete.
fn is_completed(gray: &Value, _version: &str) -> bool {
    gray.text("/status/phase") == "Completed" && gray.int("/status/rollout") == 1
}
