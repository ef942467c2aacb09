//! Two operators of which one leads, as config/default has them.

use std::collections::BTreeSet;

use grayrollout_e2e::{
    Json, Kind, Proxy, Test, grayrollout, pods_ready_after, run_without_operator,
};
use serde_json::Value;

fn pods(t: &Test) -> BTreeSet<String> {
    t.record.look(|now| {
        now.all(Kind::Pod)
            .filter(|pod| pod.at("/metadata/deletionTimestamp").is_null())
            .map(|pod| pod.text("/metadata/uid").to_owned())
            .collect()
    })
}

/// What a restarted stage would change.
fn progress(t: &Test) -> Vec<Value> {
    let status = t.status_now("web");
    ["rollout", "stage", "startedAt", "stageStartedAt", "stageReachedAt", "history"]
        .map(|field| status.at(&format!("/{field}")).clone())
        .to_vec()
}

async fn two(t: &Test, lease_seconds: u32) {
    let kubeconfig = &t.cluster.operator_kubeconfig;
    for _ in 0..2 {
        let identity = format!("pod-{:x}", rand());
        t.start_candidate(kubeconfig, &identity, lease_seconds).await;
    }
    t.a_leader(t.at_most(u64::from(lease_seconds) + 30)).await;
}

/// Different in every call.
fn rand() -> u128 {
    std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(0, |time| time.as_nanos())
}

/// Each pod of the operator is replaced while a stage is held: the next leads within a second, and
/// neither a pod is touched nor the stage begun anew.
#[test]
fn an_upgrade_touches_no_pod_and_restarts_no_stage() {
    run_without_operator(async |t: &Test| {
        let _lease = t.lease().await;
        two(t, 15).await;
        t.manage(4, &grayrollout("web", &[25, 100])).await;
        t.push("web", "v2").await;
        t.held("web", 1, 1, 3).await;
        let (before, held) = (pods(t), progress(t));
        for round in 0..2 {
            let identity = format!("upgraded-{round}-{:x}", rand());
            let kubeconfig = &t.cluster.operator_kubeconfig;
            t.start_candidate(kubeconfig, &identity, 15).await;
            let mut old = t.take_leader().await;
            old.signal("TERM");
            t.a_leader(t.at_most(1)).await;
            assert_eq!(old.exit_code(t.at_most(5)).await, Some(0));
            assert_eq!(pods(t), before, "no pod is touched");
            assert_eq!(progress(t), held, "no stage begins anew");
        }
        t.approve("web", 2).await;
        t.completed("web").await;
    });
}

/// Killed without warning in the midst of moving: the other leads once the lease has run out.
#[test]
fn a_killed_leader_is_replaced_within_the_lease_time() {
    run_without_operator(async |t: &Test| {
        let _lease = t.lease().await;
        two(t, 4).await;
        t.manage(10, &grayrollout("web", &[80, 100])).await;
        t.push_pods("web", "v2", pods_ready_after("300ms")).await;
        t.until("some are new", |now| now.split("web").new >= 2).await;
        drop(t.take_leader().await);
        // Some time of it had passed; a look takes half a second.
        t.a_leader(t.at_most(5)).await;
        t.held("web", 1, 8, 2).await;
    });
}

/// The container of the same pod starts again: it leads at once, however long the lease.
#[test]
fn a_restarted_container_leads_at_once() {
    run_without_operator(async |t: &Test| {
        let _lease = t.lease().await;
        let kubeconfig = &t.cluster.operator_kubeconfig;
        let identity = format!("pod-{:x}", rand());
        t.start_candidate(kubeconfig, &identity, 15).await;
        t.a_leader(t.at_most(45)).await;
        t.manage(4, &grayrollout("web", &[25, 100])).await;
        drop(t.take_leader().await);
        t.push("web", "v2").await;
        t.start_candidate(kubeconfig, &identity, 3600).await;
        t.a_leader(t.at_most(2)).await;
        t.held("web", 1, 1, 3).await;
        // Gives the lease back, or the next would wait an hour.
        t.stop_operator().await;
    });
}

/// Frozen in the midst of moving until another leads, then let go: it writes nothing any more, and
/// ends.
#[test]
fn a_frozen_leader_that_thaws_writes_nothing() {
    run_without_operator(async |t: &Test| {
        let _lease = t.lease().await;
        let proxy = Proxy::start(t).await;
        t.start_candidate(proxy.kubeconfig(), &format!("frozen-{:x}", rand()), 4).await;
        t.a_leader(t.at_most(45)).await;
        t.manage(10, &grayrollout("web", &[80, 100])).await;
        t.push_pods("web", "v2", pods_ready_after("300ms")).await;
        t.until("some are new", |now| now.split("web").new >= 2).await;
        let mut frozen = t.take_leader().await;
        frozen.signal("STOP");
        let kubeconfig = &t.cluster.operator_kubeconfig;
        t.start_candidate(kubeconfig, &format!("next-{:x}", rand()), 4).await;
        t.a_leader(t.at_most(6)).await;
        t.until("the other moves on", |now| now.split("web").new >= 4).await;
        let written = proxy.writes().len();
        frozen.signal("CONT");
        let code = frozen.exit_code(t.at_most(10)).await;
        assert_ne!(code, Some(0), "it says that it was replaced");
        let late: Vec<_> = proxy.writes().split_off(written);
        let touching = |path: &str| !path.contains("/leases/");
        let late: Vec<_> = late.iter().filter(|write| touching(&write.path)).collect();
        assert!(late.is_empty(), "{late:#?}");
        t.held("web", 1, 8, 2).await;
    });
}
