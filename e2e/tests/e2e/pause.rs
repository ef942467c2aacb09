//! Paused by the user: the split stays, and follows a change of replicas in proportion.

use std::time::Duration;

use grayrollout_e2e::{Json, Split, Test, grayrollout, pods_ready_after, run};
use serde_json::json;

async fn pause(t: &Test, paused: bool) {
    t.patch_gr("web", &json!({"spec": {"paused": paused}})).await;
}

/// Paused while pods move: they stop where they are, follow a change of replicas, and go on from
/// there.
#[test]
fn paused_while_moving() {
    run(async |t: &Test| {
        let gr = grayrollout("web", &[50, 100]).with(json!({"spec": {"maxSurge": 1}}));
        t.manage(10, &gr).await;
        t.push_pods("web", "v2", pods_ready_after("700ms")).await;
        t.until("some pods are new", |now| now.split("web").new == 2).await;
        pause(t, true).await;
        t.phase("web", "Paused").await;
        // A pod that was on its way makes one of v1 needless.
        t.until("all settles", |now| {
            let Split { new, old } = now.split("web");
            now.settled("web") && new + old == 10
        })
        .await;
        let Split { new, old } = t.record.look(|now| now.split("web"));
        assert!((2..5).contains(&new), "the stage is not reached: {new} new, {old} old");
        t.always("the split stays", Duration::from_secs(3), |now| {
            now.split("web") == Split { new, old }
        })
        .await;

        t.scale("web", 20).await;
        t.until("both sides grow in proportion", |now| {
            let split = now.split("web");
            (split.new - 2 * new).abs() <= 1 && split.new + split.old == 20
        })
        .await;
        assert_eq!(t.status_now("web").int("/stage"), 1);

        pause(t, false).await;
        t.held("web", 1, 10, 10).await;
    });
}

/// Paused while a stage is held: both sides follow each change of replicas by the stage's share.
#[test]
fn a4261_paused_and_scaled() {
    run(async |t: &Test| {
        t.manage(5, &grayrollout("web", &[20, 100])).await;
        t.push("web", "v2").await;
        t.held("web", 1, 1, 4).await;
        pause(t, true).await;
        t.phase("web", "Paused").await;
        for (replicas, new, old) in [(8, 2, 6), (4, 1, 3)] {
            t.scale("web", replicas).await;
            t.until("the share is kept", |now| {
                now.split("web") == Split { new, old } && now.settled("web")
            })
            .await;
            let status = t.status_now("web");
            assert_eq!((status.int("/stage"), status.text("/phase")), (1, "Paused"));
        }
        pause(t, false).await;
        t.held("web", 1, 1, 3).await;
    });
}

/// Paused before anything rolls out: a new template is not touched until it is unpaused.
#[test]
fn paused_before_the_push() {
    run(async |t: &Test| {
        t.manage(4, &grayrollout("web", &[25, 100])).await;
        pause(t, true).await;
        t.status("web", "the spec is seen", |status| status.int("/observedGeneration") == 2).await;
        t.push("web", "v2").await;
        t.phase("web", "Paused").await;
        t.always("no new pod", Duration::from_secs(2), |now| {
            now.split("web") == Split { new: 0, old: 4 }
        })
        .await;
        pause(t, false).await;
        t.held("web", 1, 1, 3).await;
    });
}
