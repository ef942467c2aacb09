//! Pods that do not get ready.

use std::time::Duration;

use grayrollout_e2e::{Json, Test, deployment, grayrollout, pods_are, reason_of, run};
use serde_json::{Value, json};

fn within(seconds: i64) -> Value {
    grayrollout("web", &[50, 100]).with(json!({"spec": {"progressDeadlineSeconds": seconds}}))
}

/// Crash-looping pods: stalled within the deadline, told by event and metric, and held: v1 keeps
/// its pods, v2 gets no more than the stage has.
#[test]
fn k174_crash_looping() {
    run(async |t: &Test| {
        // A pod is ready for 300 ms between two crashes; that does not count as available.
        let web = deployment("web", 4).with(json!({"spec": {"minReadySeconds": 4}}));
        t.manage_with(&web, &within(5)).await;
        let start = t.record.newest();
        t.push_pods("web", "v2", pods_are("crash")).await;
        t.stalled("web", "ProgressDeadlineExceeded").await;
        let event = t.event("web", "ProgressDeadlineExceeded").await;
        assert_eq!(event.text("/type"), "Warning");
        let phase = t.metric(&["grayrollout_phase{", r#"phase="Stalled""#]).await;
        assert!((phase - 1.0).abs() < 0.1, "{phase}");
        t.always("it is held", Duration::from_secs(3), |now| {
            let status = now.gr("web").at("/status");
            status.text("/phase") == "Stalled" && now.split("web").new <= 2
        })
        .await;
        assert!(t.least_since(start, |now| now.asked("web", "v1")) >= 4, "v1 keeps its pods");
        t.push_pods("web", "v1", json!({"kwok.grayrollout.dev/ready": null})).await;
        t.completed("web").await;
    });
}

/// Pods that get ready after the deadline was reported: that clears, and the rollout goes on.
#[test]
fn a939_ready_after_the_deadline() {
    run(async |t: &Test| {
        t.manage(2, &within(2)).await;
        t.push_pods("web", "v2", pods_are("never")).await;
        t.stalled("web", "ProgressDeadlineExceeded").await;
        let stalled = t.status_now("web").text("/message").to_owned();
        t.annotate_pods("v2", "kwok.grayrollout.dev/ready=always").await;
        t.held("web", 1, 1, 1).await;
        let status = t.status_now("web");
        assert_ne!(status.text("/message"), stalled);
        assert_eq!(reason_of(&status, "Stalled"), "AwaitingApproval");
    });
}

/// onFailure: Rollback starts going back when the deadline is missed, and not before.
#[test]
fn a1593_a_missed_deadline_rolls_back() {
    run(async |t: &Test| {
        let gr = within(4).with(json!({"spec": {"onFailure": "Rollback"}}));
        t.manage(4, &gr).await;
        t.push_pods("web", "v2", pods_are("never")).await;
        t.rolled_back("web").await;
        let status = t.status_now("web");
        assert_eq!(status.text("/history/0/result"), "Failed");
        t.event("web", "ProgressDeadlineExceeded").await;
        t.event("web", "RollbackStarted").await;

        let history = t.record.history();
        let first = |what: &dyn Fn(&grayrollout_e2e::Stored) -> bool| {
            history.iter().find(|stored| what(stored)).expect("it happened").at
        };
        let moved = first(&|stored| stored.object.int("/status/stage") == 1);
        let back = first(&|stored| stored.object.text("/status/phase") == "RollingBack");
        let after = back.saturating_sub(moved);
        let (least, most) = (Duration::from_millis(3900), t.at_most(6));
        assert!(after > least && after < most, "it went back after {after:?}, not 4 s");

        // Nothing that failed is tried again by itself; a retry is.
        t.always("it rests", Duration::from_secs(2), |now| now.split("web").new == 0).await;
        t.patch_gr("web", &json!({"spec": {"onFailure": "Pause"}})).await;
        t.retry("web").await;
        t.until("stage 1 moves again", |now| now.split("web").new > 0).await;
    });
}

/// A pause longer than the deadline is no lack of progress; the clock starts anew after it.
#[test]
fn n36427_a_pause_longer_than_the_deadline() {
    run(async |t: &Test| {
        t.manage(4, &within(3)).await;
        t.push_pods("web", "v2", pods_are("never")).await;
        t.until("stage 1 moves", |now| now.split("web").new > 0).await;
        t.patch_gr("web", &json!({"spec": {"paused": true}})).await;
        t.phase("web", "Paused").await;
        t.always("no deadline", Duration::from_secs(6), |now| {
            now.gr("web").text("/status/phase") == "Paused"
        })
        .await;
        t.patch_gr("web", &json!({"spec": {"paused": false}})).await;
        t.phase("web", "Progressing").await;
        let resumed = t.record.elapsed();
        t.stalled("web", "ProgressDeadlineExceeded").await;
        let after = t.record.elapsed().saturating_sub(resumed).as_secs_f32();
        assert!(after > 2.5, "stalled {after} s after the pause, not 3");
    });
}

/// v1 itself is broken: a good v2 goes on, and pods of v1 that are not ready go first.
#[test]
fn a995_a_good_version_over_a_broken_one() {
    run(async |t: &Test| {
        t.manage(4, &within(5)).await;
        t.annotate_pods("v1", "kwok.grayrollout.dev/ready=never").await;
        t.status("web", "v1 is broken", |status| {
            status.text("/phase") == "Completed" && reason_of(status, "Ready") == "PodsUnavailable"
        })
        .await;
        t.push("web", "v2").await;
        t.status("web", "stage 1 is held", |status| {
            status.text("/phase") == "AwaitingApproval" && status.int("/update/available") == 2
        })
        .await;
        t.approve("web", 2).await;
        t.completed("web").await;
    });
}

/// The very first version never gets ready: a good one can follow it.
#[test]
fn a_good_version_after_a_broken_first_one() {
    run(async |t: &Test| {
        let broken =
            json!({"spec": {"template": {"metadata": {"annotations": pods_are("never")}}}});
        t.create(&deployment("web", 4).with(broken)).await;
        t.create(&within(2)).await;
        t.stalled("web", "ProgressDeadlineExceeded").await;
        t.push_pods("web", "v2", pods_are("always")).await;
        t.until("v2 gets pods that are available", |now| now.available("web", "v2") >= 2).await;
        t.status("web", "it goes on", |status| {
            ["AwaitingApproval", "Completed"].contains(&status.text("/phase"))
        })
        .await;
        if t.status_now("web").text("/phase") == "AwaitingApproval" {
            t.approve("web", 2).await;
        }
        t.completed("web").await;
    });
}
