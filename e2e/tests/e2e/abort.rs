//! Going back because someone says so, and trying again.

use grayrollout_e2e::{Json, Test, grayrollout, pods_are, pods_ready_after, reason_of, run};
use serde_json::{Value, json};

fn three_stages() -> Value {
    grayrollout("web", &[25, 50, 100])
}

/// Aborts what is under way, and sees to it that all that is left is v1, at rest.
async fn abort_and_check(t: &Test) {
    let rollout = t.rollout("web");
    let stable = t.status_now("web").at("/stableRevision").clone();
    t.abort("web").await;
    t.rolled_back("web").await;
    let (status, deployment) = (t.status_now("web"), t.deployment_now("web"));
    assert_eq!(status.int("/rollout"), rollout);
    assert_eq!(status.at("/stableRevision"), &stable);
    assert_eq!(status.text("/history/0/result"), "Aborted");
    assert_eq!(status.int("/history/0/rollout"), rollout);
    assert!(deployment.flag("/spec/paused"), "an aborted template is held");
    assert_eq!(deployment.text("/spec/strategy/type"), "RollingUpdate");
    let image = deployment.text("/spec/template/spec/containers/0/image");
    assert_eq!(image, "app:v2", "the template stays the user's");
    for reason in ["RolloutAborted", "RollbackStarted", "RolledBack"] {
        t.event("web", reason).await;
    }
}

/// Aborted while a stage waits for its approval.
#[test]
fn f1432_abort_while_awaiting_approval() {
    run(async |t: &Test| {
        t.manage(4, &three_stages()).await;
        t.push("web", "v2").await;
        t.held("web", 1, 1, 3).await;
        t.approve("web", 2).await;
        t.held("web", 2, 2, 2).await;
        abort_and_check(t).await;
    });
}

/// Aborted while pods move.
#[test]
fn f1432_abort_while_moving() {
    run(async |t: &Test| {
        t.manage(4, &grayrollout("web", &[75, 100])).await;
        t.push_pods("web", "v2", pods_ready_after("600ms")).await;
        t.until("one old pod is gone", |now| now.split("web").old == 3).await;
        abort_and_check(t).await;
    });
}

/// Aborted while a stage soaks.
#[test]
fn f1432_abort_while_soaking() {
    run(async |t: &Test| {
        let stages = json!([{"percent": 25, "soakSeconds": 300}, {"percent": 100}]);
        t.manage(4, &three_stages().with(json!({"spec": {"stages": stages}}))).await;
        t.push("web", "v2").await;
        t.status("web", "it soaks", |status| reason_of(status, "Progressing") == "Soaking").await;
        abort_and_check(t).await;
    });
}

/// Aborted while the last stage soaks, when every pod is new already.
#[test]
fn abort_while_the_last_stage_soaks() {
    run(async |t: &Test| {
        let stages = json!([{"percent": 50}, {"percent": 100, "soakSeconds": 300}]);
        t.manage(4, &three_stages().with(json!({"spec": {"stages": stages}}))).await;
        t.push("web", "v2").await;
        t.held("web", 1, 2, 2).await;
        t.approve("web", 2).await;
        t.status("web", "it soaks", |status| {
            reason_of(status, "Progressing") == "Soaking" && status.int("/stage") == 2
        })
        .await;
        t.until("all pods are new", |now| now.split("web").new == 4).await;
        abort_and_check(t).await;
    });
}

/// Aborted while stalled.
#[test]
fn f1432_abort_while_stalled() {
    run(async |t: &Test| {
        let gr = three_stages().with(json!({"spec": {"progressDeadlineSeconds": 1}}));
        t.manage(4, &gr).await;
        t.push_pods("web", "v2", pods_are("never")).await;
        t.stalled("web", "ProgressDeadlineExceeded").await;
        abort_and_check(t).await;
    });
}

/// Aborted while paused by the user.
#[test]
fn abort_while_paused() {
    run(async |t: &Test| {
        t.manage(4, &three_stages()).await;
        t.push("web", "v2").await;
        t.held("web", 1, 1, 3).await;
        t.patch_gr("web", &json!({"spec": {"paused": true}})).await;
        t.phase("web", "Paused").await;
        abort_and_check(t).await;
    });
}

/// All stages are approved, the new pods never get ready, then it is aborted: the abort wins.
#[test]
fn a4461_an_abort_wins_over_approvals() {
    run(async |t: &Test| {
        t.manage(4, &three_stages()).await;
        t.push_pods("web", "v2", pods_are("never")).await;
        t.until("stage 1 moves", |now| now.split("web").new == 1).await;
        t.approve("web", 3).await;
        abort_and_check(t).await;
    });
}

/// An abort, and pods of v1 that cannot get ready any more: v3 can be pushed all the same, and
/// until then the status names what is not ready.
#[test]
fn a841_a_push_out_of_a_rollback_that_is_stuck() {
    run(async |t: &Test| {
        t.manage(4, &three_stages()).await;
        t.push("web", "v2").await;
        t.held("web", 1, 1, 3).await;
        t.annotate_pods("v1", "kwok.grayrollout.dev/ready=never").await;
        t.until("v1 is not ready", |now| {
            now.deployment("web").int("/status/availableReplicas") == 1
        })
        .await;
        t.abort("web").await;
        t.phase("web", "RollingBack").await;
        let stable = t.status_now("web").text("/stableRevision").to_owned();
        t.status("web", "what is not ready is named", |status| {
            status.text("/message").contains(&stable)
        })
        .await;
        let aborted = t.rollout("web");
        t.push("web", "v3").await;
        t.status("web", "the next rollout starts", |status| {
            status.int("/rollout") > aborted && status.int("/stage") == 1
        })
        .await;
        t.status("web", "stage 1 is held", |status| status.text("/phase") == "AwaitingApproval")
            .await;
        t.approve("web", 3).await;
        t.completed("web").await;
    });
}

/// A retry of what was aborted is the next rollout from stage 1; the old approvals do not count.
#[test]
fn a_retry_starts_from_the_first_stage() {
    run(async |t: &Test| {
        t.manage(4, &three_stages()).await;
        t.push("web", "v2").await;
        t.held("web", 1, 1, 3).await;
        t.approve("web", 2).await;
        t.held("web", 2, 2, 2).await;
        abort_and_check(t).await;
        let aborted = t.rollout("web");
        t.retry("web").await;
        t.held("web", 1, 1, 3).await;
        assert_eq!(t.rollout("web"), aborted + 1);
        t.approve("web", 3).await;
        t.completed("web").await;
        let status = t.status_now("web");
        assert_eq!(status.int("/abort/rollout"), aborted, "the old abort is still there");
    });
}

/// With nothing rolling out an abort is refused with the reason, and nothing happens.
#[test]
fn a1292_abort_with_nothing_rolling_out() {
    run(async |t: &Test| {
        t.manage(2, &three_stages()).await;
        let before = t.deployment_now("web");
        for rollout in [1, t.rollout("web").max(1)] {
            let abort = json!({"abort": {"rollout": rollout}});
            let said = t.patch_status("web", abort).await.unwrap_err();
            assert!(said.contains("nothing can be aborted now: the phase is Completed"), "{said}");
            assert!(said.contains("kubectl gray undo"), "{said}");
        }
        let after = t.deployment_now("web");
        assert_eq!(after.at("/spec"), before.at("/spec"));
        assert_eq!(after.at("/metadata/annotations"), before.at("/metadata/annotations"));
    });
}

/// After a rollback no stage is pending: approving and aborting are refused with the reason.
#[test]
fn k339_nothing_is_pending_after_a_rollback() {
    run(async |t: &Test| {
        t.manage(4, &three_stages()).await;
        t.push("web", "v2").await;
        t.held("web", 1, 1, 3).await;
        abort_and_check(t).await;
        let rollout = t.rollout("web");
        let said = t.try_approve("web", rollout, 2).await.unwrap_err();
        assert!(said.contains("nothing can be approved now: the phase is RolledBack"), "{said}");
        let abort = json!({"abort": {"rollout": rollout + 1}});
        let said = t.patch_status("web", abort).await.unwrap_err();
        assert!(said.contains("nothing can be aborted now: the phase is RolledBack"), "{said}");
        let status = t.status_now("web");
        assert_eq!(reason_of(&status, "AwaitingApproval"), "RolledBack");
        assert!(!status.text("/message").is_empty());
    });
}
