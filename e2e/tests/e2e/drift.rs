//! Others who change what a rollout holds.

use std::{collections::BTreeSet, time::Duration};

use grayrollout_e2e::{
    Json, Kind, Split, Test, deployment, grayrollout, path_of, pods_ready_after, run,
};
use serde_json::{Value, json};

fn file(t: &Test, name: &str, object: &Value) -> String {
    let path = t.cluster.dir.join(format!("{}-{name}.json", t.namespace));
    std::fs::write(&path, object.to_string()).unwrap();
    path.to_str().unwrap().to_owned()
}

fn image(version: &str) -> Value {
    let containers = json!([{"name": "app", "image": format!("app:{version}")}]);
    json!({"spec": {"template": {"spec": {"containers": containers}}}})
}

/// The manifest in Git says paused: false and RollingUpdate, and is applied again at 50%: held
/// again at once, and the share is never above the stage for longer than that takes.
#[test]
fn a4288_the_manifest_applied_at_half() {
    run(async |t: &Test| {
        t.manage(10, &grayrollout("web", &[50, 100])).await;
        t.push("web", "v2").await;
        t.held("web", 1, 5, 5).await;
        let start = t.record.newest();
        let strategy = json!({"type": "RollingUpdate",
            "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}});
        let manifest = deployment("web", 10)
            .with(image("v2"))
            .with(json!({"spec": {"paused": false, "strategy": strategy}}));
        let manifest = file(t, "web", &manifest);
        for force in ["--force-conflicts", "--validate=strict"] {
            t.kubectl(&["apply", "--server-side", "--force-conflicts", force, "-f", &manifest])
                .await;
            t.until("it is held again", |now| {
                now.deployment("web").flag("/spec/paused")
                    && now.split("web") == Split { new: 5, old: 5 }
                    && now.settled("web")
            })
            .await;
        }
        t.held("web", 1, 5, 5).await;
        t.event("web", "DriftCorrected").await;
        assert!(t.metric(&["grayrollout_drift_corrections_total{"]).await >= 1.0);
        let most = t.most_since(start, |now| now.split("web").new);
        assert!(most <= 8, "{most} new pods: more than the surge of a moment");
        t.approve("web", 2).await;
        t.completed("web").await;
    });
}

/// `kubectl rollout resume` of a held Deployment is put right without a change of the split.
#[test]
fn resumed_by_hand_while_held() {
    run(async |t: &Test| {
        t.manage(10, &grayrollout("web", &[20, 100])).await;
        t.push("web", "v2").await;
        t.held("web", 1, 2, 8).await;
        let start = t.record.newest();
        t.kubectl(&["rollout", "resume", "deployment/web"]).await;
        t.until("paused again", |now| {
            now.deployment("web").flag("/spec/paused")
                && now.split("web") == Split { new: 2, old: 8 }
        })
        .await;
        t.held("web", 1, 2, 8).await;
        assert!(t.most_since(start, |now| now.split("web").new) <= 4, "one pod at a time");
    });
}

/// A ReplicaSet scaled by hand, up or down, is put back.
#[test]
fn n28271_a_replicaset_scaled_by_hand() {
    run(async |t: &Test| {
        t.manage(10, &grayrollout("web", &[20, 100])).await;
        t.push("web", "v2").await;
        t.held("web", 1, 2, 8).await;
        let status = t.status_now("web");
        for (track, replicas) in [("update", 6), ("stable", 4), ("update", 0)] {
            let name = status.text(&format!("/{track}/replicaSet")).to_owned();
            t.kubectl(&["scale", "rs", &name, &format!("--replicas={replicas}")]).await;
            t.held("web", 1, 2, 8).await;
        }
        t.event("web", "DriftCorrected").await;
        t.approve("web", 2).await;
        t.completed("web").await;
    });
}

/// UIDs of all pods that are to stay.
fn pods(t: &Test) -> BTreeSet<String> {
    t.record.look(|now| {
        now.all(Kind::Pod)
            .filter(|pod| pod.at("/metadata/deletionTimestamp").is_null())
            .map(|pod| pod.text("/metadata/uid").to_owned())
            .collect()
    })
}

/// The manifest in Git, replicas included, applied every second: no pod comes or goes, and the two
/// do not write against each other.
#[test]
fn f1504_the_manifest_applied_every_second() {
    run(async |t: &Test| {
        let manifest = deployment("web", 5);
        let apply = async |manifest: &Value| {
            let file = file(t, "web", manifest);
            t.kubectl(&["apply", "-f", &file]).await;
        };
        apply(&manifest).await;
        t.create(&grayrollout("web", &[20, 100])).await;
        t.completed("web").await;
        let next = manifest.with(image("v2"));
        apply(&next).await;
        t.held("web", 1, 1, 4).await;
        let (before, start) = (pods(t), t.record.newest());
        let generation = t.deployment_now("web").int("/metadata/generation");
        for _ in 0..5 {
            apply(&next).await;
            t.always("held", Duration::from_secs(1), |now| {
                now.split("web") == Split { new: 1, old: 4 }
            })
            .await;
        }
        assert_eq!(pods(t), before);
        let now = t.deployment_now("web").int("/metadata/generation");
        assert_eq!(now, generation, "nobody writes against anybody");
        assert_eq!(t.most_since(start, |now| now.split("web").new), 1);
        t.approve("web", 2).await;
        t.completed("web").await;
    });
}

/// Another writer keeps updating the Deployment, its ReplicaSets and the GrayRollout: conflicts are
/// tried again, the stages go on, and nothing looks like an error.
#[test]
fn a4073_another_busy_writer() {
    run(async |t: &Test| {
        t.manage(6, &grayrollout("web", &[50, 100])).await;
        let kinds = [Kind::ReplicaSet, Kind::Deployment, Kind::GrayRollout];
        let flood = crate::flood::Flood::start(t, 20, &kinds);
        let start = t.record.newest();
        t.push_pods("web", "v2", pods_ready_after("200ms")).await;
        t.held("web", 1, 3, 3).await;
        t.approve("web", 2).await;
        t.completed("web").await;
        drop(flood);
        let phases = t.since(start, |now| now.gr("web").text("/status/phase").to_owned());
        assert!(!phases.contains(&"Stalled".to_owned()));
    });
}

/// The stable ReplicaSet is deleted mid-rollout: capacity is left alone, an abort cannot be done
/// and says so, and approvals may finish the rollout.
#[test]
fn the_stable_replicaset_is_deleted() {
    run(async |t: &Test| {
        t.exempt("S9");
        t.manage(4, &grayrollout("web", &[25, 100])).await;
        t.push("web", "v2").await;
        t.held("web", 1, 1, 3).await;
        let name = t.status_now("web").text("/stable/replicaSet").to_owned();
        let path = path_of("apps/v1", &t.namespace, "replicasets") + "/" + &name;
        t.api.delete(&path).await.unwrap();
        t.stalled("web", "StableLost").await;
        t.until("capacity is there", |now| now.available("web", "v2") >= 4).await;
        let abort = json!({"abort": {"rollout": t.rollout("web")}});
        // Where the API server lets it through, the operator must not follow it.
        let _ = t.patch_status("web", abort).await;
        t.always("nothing goes back", Duration::from_secs(2), |now| {
            now.gr("web").text("/status/phase") != "RollingBack" && now.available("web", "v2") >= 4
        })
        .await;
        t.approve("web", 2).await;
        t.completed("web").await;
    });
}
