//! The operator is killed at each write of a four-stage rollout, one at a time: before the write
//! is sent, once it is committed but not answered, and right after the answer. The end, and which
//! ReplicaSets come and go, are the same as without a crash.

use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicUsize, Ordering},
};

use grayrollout_e2e::{
    Faults, Json, Kind, Proxy, Test, deployment, grayrollout, run_without_operator, stages,
};
use serde_json::{Value, json};

/// Writes that a rollout takes at least, so that a run without kills is noticed.
const AT_LEAST: usize = 12;
/// A bound on the rollouts of one test.
const AT_MOST: usize = 60;

/// What a rollout left, and which ReplicaSets came and went meanwhile.
#[derive(Debug, PartialEq)]
struct Outcome {
    created: usize,
    deleted: usize,
    end: Value,
}

/// The Deployment, its active ReplicaSets and the status, without what counts rollouts.
fn end(t: &Test) -> Value {
    let deployment = t.deployment_now("web");
    let mut spec = deployment.at("/spec").clone();
    spec.as_object_mut().unwrap().remove("template");
    let annotations = deployment.at("/metadata/annotations");
    let original: Value =
        serde_json::from_str(annotations.text("/grayrollout.dev~1original")).unwrap_or_default();
    let names: Vec<_> = annotations.as_object().unwrap().keys().cloned().collect();
    let sets = t.record.look(|now| {
        let active = now.all(Kind::ReplicaSet).filter(|set| set.int("/spec/replicas") > 0);
        active
            .map(|set| {
                let at = |name: &str| {
                    set.at("/metadata/annotations").get(name).cloned().unwrap_or_default()
                };
                let sizes = ["desired-replicas", "max-replicas"];
                let sizes = sizes.map(|name| at(&format!("deployment.kubernetes.io/{name}")));
                json!({"replicas": set.int("/spec/replicas"), "sizes": sizes})
            })
            .collect::<Vec<_>>()
    });
    let status = t.status_now("web");
    let conditions: Vec<_> = status
        .list("/conditions")
        .iter()
        .map(|is| json!([is.text("/type"), is.text("/status"), is.text("/reason")]))
        .collect();
    json!({
        "spec": spec, "annotations": names, "replicaSets": sets, "conditions": conditions,
        "original": [original.at("/paused"), original.at("/strategy"), original.at("/onDelete")],
        "phase": status.at("/phase"), "stage": status.at("/stage"), "hold": status.at("/hold"),
        "result": status.at("/history/0/result"),
        "one": status.int("/history/0/rollout") - status.int("/history/1/rollout") <= 1,
    })
}

/// One rollout from the push to Completed. `moment` is awaited beside it: it ends with the
/// operator killed, or never; what it tells is passed on.
async fn rollout<T>(t: &Test, version: usize, moment: impl Future<Output = T>) -> (Outcome, T) {
    let before = t.record.newest();
    let number = t.rollout("web") + 1;
    t.push("web", &format!("v{version}")).await;
    let done = t.until("the rollout is completed", |now| {
        let status = now.gr("web").at("/status");
        let settled = now.deployment("web").int("/status/observedGeneration")
            >= now.deployment("web").int("/metadata/generation");
        status.text("/phase") == "Completed" && status.int("/rollout") == number && settled
    });
    // Completed is the last write of a status; an event may come after it.
    let quiet = async {
        done.await;
        t.record.catch_up().await.expect("the record catches up");
    };
    let ((), told) = tokio::join!(quiet, moment);
    let stored = t.record.history();
    let sets = stored.iter().filter(|stored| stored.kind == Kind::ReplicaSet);
    let uid = |object: &Value| object.text("/metadata/uid").to_owned();
    let old: BTreeSet<_> =
        sets.clone().filter(|set| set.version <= before).map(|set| uid(&set.object)).collect();
    let since = sets.filter(|set| set.version > before);
    let created: BTreeSet<_> =
        since.clone().map(|set| uid(&set.object)).filter(|uid| !old.contains(uid)).collect();
    let deleted = since.filter(|set| set.deleted).count();
    (Outcome { created: created.len(), deleted, end: end(t) }, told)
}

/// Kills at the first write, then at the second, and so on, until a rollout ends before it comes
/// to so many.
async fn kill_at_each_write(t: &Test, at: Faults) {
    let proxy = Proxy::start(t).await;
    t.start_operator_with(proxy.kubeconfig(), &[]).await;
    let stages = stages(&[25, 50, 75, 100], &json!({"approval": "Automatic"}));
    let gr = grayrollout("web", &[100]).with(json!({"spec": {"stages": stages}}));
    let web = deployment("web", 4).with(json!({"spec": {"revisionHistoryLimit": 2 * AT_MOST}}));
    t.manage_with(&web, &gr).await;
    // The first rollout makes the history that the others are compared with.
    rollout(t, 2, async {}).await;
    let (clean, ()) = rollout(t, 3, async {}).await;
    assert_eq!((clean.created, clean.deleted), (1, 0), "a rollout without a crash");

    let mut kills = 0;
    for nth in 1..AT_MOST {
        let writes = AtomicUsize::new(0);
        proxy.rule(move |method, _| {
            if method == "GET" {
                // A killed operator reads nothing more.
                let dead = writes.load(Ordering::SeqCst) >= nth;
                return if dead && at == Faults::Tell { Faults::Hold } else { Faults::None };
            }
            match (writes.fetch_add(1, Ordering::SeqCst) + 1).cmp(&nth) {
                std::cmp::Ordering::Less => Faults::None,
                std::cmp::Ordering::Equal => at,
                std::cmp::Ordering::Greater => Faults::Hold,
            }
        });
        let moment = async {
            // A rollout that needs fewer writes is not interrupted.
            let interrupted = tokio::select! {
                () = proxy.held() => true,
                _ = t.record.until(t.at_most(60), |now| is_completed(now, nth + 2)) => false,
            };
            if interrupted {
                t.kill_operator().await;
            }
            proxy.heal();
            if interrupted {
                t.start_operator_with(proxy.kubeconfig(), &[]).await;
            }
            interrupted
        };
        let (outcome, killed) = rollout(t, nth + 3, moment).await;
        assert_eq!(outcome, clean, "killed at write {nth}: {at:?}");
        if !killed {
            break;
        }
        kills += 1;
    }
    assert!(kills >= AT_LEAST, "{kills} writes were interrupted");
}

/// Whether so many rollouts are completed.
fn is_completed(now: &grayrollout_e2e::Snapshot, number: usize) -> bool {
    let status = now.gr("web").at("/status");
    let number = i64::try_from(number).unwrap_or(i64::MAX);
    status.text("/phase") == "Completed" && status.int("/rollout") >= number
}

/// As it goes out, before the API server has it.
#[test]
fn before_it_is_sent() {
    run_without_operator(async |t: &Test| kill_at_each_write(t, Faults::Hold).await);
}

/// Stored, and the operator never learns so.
#[test]
fn committed_but_not_answered() {
    run_without_operator(async |t: &Test| kill_at_each_write(t, Faults::HoldAnswer).await);
}

/// Stored and told, and nothing else is done.
#[test]
fn after_the_answer() {
    run_without_operator(async |t: &Test| kill_at_each_write(t, Faults::Tell).await);
}
