//! The GrayRollout, the Deployment or the namespace is deleted.

use std::time::Duration;

use grayrollout_e2e::{
    Json, Snapshot, Split, Test, deployment, grayrollout, new_template, pods_ready_after, run,
};
use serde_json::json;

/// Whether nothing of ours is left on a Deployment and its strategy is its own.
fn given_back(now: &Snapshot) -> bool {
    let deployment = now.deployment("web");
    let annotations = deployment.at("/metadata/annotations").to_string();
    !annotations.contains("grayrollout.dev")
        && deployment.text("/spec/strategy/type") == "RollingUpdate"
        && deployment.text("/spec/strategy/rollingUpdate/maxSurge") == "25%"
        && deployment.text("/spec/strategy/rollingUpdate/maxUnavailable") == "25%"
}

fn paused(now: &Snapshot) -> bool {
    now.deployment("web").flag("/spec/paused")
}

async fn held_with(t: &Test, on_delete: &str) {
    let gr = grayrollout("web", &[20, 100]).with(json!({"spec": {"onDelete": on_delete}}));
    t.manage(10, &gr).await;
    t.push("web", "v2").await;
    t.held("web", 1, 2, 8).await;
}

/// Deleted at rest: unpaused as before, no pod touched, and the native controller rolls out again.
#[test]
fn deleted_at_rest() {
    run(async |t: &Test| {
        t.manage(4, &grayrollout("web", &[50, 100])).await;
        let sets = t.record.look(|now| now.replica_sets(now.deployment("web")).len());
        t.kubectl(&["delete", "gr", "web", "--timeout=10s"]).await;
        t.until("given back", |now| given_back(now) && !paused(now)).await;
        assert_eq!(t.record.look(|now| now.replica_sets(now.deployment("web")).len()), sets);
        t.kubectl(&["rollout", "restart", "deployment/web"]).await;
        t.kubectl(&["rollout", "status", "deployment/web", "--timeout=20s"]).await;
    });
}

/// A Deployment that was paused before is given back paused.
#[test]
fn given_back_paused_as_it_was() {
    run(async |t: &Test| {
        let web = deployment("web", 3);
        t.create(&web).await;
        t.until("v1 runs", |now| now.deployment("web").int("/status/availableReplicas") == 3).await;
        t.kubectl(&["rollout", "pause", "deployment/web"]).await;
        t.create(&grayrollout("web", &[50, 100])).await;
        t.completed("web").await;
        t.kubectl(&["delete", "gr", "web", "--timeout=10s"]).await;
        t.until("given back", given_back).await;
        t.always("it stays paused", Duration::from_secs(1), paused).await;
    });
}

/// Deleted while held at 20% with onDelete: Hold: it stays there, paused, in its own strategy.
#[test]
fn k272_hold_keeps_the_share() {
    run(async |t: &Test| {
        held_with(t, "Hold").await;
        t.kubectl(&["delete", "gr", "web", "--timeout=10s"]).await;
        t.until("given back", |now| given_back(now) && paused(now)).await;
        // The native controller may fill up to 10 + 25%, by the same share.
        t.always("the share stays", Duration::from_secs(3), |now| {
            let Split { new, old } = now.split("web");
            (2..=3).contains(&new) && (8..=11).contains(&old) && new + old <= 13
        })
        .await;
    });
}

/// onDelete: Rollback goes back to v1, puts its template back, and unpauses.
#[test]
fn a3855_rollback_leaves_nothing_behind() {
    run(async |t: &Test| {
        held_with(t, "Rollback").await;
        t.kubectl(&["delete", "gr", "web", "--timeout=10s"]).await;
        t.until("v1 alone, given back", |now| {
            let image = now.deployment("web").text("/spec/template/spec/containers/0/image");
            image == "app:v1"
                && given_back(now)
                && !paused(now)
                && now.split("web") == Split { new: 10, old: 0 }
                && now.settled("web")
        })
        .await;
    });
}

/// onDelete: Promote lets the native controller finish.
#[test]
fn promote_lets_it_go_on() {
    run(async |t: &Test| {
        held_with(t, "Promote").await;
        t.kubectl(&["delete", "gr", "web", "--timeout=10s"]).await;
        t.until("v2 alone, given back", |now| {
            given_back(now)
                && !paused(now)
                && now.split("web") == Split { new: 10, old: 0 }
                && now.settled("web")
        })
        .await;
    });
}

/// Deleted in the midst of moving: no wait, and the strategy is the user's own again.
#[test]
fn deleted_while_moving() {
    run(async |t: &Test| {
        t.manage(10, &grayrollout("web", &[50, 100])).await;
        t.push_pods("web", "v2", pods_ready_after("700ms")).await;
        t.until("some are new", |now| now.split("web").new >= 2).await;
        t.kubectl(&["delete", "gr", "web", "--timeout=10s"]).await;
        t.until("given back", |now| given_back(now) && paused(now)).await;
        let Split { new, .. } = t.record.look(|now| now.split("web"));
        assert!(new <= 7, "{new}: the present share and what the surge adds");
    });
}

/// Deleted while the operator is down: done at its next start, by what the Deployment itself says.
#[test]
fn deleted_while_the_operator_is_down() {
    run(async |t: &Test| {
        held_with(t, "Rollback").await;
        t.kill_operator().await;
        t.kubectl(&["delete", "gr", "web", "--timeout=10s"]).await;
        t.start_operator().await;
        t.until("v1 alone, given back", |now| {
            given_back(now) && !paused(now) && now.split("web") == Split { new: 10, old: 0 }
        })
        .await;
        let image = t.deployment_now("web");
        assert_eq!(image.text("/spec/template/spec/containers/0/image"), "app:v1");
    });
}

/// G is removed mid-rollout, then the template changes with the operator down: the strategy is the
/// user's own, and never are more pods down than it allows.
#[test]
fn k305_a_change_after_all_are_gone() {
    run(async |t: &Test| {
        held_with(t, "Hold").await;
        t.kubectl(&["delete", "gr", "web", "--timeout=10s"]).await;
        t.until("given back", |now| given_back(now) && paused(now)).await;
        t.kill_operator().await;
        let start = t.record.newest();
        let patch = new_template("v3", pods_ready_after("200ms"));
        t.patch_deployment("web", &patch.with(json!({"spec": {"paused": false}}))).await;
        t.until("v3 alone", |now| {
            now.split("web") == Split { new: 10, old: 0 } && now.settled("web")
        })
        .await;
        let available =
            t.least_since(start, |now| now.deployment("web").int("/status/availableReplicas"));
        assert!(available >= 8, "{available} of 10 available with maxUnavailable 25%");
    });
}

/// G is deleted when D is already gone: it ends at once.
#[test]
fn k186_deleted_after_its_target() {
    run(async |t: &Test| {
        held_with(t, "Rollback").await;
        t.kubectl(&["delete", "deployment", "web", "--wait=true"]).await;
        t.phase("web", "Pending").await;
        t.kubectl(&["delete", "gr", "web", "--timeout=5s"]).await;
        t.until("gone", |now| now.gr("web").is_null()).await;
    });
}

/// The whole namespace is deleted mid-rollout: it ends.
#[test]
fn the_namespace_is_deleted() {
    run(async |t: &Test| {
        // Nothing can be created in a namespace that goes, and the order of its objects is open.
        t.exempt("403");
        t.exempt("S9");
        held_with(t, "Rollback").await;
        let path = format!("/api/v1/namespaces/{}", t.namespace);
        t.api.delete(&path).await.unwrap();
        t.kubectl(&["wait", "--for=delete", "namespace", &t.namespace, "--timeout=90s"]).await;
    });
}
