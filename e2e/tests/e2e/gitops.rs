//! Writers that want the Deployment as their manifest has it, at any moment.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use grayrollout_e2e::{
    Json, Test, deployment, grayrollout, new_template, pods_ready_after, run, stages,
};
use serde_json::{Value, json};

const EVERY: Duration = Duration::from_millis(200);

fn automatic(percents: &[i64]) -> Value {
    let stages = stages(percents, &json!({"approval": "Automatic"}));
    grayrollout("web", &[100]).with(json!({"spec": {"stages": stages}}))
}

/// The manifest with everything in it that the operator holds: strategy, paused and replicas.
fn manifest(version: &str) -> Value {
    let strategy = json!({"type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}});
    deployment("web", 6)
        .with(json!({"spec": {"paused": false, "strategy": strategy}}))
        .with(new_template(version, pods_ready_after("200ms")))
}

/// Applied with force five times a second through a whole rollout, which completes, and an abort,
/// which is done once it stops: each time the native controller begins to roll out what the
/// manifest unpauses. What is put back is told.
#[test]
fn a_manifest_applied_five_times_a_second() {
    run(async |t: &Test| {
        t.manage_with(&manifest("v1"), &grayrollout("web", &[50, 100])).await;
        let version = Arc::new(AtomicU32::new(2));
        let (api, path, latest) = (t.api.clone(), t.deployment_path("web"), Arc::clone(&version));
        let gitops = tokio::spawn(async move {
            let mut beat = tokio::time::interval(EVERY);
            loop {
                beat.tick().await;
                let manifest = manifest(&format!("v{}", latest.load(Ordering::SeqCst)));
                api.apply(&path, "gitops", &manifest).await.expect("it is applied");
            }
        });
        let held = |number: i64| {
            move |status: &Value| {
                status.text("/phase") == "AwaitingApproval" && status.int("/rollout") == number
            }
        };
        t.status("web", "v2 is held", held(1)).await;
        t.event("web", "DriftCorrected").await;
        assert!(t.metric(&["grayrollout_drift_corrections_total{"]).await >= 1.0);
        t.approve("web", 2).await;
        t.phase("web", "Completed").await;
        version.store(3, Ordering::SeqCst);
        t.status("web", "v3 is held", held(2)).await;
        t.abort("web").await;
        t.phase("web", "RollingBack").await;
        t.always("it does not give up", Duration::from_secs(2), |now| {
            matches!(now.gr("web").text("/status/phase"), "RollingBack" | "RolledBack")
        })
        .await;
        gitops.abort();
        t.rolled_back("web").await;
    });
}

/// `kubectl rollout resume` at ever later moments of a rollout: each completes, and what was
/// undone is put right.
#[test]
fn resumed_at_every_moment() {
    run(async |t: &Test| {
        t.manage(5, &automatic(&[20, 60, 100])).await;
        for round in 0..16_u32 {
            let version = format!("v{}", round + 2);
            t.push_pods("web", &version, pods_ready_after("100ms")).await;
            let number = i64::from(round) + 1;
            let over = t.record.until(EVERY / 2 * round, |now| {
                let status = now.gr("web").at("/status");
                status.text("/phase") == "Completed" && status.int("/rollout") == number
            });
            let over = over.await.is_ok();
            t.patch_deployment("web", &json!({"spec": {"paused": false}})).await;
            t.status("web", "it completes", |status| {
                status.text("/phase") == "Completed" && status.int("/rollout") == number
            })
            .await;
            t.completed("web").await;
            if over {
                break;
            }
        }
    });
}
