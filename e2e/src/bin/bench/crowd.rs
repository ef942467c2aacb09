//! Many rollouts at once.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use futures::{
    StreamExt, TryStreamExt,
    stream::{BoxStream, FuturesUnordered},
};
use grayrollout_e2e::{Json, Test};
use kube::core::WatchEvent;
use serde_json::{Value, json};

use crate::{
    approvals::latencies_in,
    audit::{self, Mark, Request},
    figures::{Figure, Target, percentile},
    machine::native,
    population::{Population, name_of, number_of, until},
    report::Report,
};

/// How many, and how many of them share a namespace; 0 is all.
const CROWDS: [(usize, usize); 4] = [(20, 10), (100, 10), (100, 0), (500, 10)];
const REPLICAS: i64 = 4;
const STAGES: [i64; 4] = [25, 50, 75, 100];
/// Of the approvals that are given the instant a pause shows, in so many rollouts at once.
const IMPATIENT: usize = 100;
/// 19 approvals in each rollout, so 11,400 in all.
const ROUNDS: usize = 6;
const GRAY: &str = "grayrollout.dev/v1alpha1";
/// A crowd that stands still for so long fails.
const PATIENCE: Duration = Duration::from_mins(2);

/// Measures rollouts in four stages, each approved as soon as it is held, beside native ones.
pub async fn measure(test: &Test, report: &mut Report) {
    for (crowd, per_namespace) in CROWDS {
        let spread = match per_namespace {
            0 => "in one namespace".to_owned(),
            some => format!("{some} to a namespace"),
        };
        let words = format!("{crowd} rollouts at once, {spread}");
        println!("{words}");
        report.add(at_once(test, crowd, per_namespace, &words).await);
    }
}

/// Counts what becomes of approvals that are given the instant a pause shows.
pub async fn impatient(test: &Test, report: &mut Report) {
    let stages: Vec<i64> = (1..=20).map(|stage| stage * 5).collect();
    let people = Population::new(test, "bench-lost", REPLICAS).await.spread(10, REPLICAS);
    people.deploy(0..IMPATIENT).await;
    let operator = people.operator().await;
    people.manage(0..IMPATIENT, &stages).await;
    people.completed(&operator, IMPATIENT).await;
    let (mut approved, mut lost) = (0, Vec::new());
    for round in 1..=ROUNDS {
        println!("approvals given at once: round {round} of {ROUNDS}, {approved} so far");
        let rollout = i64::try_from(round).unwrap_or(i64::MAX);
        let version = format!("v{}", round + 1);
        let out = |gray: &Value| is_completed(gray, rollout);
        let rolled = roll(&people, IMPATIENT, &version, (GRAY, "grayrollouts"), out).await;
        approved += rolled.approvals;
        // One that were lost would leave its rollout waiting, which ends the round in failure.
        let entered = rolled.each.len() * (stages.len() - 1);
        let count = |count: usize| f64::from(u32::try_from(count).unwrap_or(u32::MAX));
        lost.push(count(rolled.approvals) - count(entered));
    }
    people.delete(IMPATIENT).await;
    report.add([Figure {
        what: format!("{approved} approvals given the instant the pause shows: lost in a round"),
        unit: "approvals",
        samples: lost,
        native: Vec::new(),
        target: Some(Target::Most(0.0)),
        more: json!({"approvals": approved}),
    }]);
}

/// What came of a crowd.
struct Rolled {
    /// From the first patch until each was out, in s.
    each: Vec<f64>,
    approvals: usize,
}

/// The time of each, in s, and the CPU time of all.
struct Took {
    each: Vec<f64>,
    cpu_seconds: f64,
}

async fn at_once(test: &Test, crowd: usize, per_namespace: usize, words: &str) -> Vec<Figure> {
    let people = Population::new(test, "bench-crowd", REPLICAS).await;
    let people = people.spread(per_namespace, REPLICAS);
    let pods_before = people.count("v1", "pods").await;
    people.deploy(0..crowd).await;
    let pods = crowd * usize::try_from(REPLICAS).unwrap_or(0);
    people.counted("v1", "pods", pods_before + pods).await;
    let native_before = native(test);
    let out = |deployment: &Value| is_out(deployment, "v2");
    let natively = roll(&people, crowd, "v2", ("apps/v1", "deployments"), out).await;
    let cpu_seconds = native(test).cpu_seconds - native_before.cpu_seconds;
    let natively = Took { each: natively.each, cpu_seconds };

    let operator = people.operator().await;
    people.manage(0..crowd, &STAGES).await;
    people.completed(&operator, crowd).await;
    until("the status of each is told", async || {
        people.get(GRAY, "grayrollouts", crowd - 1).await.text("/status/phase") == "Completed"
    })
    .await;
    let (before, mark) = (operator.usage(), Mark::now(test));
    let out = |gray: &Value| is_completed(gray, 1);
    let rolled = roll(&people, crowd, "v3", (GRAY, "grayrollouts"), out).await;
    let after = operator.usage();
    let cpu_seconds = after.cpu_seconds - before.cpu_seconds;
    let ours = Took { each: rolled.each, cpu_seconds };
    let requests = mark.requests_in(test, &people.namespace);
    let writes = |of: fn(&Request) -> bool| {
        audit::count(requests.iter().filter(|request| of(request) && request.writes()))
    };
    let writes = json!({"ours": writes(|it| it.ours), "nativeBesideIt": writes(|it| it.native)});
    let approvals = (0..crowd).flat_map(|number| latencies_in(&requests, &name_of(number)));
    let approvals = approvals.map(|latency| latency.stored).collect();
    people.delete(crowd).await;
    let mut figures = figures(crowd, words, &ours, &natively, approvals, after.peak_mib);
    if let Some(wall) = figures.first_mut() {
        wall.more = writes;
    }
    figures
}

fn figures(
    crowd: usize,
    words: &str,
    ours: &Took,
    native: &Took,
    approvals: Vec<f64>,
    peak_mib: f64,
) -> Vec<Figure> {
    let target = |of: usize, target| (crowd == of).then_some(target);
    let most = |limit| target(100, Target::Most(limit));
    let figure = |what: &str, unit, samples, native, target| Figure {
        what: format!("{words}: {what}, {unit}"),
        unit,
        samples,
        native,
        target,
        more: Value::Null,
    };
    let wall = |took: &Took| vec![percentile(&took.each, 100)];
    let unfair = |took: &Took| vec![percentile(&took.each, 100) / percentile(&took.each, 50)];
    let (our_cpu, native_cpu) = (vec![ours.cpu_seconds], vec![native.cpu_seconds]);
    let first_write = target(20, Target::Median(150.0));
    vec![
        figure("all complete", "s", wall(ours), wall(native), most(12.0)),
        figure("each", "s", ours.each.clone(), native.each.clone(), None),
        figure("slowest / median", "times", unfair(ours), unfair(native), None),
        figure("approved -> first ReplicaSet write", "ms", approvals, Vec::new(), first_write),
        figure("CPU", "s", our_cpu, native_cpu, most(2.0)),
        figure("most memory", "MiB", vec![peak_mib], Vec::new(), most(25.0)),
    ]
}

/// Sets a template everywhere, approves whatever waits, and tells when each was out.
async fn roll(
    people: &Population<'_>,
    crowd: usize,
    version: &str,
    (api_version, plural): (&str, &str),
    is_out: impl Fn(&Value) -> bool,
) -> Rolled {
    let path = people.list_path(api_version, plural);
    let list = people.api.get(&(path.clone() + "?limit=1")).await.expect("a list");
    let mut from = list.text("/metadata/resourceVersion").to_owned();
    let mut events = watch(people, &path, &from).await;
    let start = Instant::now();
    let push = async { people.push(0..crowd, version).await };
    let follow = async {
        let (mut out, mut approved) = (BTreeMap::new(), BTreeMap::new());
        let (mut approvals, mut given) = (FuturesUnordered::new(), 0);
        while out.len() < crowd {
            let event = tokio::select! {
                event = tokio::time::timeout(PATIENCE, events.try_next()) => event,
                Some(()) = approvals.next() => continue,
            };
            let object = match event.expect("something goes on").expect("the watch holds") {
                Some(WatchEvent::Added(object) | WatchEvent::Modified(object)) => object,
                Some(WatchEvent::Error(why)) => panic!("the watch is refused: {why}"),
                Some(_) => continue,
                // The API server ends one that does not keep up.
                None => {
                    events = watch(people, &path, &from).await;
                    continue;
                }
            };
            object.text("/metadata/resourceVersion").clone_into(&mut from);
            if !object.text("/metadata/namespace").starts_with(&people.namespace) {
                continue;
            }
            let name = object.text("/metadata/name").to_owned();
            if is_out(&object) {
                out.entry(name).or_insert_with(|| start.elapsed().as_secs_f64());
            } else if object.text("/status/phase") == "AwaitingApproval" {
                let (rollout, stage) = (object.int("/status/rollout"), object.int("/status/stage"));
                if approved.insert(name.clone(), stage) != Some(stage) {
                    let number = number_of(&name);
                    given += 1;
                    approvals.push(people.approve(number, rollout, stage + 1));
                }
            }
        }
        Rolled { each: out.into_values().collect(), approvals: given }
    };
    let ((), rolled) = tokio::join!(push, follow);
    rolled
}

/// What changes after a resourceVersion.
async fn watch(
    people: &Population<'_>,
    path: &str,
    from: &str,
) -> BoxStream<'static, kube::Result<WatchEvent<Value>>> {
    let uri = format!("{path}?watch=1&timeoutSeconds=3600&resourceVersion={from}");
    let request = http::Request::get(uri).body(Vec::new()).expect("a request");
    let client = people.api.client();
    client.request_events::<Value>(request).await.expect("a watch").boxed()
}

/// A Deployment of which `kubectl rollout status` would say that it is out.
fn is_out(deployment: &Value, version: &str) -> bool {
    let status = deployment.at("/status");
    let counts = ["/updatedReplicas", "/replicas", "/availableReplicas"];
    deployment.text("/spec/template/spec/containers/0/image") == format!("app:{version}")
        && status.int("/observedGeneration") >= deployment.int("/metadata/generation")
        && counts.iter().all(|count| status.int(count) == REPLICAS)
}

/// A GrayRollout that has completed this rollout.
fn is_completed(gray: &Value, rollout: i64) -> bool {
    gray.text("/status/phase") == "Completed" && gray.int("/status/rollout") == rollout
}
