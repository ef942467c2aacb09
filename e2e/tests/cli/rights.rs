//! Users with few rights.

use grayrollout_e2e::{Test, grayrollout, run};

use crate::{
    look::line,
    plugin::{gray, gray_as},
};

async fn allow(t: &Test, user: &str, role: &str) {
    let binding = format!("{user}-{}", role.trim_start_matches("grayrollout-"));
    let (role, user) = (format!("--clusterrole={role}"), format!("--user={user}"));
    t.kubectl(&["create", "rolebinding", &binding, &role, &user]).await;
}

/// Who may only read sees everything, is told which commands are not theirs, and is refused by
/// verb and resource.
#[test]
fn a_user_who_may_only_read() {
    run(async |t: &Test| {
        t.manage(4, &grayrollout("web", &[25, 100])).await;
        t.push("web", "v2").await;
        t.held("web", 1, 1, 3).await;
        allow(t, "alice", "grayrollout-viewer").await;
        for args in [vec!["get"], vec!["get", "web", "-o", "json"], vec!["history", "web"]] {
            gray_as(t, "alice", &args).await.done();
        }
        gray_as(t, "alice", &["plan", "web"]).await.done();
        gray_as(t, "alice", &["wait", "web", "--for", "approval"]).await.done();
        let screen = gray_as(t, "alice", &["status", "web"]).await.done();
        assert!(line(&screen, "Phase").starts_with("AwaitingApproval"), "{screen}");
        for verbs in ["approve, abort and retry", "pause and resume", "undo and restart"] {
            assert!(screen.contains(&format!("{verbs} are not yours")), "{screen}");
        }
        let own = gray(t, &["status", "web"]).await.done();
        assert!(!own.contains("not yours"), "{own}");

        let lacking = |verb: &str, resource: &str| {
            format!("you lack the right to {verb} {resource} in namespace {}", t.namespace)
        };
        for (args, missing) in [
            (
                vec!["approve", "web", "--yes"],
                lacking("patch", "grayrollouts.grayrollout.dev/status"),
            ),
            (vec!["abort", "web"], lacking("patch", "grayrollouts.grayrollout.dev/status")),
            (vec!["retry", "web"], lacking("patch", "grayrollouts.grayrollout.dev/status")),
            (vec!["pause", "web"], lacking("patch", "grayrollouts.grayrollout.dev")),
            (vec!["restart", "web", "--yes"], lacking("patch", "deployments.apps")),
            (vec!["undo", "web"], lacking("get", "deployments.apps")),
            (vec!["init", "web"], lacking("get", "deployments.apps")),
        ] {
            let said = gray_as(t, "alice", &args).await.failed(1);
            assert!(said.contains(&missing), "{args:?}: {said}");
            assert!(said.contains("kubectl auth can-i"), "{args:?}: {said}");
        }
        assert!(t.status_now("web").get("approval").is_none());
    });
}

/// Who may approve can do so with the plugin and needs nothing else.
#[test]
fn a_user_who_may_approve() {
    run(async |t: &Test| {
        t.manage(4, &grayrollout("web", &[25, 100])).await;
        t.push("web", "v2").await;
        t.held("web", 1, 1, 3).await;
        allow(t, "bob", "grayrollout-approver").await;
        let screen = gray_as(t, "bob", &["status", "web"]).await.done();
        assert!(!screen.contains("approve, abort and retry are not yours"), "{screen}");
        gray_as(t, "bob", &["approve", "web", "--yes"]).await.done();
        t.completed("web").await;
        let by = t.status_now("web");
        assert_eq!(by["approval"]["by"], "bob");
    });
}

/// Who may nothing is told so.
#[test]
fn a_stranger() {
    run(async |t: &Test| {
        for (args, verb) in
            [(vec!["get"], "list"), (vec!["status", "web"], "get"), (vec!["get", "-A"], "list")]
        {
            let said = gray_as(t, "carol", &args).await.failed(1);
            let missing = format!("you lack the right to {verb} grayrollouts.grayrollout.dev");
            assert!(said.contains(&missing), "{said}");
        }
    });
}
