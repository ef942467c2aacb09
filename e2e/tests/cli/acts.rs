//! Going back, trying again, pausing, restarting.

use std::time::Duration;

use grayrollout_e2e::{Json, Test, grayrollout, run};

use crate::plugin::gray;

async fn at_stage_1(t: &Test) {
    t.manage(4, &grayrollout("web", &[25, 50, 100])).await;
    t.push("web", "v2").await;
    t.held("web", 1, 1, 3).await;
}

#[test]
fn abort_and_retry() {
    run(async |t: &Test| {
        at_stage_1(t).await;
        let rollout = t.rollout("web");
        let other = (rollout + 1).to_string();
        let said = gray(t, &["abort", "web", "--rollout", &other]).await.failed(1);
        assert!(
            said.contains(&format!("must name the rollout under way: rollout: {rollout}")),
            "{said}"
        );
        let said = gray(t, &["retry", "web"]).await.failed(1);
        assert!(said.contains("only an aborted or failed rollout can be retried"), "{said}");

        let stable = t.status_now("web").text("/stableRevision").to_owned();
        let said = gray(t, &["abort", "web"]).await.done();
        assert!(
            said.contains(&format!("rollout {rollout}: aborted, going back to revision {stable}"))
        );
        t.rolled_back("web").await;
        let screen = gray(t, &["status", "web"]).await.done();
        assert!(screen.contains(&format!("kubectl gray retry web -n {}", t.namespace)), "{screen}");

        gray(t, &["retry", "web"]).await.done();
        t.held("web", 1, 1, 3).await;
        assert_eq!(t.rollout("web"), rollout + 1);
    });
}

#[test]
fn pause_and_resume() {
    run(async |t: &Test| {
        at_stage_1(t).await;
        gray(t, &["pause", "web"]).await.done();
        t.phase("web", "Paused").await;
        assert!(gray(t, &["pause", "web"]).await.done().contains("already"));
        gray(t, &["approve", "web", "--stage", "3", "--yes"]).await.done();
        t.always("paused is paused", Duration::from_secs(1), |now| now.split("web").new == 1).await;
        gray(t, &["resume", "web"]).await.done();
        t.completed("web").await;
        assert!(gray(t, &["resume", "web"]).await.done().contains("already"));
    });
}

/// The stable template comes back, where kubectl rollout undo refuses a paused Deployment.
#[test]
fn undo_puts_the_stable_template_back() {
    run(async |t: &Test| {
        at_stage_1(t).await;
        let before = t.deployment_now("web");
        assert!(gray(t, &["undo", "web"]).await.done().contains("is put back"));
        t.completed("web").await;
        let after = t.deployment_now("web");
        assert_eq!(after.text("/spec/template/spec/containers/0/image"), "app:v1");
        assert!(after.at("/spec/template/metadata/labels/pod-template-hash").is_null());
        assert_eq!(after.at("/spec/selector"), before.at("/spec/selector"));
        assert_eq!(t.status_now("web").text("/history/0/result"), "RevertedByTemplate");
        let said = gray(t, &["undo", "web"]).await.done();
        assert!(said.contains("already") && said.contains("kubectl rollout history"), "{said}");
    });
}

/// At rest an earlier revision comes back by its number, stage by stage, also where the Deployment
/// rests paused.
#[test]
fn undo_to_an_earlier_revision() {
    run(async |t: &Test| {
        at_stage_1(t).await;
        gray(t, &["approve", "web", "--stage", "3", "--yes"]).await.done();
        t.completed("web").await;
        let said = gray(t, &["abort", "web"]).await.failed(1);
        assert!(said.contains("kubectl gray undo web") && said.contains("--to-revision"), "{said}");
        let said = gray(t, &["undo", "web", "--to-revision", "99"]).await.failed(1);
        assert!(said.contains("no revision 99; see: kubectl rollout history"), "{said}");
        gray(t, &["undo", "web", "--to-revision", "1"]).await.done();
        t.held("web", 1, 1, 3).await;
        let image = "/spec/template/spec/containers/0/image";
        assert_eq!(t.deployment_now("web").text(image), "app:v1");
    });
}

/// A restart is staged like any rollout, and does not push another one aside unasked.
#[test]
fn restart_is_staged() {
    run(async |t: &Test| {
        t.manage(4, &grayrollout("web", &[25, 100])).await;
        gray(t, &["restart", "web"]).await.done();
        t.held("web", 1, 1, 3).await;
        let key = "/spec/template/metadata/annotations/kubectl.kubernetes.io~1restartedAt";
        let first = t.deployment_now("web").text(key).to_owned();
        assert!(!first.is_empty());
        let rollout = t.rollout("web");
        let said = gray(t, &["restart", "web"]).await.failed(1);
        assert!(said.contains(&format!("rollout {rollout} is not over")), "{said}");
        assert_eq!(t.deployment_now("web").text(key), first);
        gray(t, &["approve", "web", "--yes"]).await.done();
        t.completed("web").await;
    });
}
