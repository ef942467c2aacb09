//! What people write into the status: what the API server lets through, and what it says else.

use grayrollout_e2e::{Json, Test, grayrollout, run};
use serde_json::json;

async fn refused(t: &Test, status: serde_json::Value, helpful: &str) {
    let said = t.patch_status("web", status.clone()).await;
    let said = said.expect_err(&format!("{status} is let through"));
    assert!(said.contains(helpful), "{status}: {said}");
}

/// Approvals that fit nothing are refused, and the message names what would fit.
#[test]
fn approvals_that_do_not_fit() {
    run(async |t: &Test| {
        t.manage(4, &grayrollout("web", &[25, 50, 100])).await;
        let nothing = "nothing can be approved now: the phase is Completed";
        refused(t, json!({"approval": {"rollout": 1, "stage": 1}}), nothing).await;

        t.push("web", "v2").await;
        t.held("web", 1, 1, 3).await;
        let number = t.rollout("web");
        let fitting = format!("rollout: {number}, stage: 1 to 3");
        for (rollout, stage) in [(number - 1, 2), (number + 1, 2), (number, 4)] {
            if rollout < 1 {
                continue;
            }
            let approval = json!({"approval": {"rollout": rollout, "stage": stage}});
            refused(t, approval, &fitting).await;
        }
        let zero = json!({"approval": {"rollout": number, "stage": 0}});
        refused(t, zero, "should be greater than or equal to 1").await;
        let half = json!({"approval": {"rollout": number}});
        refused(t, half, "status.approval.stage: Required value").await;

        let retry = json!({"retry": {"rollout": number}});
        let only =
            "only an aborted or failed rollout can be retried: the phase is AwaitingApproval";
        refused(t, retry, only).await;
        let abort = json!({"abort": {"rollout": number + 1}});
        let fitting = format!("status.abort must name the rollout under way: rollout: {number}");
        refused(t, abort, &fitting).await;

        t.abort("web").await;
        t.rolled_back("web").await;
        let approval = json!({"approval": {"rollout": number, "stage": 2}});
        refused(t, approval, "nothing can be approved now: the phase is RolledBack").await;
        let retry = json!({"retry": {"rollout": number + 1}});
        let fitting = format!("aborted or failed: rollout: {number}");
        refused(t, retry, &fitting).await;
    });
}

/// With nothing rolling out there is nothing to abort or to retry.
#[test]
fn abort_and_retry_when_completed() {
    run(async |t: &Test| {
        t.manage(2, &grayrollout("web", &[50, 100])).await;
        t.push("web", "v2").await;
        t.held("web", 1, 1, 1).await;
        t.approve("web", 2).await;
        t.completed("web").await;
        let number = t.rollout("web");
        let abort = json!({"abort": {"rollout": number}});
        refused(t, abort, "nothing can be aborted now: the phase is Completed").await;
        let retry = json!({"retry": {"rollout": number}});
        refused(t, retry, "can be retried: the phase is Completed").await;
    });
}

/// Requests that stay in place do not stand in the way of the operator, whatever comes next.
#[test]
fn leftovers_never_block() {
    run(async |t: &Test| {
        t.manage(4, &grayrollout("web", &[25, 50, 100])).await;
        t.push("web", "v2").await;
        t.held("web", 1, 1, 3).await;
        t.approve("web", 2).await;
        t.held("web", 2, 2, 2).await;
        t.abort("web").await;
        t.rolled_back("web").await;
        t.retry("web").await;
        t.held("web", 1, 1, 3).await;
        let status = t.status_now("web");
        for field in ["approval", "abort", "retry"] {
            assert!(status.int(&format!("/{field}/rollout")) < status.int("/rollout"), "{field}");
        }
        // Fewer stages than the old approval names.
        let stages = json!([{"percent": 100}]);
        t.patch_gr("web", &json!({"spec": {"stages": stages}})).await;
        t.status("web", "one stage", |status| status.int("/stages") == 1).await;
        t.approve("web", 1).await;
        t.completed("web").await;
        t.push("web", "v3").await;
        t.completed("web").await;
    });
}

/// The shipped roles: an approver may approve and not edit, an editor may edit and not approve, and
/// a viewer neither.
#[test]
fn who_may_approve() {
    run(async |t: &Test| {
        t.manage(2, &grayrollout("web", &[50, 100])).await;
        t.push("web", "v2").await;
        t.held("web", 1, 1, 1).await;
        for (user, role) in [("alice", "approver"), ("bob", "editor"), ("carol", "viewer")] {
            let role = format!("--clusterrole=grayrollout-{role}");
            let user = format!("--user={user}");
            t.kubectl(&["create", "rolebinding", &user[7..], &role, &user]).await;
        }
        let approval = json!({"status": {"approval": {"rollout": t.rollout("web"), "stage": 2}}});
        let (approval, edit) = (approval.to_string(), r#"{"spec": {"maxSurge": 2}}"#);
        let merge = "--type=merge";
        let approve = ["patch", "gr", "web", "--subresource=status", merge, "-p", &approval];
        let edit = ["patch", "gr", "web", merge, "-p", edit];
        for (user, may_approve, may_edit) in
            [("carol", false, false), ("bob", false, true), ("alice", true, false)]
        {
            let kubeconfig = t.cluster.kubeconfig_of(user);
            t.try_kubectl(&kubeconfig, &["get", "gr", "web"]).await.expect("all may look");
            for (act, may) in [(&approve[..], may_approve), (&edit[..], may_edit)] {
                let said = t.try_kubectl(&kubeconfig, act).await;
                assert_eq!(said.is_ok(), may, "{user} {act:?}: {said:?}");
            }
        }
        t.completed("web").await;
    });
}
