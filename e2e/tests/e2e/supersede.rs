//! The template changes again before the rollout is through.

use grayrollout_e2e::{
    Json, Kind, Test, deployment, grayrollout, pods_are, pods_ready_after, reason_of, run,
};
use serde_json::{Value, json};

fn result(status: &Value, number: i64) -> &str {
    status
        .list("/history")
        .iter()
        .find(|entry| entry.int("/rollout") == number)
        .map_or("", |entry| entry.text("/result"))
}

/// v3 pushed while v2 is held at its first stage: v2 goes before any pod of v1 does, v3 begins at
/// stage 1, and v1 is still what one can go back to.
#[test]
fn a3331_pushed_again_while_held() {
    run(async |t: &Test| {
        t.manage(10, &grayrollout("web", &[10, 50, 100])).await;
        let stable = t.status_now("web").at("/stableRevision").clone();
        t.push("web", "v2").await;
        t.held("web", 1, 1, 9).await;
        let first = t.rollout("web");
        let start = t.record.newest();
        t.push("web", "v3").await;
        t.status("web", "the next rollout", |status| status.int("/rollout") > first).await;
        t.held("web", 1, 1, 9).await;
        t.record.look(|now| {
            assert_eq!(
                (now.asked("web", "v1"), now.asked("web", "v2"), now.asked("web", "v3")),
                (9, 0, 1)
            );
        });
        assert!(t.least_since(start, |now| now.asked("web", "v1")) >= 9, "v2 goes before v1");
        let status = t.status_now("web");
        assert_eq!(status.int("/rollout"), first + 1);
        assert_eq!(status.at("/stableRevision"), &stable);
        assert_eq!(result(&status, first), "Superseded");
        t.event("web", "RolloutSuperseded").await;

        let refused = t.try_approve("web", first, 2).await.unwrap_err();
        assert!(refused.contains(&format!("rollout: {}", first + 1)), "{refused}");
        t.approve("web", 3).await;
        t.completed("web").await;
    });
}

/// The same in the midst of moving.
#[test]
fn pushed_again_while_moving() {
    run(async |t: &Test| {
        t.manage(10, &grayrollout("web", &[10, 50, 100])).await;
        t.push_pods("web", "v2", pods_ready_after("500ms")).await;
        t.held("web", 1, 1, 9).await;
        let first = t.rollout("web");
        t.approve("web", 2).await;
        t.until("stage 2 moves", |now| (3..5).contains(&now.asked("web", "v2"))).await;
        t.push("web", "v3").await;
        t.status("web", "the next rollout", |status| status.int("/rollout") > first).await;
        t.held("web", 1, 1, 9).await;
        t.record.look(|now| assert_eq!((now.asked("web", "v1"), now.asked("web", "v2")), (9, 0)));
        t.approve("web", 3).await;
        t.completed("web").await;
    });
}

/// v2 cannot be pulled and is held at 20%; v3 is pushed: v2 goes first, and never are fewer pods
/// of v1 available than promised.
#[test]
fn k149_pushed_again_over_an_unpullable_one() {
    run(async |t: &Test| {
        let gr =
            grayrollout("web", &[20, 100]).with(json!({"spec": {"progressDeadlineSeconds": 2}}));
        t.manage(5, &gr).await;
        let start = t.record.newest();
        t.push_pods("web", "v2", pods_are("unpullable")).await;
        t.stalled("web", "ProgressDeadlineExceeded").await;
        let first = t.rollout("web");
        t.push_pods("web", "v3", pods_are("always")).await;
        t.status("web", "the next rollout", |status| status.int("/rollout") > first).await;
        t.held("web", 1, 1, 4).await;
        let versions = t.since(start, |now| {
            (now.asked("web", "v2"), now.asked("web", "v3"), now.asked("web", "v1"))
        });
        let gone = versions.iter().rposition(|(v2, _, _)| *v2 > 0).unwrap();
        assert!(
            versions[..gone].iter().all(|(_, _, v1)| *v1 == 5),
            "no pod of v1 goes before those of v2"
        );
        t.approve("web", 2).await;
        t.completed("web").await;
    });
}

/// The v1 manifest applied again at 20%: back to v1 alone, released, and told apart in history.
#[test]
fn k257_the_old_manifest_applied_again() {
    run(async |t: &Test| {
        t.manage(5, &grayrollout("web", &[20, 100])).await;
        let stable = t.status_now("web").at("/stableRevision").clone();
        t.push("web", "v2").await;
        t.held("web", 1, 1, 4).await;
        let rollout = t.rollout("web");
        let manifest = t.cluster.dir.join(format!("{}.json", t.namespace));
        std::fs::write(&manifest, deployment("web", 5).to_string()).unwrap();
        t.kubectl(&["apply", "-f", manifest.to_str().unwrap()]).await;
        t.completed("web").await;
        t.record.look(|now| assert_eq!(now.asked("web", "v1"), 5));
        let status = t.status_now("web");
        assert_eq!(status.at("/stableRevision"), &stable);
        assert_eq!(result(&status, rollout), "RevertedByTemplate");
    });
}

/// v2, v1 and v2 again: the second v2 is another rollout, for which old approvals do not count.
#[test]
fn f862_the_same_revision_again() {
    run(async |t: &Test| {
        t.manage(4, &grayrollout("web", &[25, 50, 100])).await;
        t.push("web", "v2").await;
        t.held("web", 1, 1, 3).await;
        t.approve("web", 2).await;
        t.held("web", 2, 2, 2).await;
        let first = t.rollout("web");
        t.push("web", "v1").await;
        t.completed("web").await;
        t.push("web", "v2").await;
        t.held("web", 1, 1, 3).await;
        assert!(t.rollout("web") > first);
        t.approve("web", 3).await;
        t.completed("web").await;
    });
}

/// v2 is aborted, v3 is pushed: it starts at stage 1.
#[test]
fn a2048_pushed_after_an_abort() {
    run(async |t: &Test| {
        t.manage(4, &grayrollout("web", &[25, 50, 100])).await;
        t.push("web", "v2").await;
        t.held("web", 1, 1, 3).await;
        t.approve("web", 2).await;
        t.held("web", 2, 2, 2).await;
        t.abort("web").await;
        t.rolled_back("web").await;
        t.push("web", "v3").await;
        t.held("web", 1, 1, 3).await;
        t.approve("web", 3).await;
        t.completed("web").await;
        t.record.look(|now| assert_eq!(now.asked("web", "v3"), 4));
    });
}

/// v2 and v3 pushed one after the other while a quota refuses more pods: that is shown, v2 is
/// drained, the sums are right, and it goes on by itself once the quota is lifted.
#[test]
fn a1860_pushed_twice_while_pods_are_refused() {
    run(async |t: &Test| {
        t.manage(4, &grayrollout("web", &[25, 100])).await;
        t.create(&json!({
            "apiVersion": "v1", "kind": "ResourceQuota",
            "metadata": {"name": "no-more"}, "spec": {"hard": {"pods": "4"}},
        }))
        .await;
        t.kubectl(&[
            "wait",
            "--for=jsonpath={.status.used.pods}=4",
            "resourcequota/no-more",
            "--timeout=30s",
        ])
        .await;
        t.push("web", "v2").await;
        t.stalled("web", "ReplicaFailure").await;
        t.event("web", "ReplicaFailure").await;
        let message = t.status_now("web").text("/message").to_owned();
        assert!(message.contains("quota"), "{message}");
        t.push("web", "v3").await;
        t.until("v2 is drained, v3 is refused", |now| {
            let status = now.gr("web").at("/status");
            now.asked("web", "v2") == 0
                && now.asked("web", "v3") == 1
                && reason_of(status, "Stalled") == "ReplicaFailure"
        })
        .await;
        let status = t.status_now("web");
        assert_eq!(status.int("/stable/current"), 4);
        assert_eq!(status.int("/update/current"), 0);
        t.record.look(|now| assert_eq!(now.available("web", "v1"), 4));

        t.kubectl(&["delete", "resourcequota", "no-more"]).await;
        t.held("web", 1, 1, 3).await;
        t.approve("web", 2).await;
        t.completed("web").await;
        // A pod of the old revision may still be about to end.
        t.until("four pods are left", |now| now.all(Kind::Pod).count() == 4).await;
    });
}
