//! Replicas of 0, and back.

use grayrollout_e2e::{Json, Split, Test, grayrollout, reason_of, run};

/// At each stage: 0 pods hold the stage, and coming back gives each side its share.
#[test]
fn zero_and_back_at_every_stage() {
    run(async |t: &Test| {
        t.manage(10, &grayrollout("web", &[10, 50, 100])).await;
        t.push("web", "v2").await;
        for (stage, new) in [(1, 1), (2, 5)] {
            t.held("web", stage, new, 10 - new).await;
            let rollout = t.rollout("web");
            t.scale("web", 0).await;
            t.until("all pods are gone, v2 could not come first, the stage stays", |now| {
                let status = now.gr("web").at("/status");
                now.split("web") == Split { new: 0, old: 0 }
                    && reason_of(status, "Progressing") == "ScaledToZero"
                    && status.int("/stage") == stage
                    && now.new_set(now.deployment("web")).is_none()
            })
            .await;
            let start = t.record.newest();
            t.scale("web", 10).await;
            t.held("web", stage, new, 10 - new).await;
            let most = t.most_since(start, |now| now.asked("web", "v2"));
            assert!(most <= new, "{most} new pods on the way back");
            assert_eq!(t.rollout("web"), rollout);
            t.approve("web", stage + 1).await;
        }
        t.completed("web").await;
        t.scale("web", 0).await;
        t.completed("web").await;
        t.scale("web", 3).await;
        t.completed("web").await;
    });
}

/// Pushed at 0 replicas: nothing is entered, and the first pods to come are mostly the old ones.
#[test]
fn pushed_at_zero() {
    run(async |t: &Test| {
        t.manage(4, &grayrollout("web", &[25, 100])).await;
        t.scale("web", 0).await;
        t.completed("web").await;
        t.push("web", "v2").await;
        t.status("web", "scaled to zero", |status| {
            reason_of(status, "Progressing") == "ScaledToZero"
        })
        .await;
        let start = t.record.newest();
        t.scale("web", 4).await;
        t.held("web", 1, 1, 3).await;
        assert_eq!(t.most_since(start, |now| now.asked("web", "v2")), 1);
        t.approve("web", 2).await;
        t.completed("web").await;
    });
}

/// A version that was superseded is younger than the stable one; it gets nothing either.
#[test]
fn zero_and_back_after_another_was_superseded() {
    run(async |t: &Test| {
        t.manage(10, &grayrollout("web", &[10, 50, 100])).await;
        t.push("web", "v2").await;
        t.held("web", 1, 1, 9).await;
        t.push("web", "v3").await;
        t.held("web", 1, 1, 9).await;
        t.until("v2 is drained", |now| now.asked("web", "v2") == 0).await;
        t.scale("web", 0).await;
        t.until("nothing but v1 is left to come first", |now| {
            let sets = now.replica_sets(now.deployment("web"));
            now.split("web") == Split { new: 0, old: 0 } && sets.len() == 1
        })
        .await;
        let start = t.record.newest();
        t.scale("web", 6).await;
        t.held("web", 1, 1, 5).await;
        assert_eq!(t.most_since(start, |now| now.asked("web", "v2")), 0);
    });
}

/// After a rollback 0 and back brings v1 again, not what failed.
#[test]
fn zero_and_back_after_a_rollback() {
    run(async |t: &Test| {
        t.manage(4, &grayrollout("web", &[50, 100])).await;
        t.push("web", "v2").await;
        t.held("web", 1, 2, 2).await;
        t.abort("web").await;
        t.rolled_back("web").await;
        let start = t.record.newest();
        for replicas in [0, 5, 0, 3] {
            t.scale("web", replicas).await;
            t.rolled_back("web").await;
        }
        assert_eq!(t.most_since(start, |now| now.asked("web", "v2")), 0);
        assert_eq!(t.status_now("web").text("/phase"), "RolledBack");
    });
}
