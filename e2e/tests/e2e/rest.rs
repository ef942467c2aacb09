//! Nothing rolls out.

use std::time::Duration;

use grayrollout_e2e::{
    Json, OPERATOR, Test, deployment, grayrollout, new_template, reason_of, run,
    run_without_operator, writer,
};
use serde_json::json;

/// Pods die after a rollout: Ready follows availability, by the Deployment's own maxUnavailable,
/// and no stage starts again.
#[test]
fn a2068_pods_die_after_completion() {
    run(async |t: &Test| {
        t.manage(10, &grayrollout("web", &[10, 100])).await;
        t.push("web", "v2").await;
        t.held("web", 1, 1, 9).await;
        t.approve("web", 2).await;
        t.completed("web").await;
        let rollout = t.rollout("web");
        let start = t.record.newest();
        let pods: Vec<String> = t.record.look(|now| {
            now.all(grayrollout_e2e::Kind::Pod)
                .filter(|pod| pod.at("/metadata/deletionTimestamp").is_null())
                .map(|pod| pod.text("/metadata/name").to_owned())
                .collect()
        });
        let ready = async |count: usize, ready: &str| {
            let mut args = vec!["annotate", "--overwrite", "pod"];
            args.extend(pods.iter().take(count).map(String::as_str));
            let annotation = format!("kwok.grayrollout.dev/ready={ready}");
            args.push(&annotation);
            t.kubectl(&args).await;
        };
        // 25% of 10 may be missing: 2.
        ready(2, "never").await;
        t.status("web", "8 are counted", |status| status.int("/update/available") == 8).await;
        assert_eq!(reason_of(&t.status_now("web"), "Ready"), "Completed");
        ready(3, "never").await;
        t.status("web", "too few", |status| reason_of(status, "Ready") == "PodsUnavailable").await;
        ready(3, "always").await;
        t.completed("web").await;
        assert_eq!(t.rollout("web"), rollout);
        let phases = t.since(start, |now| now.gr("web").text("/status/phase").to_owned());
        assert!(phases.iter().all(|phase| phase == "Completed"), "{phases:?}");
    });
}

/// At rest nothing is written, however often everything is looked at again: completed, held, paused
/// and rolled back.
#[test]
fn nothing_is_written_at_rest() {
    run_without_operator(async |t: &Test| {
        let kubeconfig = &t.cluster.operator_kubeconfig;
        t.start_operator_with(kubeconfig, &["--resync-seconds", "1"]).await;
        t.manage(4, &grayrollout("web", &[25, 50, 100])).await;
        quiet(t, "completed").await;
        t.push("web", "v2").await;
        t.held("web", 1, 1, 3).await;
        quiet(t, "held").await;
        t.patch_gr("web", &json!({"spec": {"paused": true}})).await;
        t.phase("web", "Paused").await;
        quiet(t, "paused").await;
        t.patch_gr("web", &json!({"spec": {"paused": false}})).await;
        t.held("web", 1, 1, 3).await;
        t.abort("web").await;
        t.rolled_back("web").await;
        quiet(t, "rolled back").await;
    });
}

async fn quiet(t: &Test, state: &str) {
    const LOOKS: &[&str] = &["grayrollout_reconcile_duration_seconds_count"];
    let newest = t.quiet("web").await;
    let looked = t.metric(LOOKS).await;
    let until = tokio::time::Instant::now() + Duration::from_secs(15);
    while t.metric(LOOKS).await < looked + 3.0 {
        assert!(tokio::time::Instant::now() < until, "{state}: not looked at again");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let history = t.record.history();
    let written: Vec<String> = history
        .iter()
        .filter(|stored| stored.version > newest)
        .filter(|stored| writer(None, &stored.object, &["nothing"]) == Some(OPERATOR))
        .map(|stored| format!("{:?} {}", stored.kind, stored.name()))
        .collect();
    assert!(written.is_empty(), "{state}: {written:?}");
}

/// Scaled in the middle, completed, given back: the native controller is not wedged by what was
/// left on the ReplicaSets.
#[test]
fn n138036_never_wedged_after_the_hand_over() {
    run(async |t: &Test| {
        t.manage(6, &grayrollout("web", &[50, 100])).await;
        t.push("web", "v2").await;
        t.held("web", 1, 3, 3).await;
        t.scale("web", 7).await;
        t.held("web", 1, 4, 3).await;
        t.approve("web", 2).await;
        t.scale("web", 5).await;
        t.completed("web").await;
        t.kubectl(&["delete", "gr", "web"]).await;
        t.until("it is released", |now| !now.deployment("web").flag("/spec/paused")).await;
        for version in ["v3", "v4"] {
            t.patch_deployment("web", &new_template(version, json!({}))).await;
            t.kubectl(&["rollout", "status", "deployment/web", "--timeout=20s"]).await;
            t.until("all are new", |now| now.split("web").new == 5 && now.split("web").old == 0)
                .await;
        }
    });
}

/// A bare restart of the pods, as `kubectl rollout restart` asks for it, of one replica: the new
/// pod is there before the old one goes.
#[test]
fn a1583_restart_of_one_replica() {
    run(async |t: &Test| {
        t.manage(1, &grayrollout("web", &[100])).await;
        let start = t.record.newest();
        // With the hold Paused kubectl itself refuses to restart; this is what it would write.
        let restarted = json!({"kubectl.kubernetes.io/restartedAt": "2026-01-01T00:00:00Z"});
        let template = json!({"metadata": {"annotations": restarted}});
        t.patch_deployment("web", &json!({"spec": {"template": template}})).await;
        t.status("web", "it starts", |status| status.text("/phase") != "Completed").await;
        t.completed("web").await;
        let available = t.least_since(start, |now| {
            now.replica_sets(now.deployment("web"))
                .iter()
                .map(|set| set.int("/status/availableReplicas").min(set.int("/spec/replicas")))
                .sum()
        });
        assert!(available >= 1, "there was a moment without a pod");
    });
}

/// A Deployment at rest that is scaled, also to 0, needs nothing of the operator.
#[test]
fn scaled_at_rest() {
    run(async |t: &Test| {
        t.manage_with(&deployment("web", 3), &grayrollout("web", &[50, 100])).await;
        for replicas in [5, 0, 2] {
            t.scale("web", replicas).await;
            t.until("all pods follow", |now| {
                now.split("web").new == replicas && now.settled("web")
            })
            .await;
        }
        t.completed("web").await;
        assert!(t.status_now("web").list("/history").is_empty(), "nothing rolled out");
    });
}
