//! spec.replicas changes while something rolls out, as an HPA does it.

use std::time::Duration;

use grayrollout_e2e::{Json, Split, Test, grayrollout, pods_are, pods_ready_after, run, stages};
use serde_json::json;

/// New pods at a stage below 100%, for two and more replicas.
fn share(replicas: i64, percent: i64) -> i64 {
    ((replicas * percent + 99) / 100).clamp(1, replicas - 1)
}

/// At every stage the share follows each change of replicas, and the stage is not restarted.
#[test]
fn every_stage_follows_the_replicas() {
    run(async |t: &Test| {
        t.manage(10, &grayrollout("web", &[10, 50, 100])).await;
        t.push("web", "v2").await;
        for (stage, percent) in [(1, 10), (2, 50)] {
            for replicas in [10, 15, 3, 10] {
                t.scale("web", replicas).await;
                let new = share(replicas, percent);
                t.held("web", stage, new, replicas - new).await;
            }
            t.approve("web", stage + 1).await;
        }
        t.completed("web").await;
        t.scale("web", 6).await;
        t.completed("web").await;
    });
}

/// Held at 20%, 10 -> 20 -> 6: the share each time, and the stage is the same one as before.
#[test]
fn f634_scaled_while_held() {
    run(async |t: &Test| {
        t.manage(10, &grayrollout("web", &[20, 100])).await;
        t.push("web", "v2").await;
        t.held("web", 1, 2, 8).await;
        let before = t.status_now("web");
        t.scale("web", 20).await;
        t.held("web", 1, 4, 16).await;
        t.scale("web", 6).await;
        t.held("web", 1, 2, 4).await;
        let after = t.status_now("web");
        for field in ["/rollout", "/stageStartedAt", "/startedAt"] {
            assert_eq!(after.at(field), before.at(field), "{field}");
        }
        assert_eq!(after.int("/replicas"), 6);
    });
}

/// The share is kept and the sizes follow while held at half.
#[test]
fn n98457_scaled_at_half() {
    run(async |t: &Test| {
        t.manage(4, &grayrollout("web", &[50, 100])).await;
        t.push("web", "v2").await;
        t.held("web", 1, 2, 2).await;
        for replicas in [5, 12, 2] {
            t.scale("web", replicas).await;
            let new = share(replicas, 50);
            t.held("web", 1, new, replicas - new).await;
        }
    });
}

/// v2 is not available at 2 of 4 pods; 4 -> 8 -> 4: v2 keeps its share, and pods that are promised
/// stay available while scaling down.
#[test]
fn a738_scaled_with_a_bad_version() {
    run(async |t: &Test| {
        let gr = grayrollout("web", &[50, 100])
            .with(json!({"spec": {"progressDeadlineSeconds": 2, "maxSurge": "50%"}}));
        t.manage(4, &gr).await;
        t.push_pods("web", "v2", pods_are("never")).await;
        t.stalled("web", "ProgressDeadlineExceeded").await;
        t.split("web", 2, 4).await;
        t.scale("web", 8).await;
        t.until("v2 follows its share", |now| {
            let Split { new, old } = now.split("web");
            new == 4 && (4..=8).contains(&old)
        })
        .await;
        t.scale("web", 4).await;
        let start = t.record.newest();
        t.split("web", 2, 4).await;
        let available =
            t.least_since(start, |now| now.deployment("web").int("/status/availableReplicas"));
        assert!(available >= 4, "{available} available");
    });
}

/// A bad v2 is held, 10 -> 5: the promised pods stay available on the way down too.
#[test]
fn n40304_scaled_down_with_a_bad_version() {
    run(async |t: &Test| {
        let gr =
            grayrollout("web", &[20, 100]).with(json!({"spec": {"progressDeadlineSeconds": 2}}));
        t.manage(10, &gr).await;
        t.push_pods("web", "v2", pods_are("never")).await;
        t.stalled("web", "ProgressDeadlineExceeded").await;
        let start = t.record.newest();
        t.scale("web", 5).await;
        t.split("web", 1, 5).await;
        t.until("it settles", |now| now.deployment("web").int("/status/replicas") == 6).await;
        let available =
            t.least_since(start, |now| now.deployment("web").int("/status/availableReplicas"));
        assert!(available >= 5, "{available} available");
    });
}

/// Replicas and image changed in one apply: v1 grows to its share, v2 gets stage 1 of the new
/// number and not more.
#[test]
fn n105395_replicas_and_image_in_one_apply() {
    run(async |t: &Test| {
        t.manage(10, &grayrollout("web", &[10, 100])).await;
        let start = t.record.newest();
        let patch =
            grayrollout_e2e::new_template("v2", json!({})).with(json!({"spec": {"replicas": 20}}));
        t.patch_deployment("web", &patch).await;
        t.held("web", 1, 2, 18).await;
        assert_eq!(t.most_since(start, |now| now.asked("web", "v2")), 2);
        t.approve("web", 2).await;
        t.completed("web").await;
    });
}

/// What an HPA reads of a Deployment that is held at half: as many pods as spec.replicas, all
/// found by the selector.
#[test]
fn a2857_what_an_autoscaler_sees() {
    run(async |t: &Test| {
        t.manage(10, &grayrollout("web", &[50, 100])).await;
        t.push("web", "v2").await;
        t.held("web", 1, 5, 5).await;
        let start = t.record.newest();
        for replicas in [10, 14, 8] {
            t.scale("web", replicas).await;
            t.held("web", 1, share(replicas, 50), replicas - share(replicas, 50)).await;
            let path = t.deployment_path("web") + "/scale";
            t.until("the count is current", |now| {
                now.deployment("web").int("/status/replicas") == replicas
            })
            .await;
            let scale = t.api.get(&path).await.unwrap();
            assert_eq!(scale.int("/status/replicas"), replicas);
            assert_eq!(scale.int("/spec/replicas"), replicas);
            assert_eq!(scale.text("/status/selector"), "app=web");
        }
        let asked = t.since(start, |now| now.deployment("web").int("/spec/replicas"));
        assert!(asked.iter().all(|replicas| [10, 14, 8].contains(replicas)), "{asked:?}");
    });
}

/// 100 pods at half with a surge of 10%: never more than 110 are asked for.
#[test]
fn a3284_many_pods_and_a_small_surge() {
    run(async |t: &Test| {
        let gr = grayrollout("web", &[50, 100]).with(json!({"spec": {"maxSurge": "10%"}}));
        t.manage(100, &gr).await;
        let start = t.record.newest();
        t.push_pods("web", "v2", pods_ready_after("300ms")).await;
        t.held("web", 1, 50, 50).await;
        let asked = t.most_since(start, |now| {
            let Split { new, old } = now.split("web");
            new + old
        });
        assert!(asked <= 110, "{asked}");
        assert!(asked > 101, "the surge is used: {asked}");
    });
}

/// Replicas that never rest while every stage moves by itself.
#[test]
fn scaled_while_moving() {
    run(async |t: &Test| {
        let all = stages(&[20, 50, 80, 100], &json!({"approval": "Automatic"}));
        t.manage(8, &grayrollout("web", &[100]).with(json!({"spec": {"stages": all}}))).await;
        t.push_pods("web", "v2", pods_ready_after("400ms")).await;
        for replicas in [12, 5, 9, 1, 7, 10, 3, 8] {
            t.scale("web", replicas).await;
            t.until("the operator has seen it", |now| {
                now.gr("web").int("/status/replicas") == replicas
            })
            .await;
        }
        t.completed("web").await;
    });
}

/// With the operator down the native controller keeps the share when replicas change, and nothing
/// is lost when it is up again.
#[test]
fn scaled_while_the_operator_is_down() {
    run(async |t: &Test| {
        t.manage(10, &grayrollout("web", &[20, 100])).await;
        t.push("web", "v2").await;
        t.held("web", 1, 2, 8).await;
        t.kill_operator().await;
        for (replicas, new, old) in [(20, 4, 16), (5, 1, 4), (10, 2, 8)] {
            t.scale("web", replicas).await;
            t.split("web", new, old).await;
        }
        t.start_operator().await;
        t.always("the share stays", Duration::from_secs(1), |now| {
            now.split("web") == Split { new: 2, old: 8 }
        })
        .await;
        t.approve("web", 2).await;
        t.completed("web").await;
    });
}
