//! What is there when the operator first looks, what is not, and what cannot be worked with.

use std::time::Duration;

use grayrollout_e2e::{
    Json, Kind, OPERATOR, Split, Test, deployment, grayrollout, new_template, pods_are,
    pods_ready_after, reason_of, run, writer,
};
use serde_json::json;

/// A rollout of the native controller is under way when the GrayRollout is made: it is held with
/// at least as many new pods as there are, and goes on by approval.
#[test]
fn a_native_rollout_in_flight_is_held() {
    run(async |t: &Test| {
        t.create(&deployment("web", 10)).await;
        t.until("v1 runs", |now| now.deployment("web").int("/status/availableReplicas") == 10)
            .await;
        t.patch_deployment("web", &new_template("v2", pods_are("never"))).await;
        t.until("the native rollout is stuck", |now| now.split("web") == Split { new: 5, old: 8 })
            .await;
        let start = t.record.newest();
        t.create(&grayrollout("web", &[10, 50, 80, 100])).await;
        t.status("web", "it is held at the last stage that is reached", |status| {
            status.int("/stage") == 2 && status.int("/stages") == 4
        })
        .await;
        t.until("it is held by its form", |now| now.deployment("web").flag("/spec/paused")).await;
        t.annotate_pods("v2", "kwok.grayrollout.dev/ready=always").await;
        t.held("web", 2, 5, 5).await;
        assert!(t.least_since(start, |now| now.split("web").new) >= 5);
        assert!(t.most_since(start, |now| now.split("web").new) <= 5);
        // Pods that follow are made from the template, and get ready with another one only.
        t.push_pods("web", "v3", pods_are("always")).await;
        t.status("web", "v3 at stage 1", |status| {
            status.int("/stage") == 1 && status.text("/phase") == "AwaitingApproval"
        })
        .await;
        t.held("web", 1, 1, 9).await;
    });
}

/// Held in flight below the first stage: stage 0 with the pods it has, and stage 1 is approved.
#[test]
fn a_native_rollout_below_the_first_stage() {
    run(async |t: &Test| {
        let surge = json!({"spec": {"strategy": {"rollingUpdate": {
            "maxSurge": 1, "maxUnavailable": 0,
        }}}});
        t.create(&deployment("web", 4).with(surge)).await;
        t.until("v1 runs", |now| now.deployment("web").int("/status/availableReplicas") == 4).await;
        t.patch_deployment("web", &new_template("v2", pods_ready_after("3s"))).await;
        t.split("web", 1, 4).await;
        t.create(&grayrollout("web", &[50, 100])).await;
        t.held("web", 0, 1, 3).await;
        t.approve("web", 1).await;
        t.held("web", 1, 2, 2).await;
        t.approve("web", 2).await;
        t.completed("web").await;
    });
}

/// Created in one apply: there is nothing older to keep, so all pods come at once.
#[test]
fn created_together() {
    run(async |t: &Test| {
        let template = json!({"spec": {"template": {"metadata": {
            "annotations": pods_ready_after("1s"),
        }}}});
        let both = json!({"apiVersion": "v1", "kind": "List", "items": [
            grayrollout("web", &[10, 100]), deployment("web", 5).with(template),
        ]});
        let manifest = t.cluster.dir.join(format!("{}.json", t.namespace));
        std::fs::write(&manifest, both.to_string()).unwrap();
        t.kubectl(&["apply", "-f", manifest.to_str().unwrap()]).await;
        t.status("web", "the first deploy", |status| {
            reason_of(status, "Progressing") == "FirstDeploy"
        })
        .await;
        t.completed("web").await;
        assert_eq!(t.record.look(|now| now.all(Kind::ReplicaSet).count()), 1);
    });
}

/// No target yet: told by phase and event; it goes on when the target comes.
#[test]
fn the_target_comes_later() {
    run(async |t: &Test| {
        t.create(&grayrollout("web", &[50, 100])).await;
        t.phase("web", "Pending").await;
        assert_eq!(reason_of(&t.status_now("web"), "Ready"), "TargetNotFound");
        let event = t.event("web", "TargetNotFound").await;
        assert_eq!(event.text("/type"), "Warning");
        let said = t.try_approve("web", 1, 1).await.unwrap_err();
        assert!(said.contains("nothing can be approved now: the phase is Pending"), "{said}");
        t.create(&deployment("web", 2)).await;
        t.completed("web").await;
        t.push("web", "v2").await;
        t.held("web", 1, 1, 1).await;
    });
}

/// The target is deleted mid-rollout and created again under the same name: it is another one,
/// everything starts afresh, and no rollout number is used twice.
#[test]
fn the_target_is_recreated() {
    run(async |t: &Test| {
        t.manage(4, &grayrollout("web", &[25, 50, 100])).await;
        t.push("web", "v2").await;
        t.held("web", 1, 1, 3).await;
        t.approve("web", 2).await;
        t.held("web", 2, 2, 2).await;
        let (rollout, uid) = (t.rollout("web"), t.deployment_now("web"));
        t.kubectl(&["delete", "deployment", "web", "--wait=true"]).await;
        t.phase("web", "Pending").await;
        t.create(&deployment("web", 4)).await;
        t.completed("web").await;
        let status = t.status_now("web");
        assert_ne!(status.at("/targetUID"), uid.at("/metadata/uid"));
        t.push("web", "v2").await;
        t.held("web", 1, 1, 3).await;
        assert!(t.rollout("web") > rollout, "a number is never used twice");
    });
}

/// The strategy Recreate cannot be staged: refused with the reason until it is changed.
#[test]
fn recreate_is_refused() {
    run(async |t: &Test| {
        let recreate = json!({"spec": {"strategy": {"type": "Recreate"}}});
        t.create(&deployment("web", 3).with(recreate)).await;
        t.create(&grayrollout("web", &[50, 100])).await;
        t.stalled("web", "UnsupportedStrategy").await;
        let message = t.status_now("web").text("/message").to_owned();
        assert!(message.contains("RollingUpdate"), "it says what to do: {message}");
        let rolling = json!({"spec": {"strategy": {"type": "RollingUpdate"}}});
        t.patch_deployment("web", &rolling).await;
        t.completed("web").await;
    });
}

/// A template with the label pod-template-hash is refused with the reason until it is gone.
#[test]
fn a_template_with_the_hash_label_is_refused() {
    run(async |t: &Test| {
        let label = |value| json!({"spec": {"template": {"metadata": {"labels": {"pod-template-hash": value}}}}});
        t.create(&deployment("web", 2).with(label(json!("own")))).await;
        t.create(&grayrollout("web", &[50, 100])).await;
        t.stalled("web", "InvalidTemplate").await;
        let message = t.status_now("web").text("/message").to_owned();
        assert!(message.contains("pod-template-hash"), "{message}");
        t.patch_deployment("web", &label(json!(null))).await;
        t.status("web", "it goes on", |status| status.text("/phase") != "Stalled").await;
    });
}

/// Two GrayRollouts for one Deployment: the older works, the other says so, and takes over when
/// the older is gone.
#[test]
fn two_for_one_deployment() {
    run(async |t: &Test| {
        t.manage(4, &grayrollout("web", &[25, 100])).await;
        // Creation times have whole seconds.
        tokio::time::sleep(Duration::from_millis(1100)).await;
        let second = grayrollout("web", &[50, 100]).with(json!({"metadata": {"name": "another"}}));
        t.create(&second).await;
        t.stalled("another", "TargetConflict").await;
        let message = t.status_now("another").text("/message").to_owned();
        assert!(message.contains("web"), "{message}");
        t.push("web", "v2").await;
        t.held("web", 1, 1, 3).await;
        t.approve("web", 2).await;
        t.completed("web").await;
        assert_eq!(reason_of(&t.status_now("another"), "Stalled"), "TargetConflict");

        t.kubectl(&["delete", "gr", "web"]).await;
        t.phase("another", "Completed").await;
        t.push("web", "v3").await;
        t.until("by the stages of the other", |now| {
            now.split("web") == Split { new: 2, old: 2 }
                && now.gr("another").text("/status/phase") == "AwaitingApproval"
        })
        .await;
    });
}

/// Two Deployments with one and the same selector: only ReplicaSets of the target are written.
#[test]
fn k202_n108372_overlapping_selectors() {
    run(async |t: &Test| {
        let shared = json!({"spec": {
            "selector": {"matchLabels": {"app": null, "team": "shared"}},
            "template": {"metadata": {"labels": {"app": null, "team": "shared"}}},
        }});
        t.create(&deployment("other", 3).with(shared.clone())).await;
        t.manage_with(&deployment("web", 4).with(shared), &grayrollout("web", &[50, 100])).await;
        t.push("web", "v2").await;
        t.held("web", 1, 2, 2).await;
        t.approve("web", 2).await;
        t.completed("web").await;
        let uid = t.deployment_now("other").text("/metadata/uid").to_owned();
        let history = t.record.history();
        let theirs: Vec<_> = history
            .iter()
            .filter(|stored| {
                stored.kind == Kind::ReplicaSet
                    && stored.object.text("/metadata/ownerReferences/0/uid") == uid
            })
            .collect();
        assert!(!theirs.is_empty());
        for stored in theirs {
            assert_eq!(stored.object.int("/spec/replicas"), 3);
            assert_ne!(writer(None, &stored.object, &["nothing"]), Some(OPERATOR));
        }
        assert!(t.deployment_now("other").annotation("grayrollout.dev/rollout").is_none());
    });
}
