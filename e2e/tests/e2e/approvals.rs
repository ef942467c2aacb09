//! Approvals: early, late, repeated, too high, in Git, and of something else.

use std::time::Duration;

use grayrollout_e2e::{Json, Kind, Test, deployment, grayrollout, pods_ready_after, run, stages};
use serde_json::json;

use crate::flood::Flood;

/// An approval given while the stage still moves counts as soon as the stage may be left.
#[test]
fn an_early_approval_counts_when_its_time_comes() {
    run(async |t: &Test| {
        t.manage(4, &grayrollout("web", &[25, 50, 100])).await;
        let start = t.record.newest();
        t.push_pods("web", "v2", pods_ready_after("2s")).await;
        t.status("web", "stage 1 moves", |status| status.int("/stage") == 1).await;
        t.approve("web", 2).await;
        t.held("web", 2, 2, 2).await;
        let rushed = t.since(start, |now| {
            let deployment = now.deployment("web");
            let available =
                now.new_set(deployment).map_or(0, |set| set.int("/status/availableReplicas"));
            now.split("web").new > 1 && available < 1
        });
        assert!(!rushed.contains(&true), "stage 2 waited for the pod of stage 1");
    });
}

/// Repeating an approval changes nothing.
#[test]
fn a_repeated_approval_changes_nothing() {
    run(async |t: &Test| {
        t.manage(4, &grayrollout("web", &[25, 50, 100])).await;
        t.push("web", "v2").await;
        t.held("web", 1, 1, 3).await;
        t.approve("web", 2).await;
        t.held("web", 2, 2, 2).await;
        t.approve("web", 2).await;
        t.approve("web", 1).await;
        t.always("stage 2 is held", Duration::from_secs(2), |now| {
            now.split("web").new == 2 && now.gr("web").int("/status/stage") == 2
        })
        .await;
        t.approve("web", 3).await;
        t.completed("web").await;
    });
}

/// A higher stage approves all up to it; each is still gone through, with its soak time.
#[test]
fn a_high_approval_goes_through_every_stage() {
    run(async |t: &Test| {
        let gr = grayrollout("web", &[100]).with(json!({"spec": {"stages": [
            {"percent": 25}, {"percent": 50, "soakSeconds": 1}, {"percent": 100},
        ]}}));
        t.manage(4, &gr).await;
        t.push("web", "v2").await;
        t.held("web", 1, 1, 3).await;
        let start = t.record.newest();
        t.approve("web", 3).await;
        t.completed("web").await;
        let stages = t.since(start, |now| {
            let status = now.gr("web").at("/status");
            (status.int("/stage"), now.split("web").new)
        });
        assert!(stages.contains(&(2, 2)), "stage 2 with its 2 pods: {stages:?}");
    });
}

/// An approval in Git names the revision too; one of another revision is reported, not followed.
#[test]
fn an_approval_in_git() {
    run(async |t: &Test| {
        t.manage(4, &grayrollout("web", &[25, 50, 100])).await;
        t.push("web", "v2").await;
        t.held("web", 1, 1, 3).await;
        let rollout = t.rollout("web");
        let revision = t.status_now("web").at("/updateRevision").clone();
        let approve = async |revision: &serde_json::Value, stage: i64| {
            let approval = json!({"rollout": rollout, "revision": revision, "stage": stage});
            t.patch_gr("web", &json!({"spec": {"approval": approval}})).await;
        };
        approve(&revision, 2).await;
        t.held("web", 2, 2, 2).await;

        approve(&json!("other"), 3).await;
        let ignored = t.event("web", "ApprovalIgnored").await;
        assert_eq!(ignored.text("/type"), "Warning");
        t.always("stage 2 is held", Duration::from_secs(1), |now| now.split("web").new == 2).await;
        let ignored = t.metric(&["grayrollout_approvals_total{", "ignored"]).await;
        assert!(ignored >= 1.0);

        approve(&revision, 3).await;
        t.completed("web").await;
        assert!(t.status_now("web").at("/approval").is_null(), "status had no part in it");

        t.push("web", "v3").await;
        t.held("web", 1, 1, 3).await;
    });
}

/// The event of an approval names who gave it.
#[test]
fn an_approval_names_who_gave_it() {
    run(async |t: &Test| {
        t.manage(2, &grayrollout("web", &[50, 100])).await;
        t.push("web", "v2").await;
        t.held("web", 1, 1, 1).await;
        let approval =
            json!({"approval": {"rollout": t.rollout("web"), "stage": 2, "by": "alice"}});
        t.patch_status("web", approval).await.expect("approved");
        t.completed("web").await;
        let event = t.event("web", "StageApproved").await;
        assert!(event.text("/message").contains("alice"), "{event}");
    });
}

/// An approval that stays in place neither counts for the next rollout, nor for the same template
/// pushed again, nor stands in the way of the operator's own writes.
#[test]
fn a_leftover_approval_neither_counts_nor_blocks() {
    run(async |t: &Test| {
        t.manage(4, &grayrollout("web", &[25, 100])).await;
        t.push("web", "v2").await;
        t.held("web", 1, 1, 3).await;
        t.approve("web", 2).await;
        t.completed("web").await;
        for version in ["v3", "v2"] {
            let before = t.rollout("web");
            t.push("web", version).await;
            t.held("web", 1, 1, 3).await;
            let status = t.status_now("web");
            assert!(status.int("/rollout") > before);
            assert!(
                status.int("/approval/rollout") < status.int("/rollout"),
                "the old approval is still there"
            );
            t.approve("web", 2).await;
            t.completed("web").await;
        }
    });
}

/// Everything approved while the user has paused the rollout; then it is unpaused and needs
/// nothing more.
#[test]
fn a4265_all_approved_while_paused() {
    run(async |t: &Test| {
        t.manage(4, &grayrollout("web", &[25, 50, 100])).await;
        t.push("web", "v2").await;
        t.held("web", 1, 1, 3).await;
        t.patch_gr("web", &json!({"spec": {"paused": true}})).await;
        t.phase("web", "Paused").await;
        t.approve("web", 3).await;
        t.always("paused is paused", Duration::from_secs(1), |now| now.split("web").new == 1).await;
        t.patch_gr("web", &json!({"spec": {"paused": false}})).await;
        t.completed("web").await;
    });
}

/// Waiting for an approval for several deadlines is no lack of progress; the clock starts anew
/// when pods move.
#[test]
fn a1225_an_approval_long_after_the_deadline() {
    run(async |t: &Test| {
        let gr =
            grayrollout("web", &[25, 100]).with(json!({"spec": {"progressDeadlineSeconds": 4}}));
        t.manage(4, &gr).await;
        let start = t.record.newest();
        t.push_pods("web", "v2", pods_ready_after("500ms")).await;
        t.held("web", 1, 1, 3).await;
        t.always("it waits", Duration::from_secs(9), |now| {
            now.gr("web").text("/status/phase") == "AwaitingApproval"
        })
        .await;
        t.approve("web", 2).await;
        t.completed("web").await;
        let phases = t.since(start, |now| now.gr("web").text("/status/phase").to_owned());
        assert!(!phases.contains(&"Stalled".to_owned()), "{phases:?}");
    });
}

/// Approvals given the instant that the pause shows, and others while a stage still moves, under a
/// flood of status changes: each of them moves the rollout within 2 s, and none is needed twice.
///
/// GRAYROLLOUT_E2E_APPROVALS sets how many; 1000 for a thorough run.
#[test]
fn a4694_no_approval_is_lost() {
    let wanted = std::env::var("GRAYROLLOUT_E2E_APPROVALS");
    let wanted: usize = wanted.map_or(60, |text| text.parse().expect("a number"));
    run(async |t: &Test| {
        let percents: Vec<i64> = (1..=10).map(|stage| stage * 10).collect();
        let gr = grayrollout("web", &percents)
            .with(json!({"spec": {"stages": stages(&percents, &json!({}))}}));
        let web = deployment("web", 10).with(json!({"spec": {"revisionHistoryLimit": 2}}));
        t.manage_with(&web, &gr).await;
        let _flood = Flood::start(t, 20, &[Kind::GrayRollout, Kind::ReplicaSet]);
        let (mut given, mut version) = (0, 2);
        while given < wanted {
            let before = t.rollout("web");
            t.push("web", &format!("v{version}")).await;
            t.status("web", "the next rollout", |status| {
                status.int("/rollout") > before && status.int("/stage") == 1
            })
            .await;
            for stage in 2..=10 {
                // Every other approval comes while the stage before still moves.
                if stage % 2 == 0 {
                    t.phase("web", "AwaitingApproval").await;
                }
                given += 1;
                // An early one must wait until the stage before is reached.
                let within = if stage % 2 == 0 { 2 } else { 10 };
                approve_at_once(t, stage, t.at_most(within)).await;
            }
            t.completed("web").await;
            version += 1;
        }
    });
}

async fn approve_at_once(t: &Test, stage: i64, within: Duration) {
    let approval = json!({"rollout": t.rollout("web"), "stage": stage});
    let path = t.gr_path("web") + "/status";
    let patch = json!({"status": {"approval": approval}});
    t.api.patch(&path, &patch).await.expect("approved");
    let what = format!("stage {stage} is entered");
    t.until_within(&what, within, |now| {
        let status = now.gr("web").at("/status");
        status.int("/stage") >= stage || status.text("/phase") == "Completed"
    })
    .await;
}
