//! Operators that die, hang, are replaced, or are two.

use std::{collections::BTreeSet, time::Duration};

use grayrollout_e2e::{
    Json, Kind, Test, grayrollout, pods_ready_after, run, run_without_operator, stages,
};
use serde_json::{Value, json};

fn automatic() -> Value {
    let stages = stages(&[10, 30, 60, 100], &json!({"approval": "Automatic"}));
    grayrollout("web", &[100]).with(json!({"spec": {"stages": stages, "maxSurge": 2}}))
}

/// Kills the operator at ever other moments while something goes on, until `done`.
async fn keep_killing(t: &Test, times: u32, done: impl Fn(&grayrollout_e2e::Snapshot) -> bool) {
    for round in 0..times {
        if t.record.look(&done) {
            return;
        }
        // From right after the start to well into a stage, and never the same twice.
        let moment = Duration::from_millis(u64::from(round * 37 % 11) * 60);
        let _ = t.record.until(moment, &done).await;
        t.kill_operator().await;
        t.start_operator().await;
    }
}

/// Killed again and again at all kinds of moments, a rollout completes with no human act.
#[test]
fn killed_at_random_while_rolling_out() {
    run(async |t: &Test| {
        t.manage(10, &automatic()).await;
        t.push_pods("web", "v2", pods_ready_after("300ms")).await;
        keep_killing(t, 12, |now| {
            now.gr("web").text("/status/phase") == "Completed" && now.split("web").old == 0
        })
        .await;
        t.completed("web").await;
        let history = t.status_now("web").list("/history").len();
        assert_eq!(history, 1, "it was one rollout all the time");
    });
}

/// The same on the way back.
#[test]
fn killed_at_random_while_rolling_back() {
    run(async |t: &Test| {
        t.manage(10, &grayrollout("web", &[60, 100])).await;
        t.push_pods("web", "v2", pods_ready_after("200ms")).await;
        t.until("half is new", |now| now.split("web").new >= 5).await;
        t.abort("web").await;
        keep_killing(t, 6, |now| now.gr("web").text("/status/phase") == "RolledBack").await;
        t.rolled_back("web").await;
        assert_eq!(t.status_now("web").text("/history/0/result"), "Aborted");
    });
}

/// Stopped as Kubernetes stops it in the midst of moving, it ends well and in time, and the next
/// one goes on.
#[test]
fn stopped_while_moving() {
    run(async |t: &Test| {
        t.manage(10, &automatic()).await;
        t.push_pods("web", "v2", pods_ready_after("300ms")).await;
        t.until("some are new", |now| now.split("web").new >= 2).await;
        t.stop_operator().await;
        t.start_operator().await;
        t.completed("web").await;
    });
}

/// Frozen in the midst of moving while another takes over, then let go: what it still believes
/// does no harm, and neither do two that both think they are the only one.
#[test]
fn frozen_and_replaced() {
    run(async |t: &Test| {
        t.manage(10, &automatic()).await;
        t.push_pods("web", "v2", pods_ready_after("300ms")).await;
        t.until("some are new", |now| now.split("web").new >= 2).await;
        t.freeze_operator().await;
        t.start_operator().await;
        t.until("the other moves on", |now| now.split("web").new >= 6).await;
        t.thaw_operator().await;
        t.completed("web").await;
    });
}

/// Two operators at once from the beginning, a rollout, an abort and a supersede.
#[test]
fn two_operators_at_once() {
    run_without_operator(async |t: &Test| {
        t.start_operator().await;
        t.start_operator().await;
        t.manage(6, &grayrollout("web", &[50, 100])).await;
        t.push_pods("web", "v2", pods_ready_after("200ms")).await;
        t.held("web", 1, 3, 3).await;
        t.abort("web").await;
        t.rolled_back("web").await;
        t.push("web", "v3").await;
        t.held("web", 1, 3, 3).await;
        t.push("web", "v4").await;
        t.status("web", "v4 is the update", |status| status.int("/rollout") == 3).await;
        t.held("web", 1, 3, 3).await;
        t.approve("web", 2).await;
        t.completed("web").await;
    });
}

/// UIDs of all pods and ReplicaSets that are to stay.
fn alive(t: &Test) -> BTreeSet<String> {
    t.record.look(|now| {
        now.all(Kind::Pod)
            .chain(now.all(Kind::ReplicaSet))
            .filter(|object| object.at("/metadata/deletionTimestamp").is_null())
            .map(|object| object.text("/metadata/uid").to_owned())
            .collect()
    })
}

/// Another version of the operator starts: no new revision, no pod touched, held or at rest.
#[test]
fn a4696_restarted_operator_touches_nothing() {
    run(async |t: &Test| {
        let kubeconfig = &t.cluster.operator_kubeconfig;
        t.manage(4, &grayrollout("web", &[25, 100])).await;
        for held in [false, true] {
            if held {
                t.push("web", "v2").await;
                t.held("web", 1, 1, 3).await;
            }
            let (before, status) = (alive(t), t.status_now("web"));
            t.stop_operator().await;
            t.start_operator_with(kubeconfig, &["--concurrency", "2"]).await;
            t.always("nothing changes", Duration::from_secs(2), |now| {
                let is = now.gr("web").at("/status");
                ["/phase", "/stage", "/rollout", "/updateRevision"]
                    .iter()
                    .all(|field| is.at(field) == status.at(field))
            })
            .await;
            assert_eq!(alive(t), before);
        }
        t.approve("web", 2).await;
        t.completed("web").await;
    });
}
