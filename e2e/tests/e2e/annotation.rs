//! The shortest way in: an annotation on the Deployment.

use std::time::Duration;

use grayrollout_e2e::{
    Json, Kind, Snapshot, Test, deployment, grayrollout, run, run_policed, run_without_operator,
};
use serde_json::{Value, json};

const STAGES: &str = "grayrollout.dev/stages";

fn asking(replicas: i64, stages: &str) -> Value {
    deployment("web", replicas).with(json!({"metadata": {"annotations": {STAGES: stages}}}))
}

/// Sets the annotation as a user does; `None` removes it.
async fn ask(t: &Test, stages: Option<&str>) {
    let change = stages.map_or(format!("{STAGES}-"), |stages| format!("{STAGES}={stages}"));
    t.kubectl(&["annotate", "--overwrite", "deployment/web", &change]).await;
}

fn percents(now: &Snapshot) -> Vec<i64> {
    now.gr("web").list("/spec/stages").iter().map(|stage| stage.int("/percent")).collect()
}

fn is_gone(now: &Snapshot) -> bool {
    now.get(Kind::GrayRollout, "web").is_none()
}

/// Nothing of ours is left on the Deployment.
fn given_back(now: &Snapshot) -> bool {
    let deployment = now.deployment("web");
    let annotations = deployment.at("/metadata/annotations").to_string();
    is_gone(now)
        && !annotations.contains("grayrollout.dev")
        && deployment.text("/spec/strategy/type") == "RollingUpdate"
}

/// A Deployment with the annotation needs nothing else: its GrayRollout is made, owned by it, and
/// the next version goes through the stages to the end.
#[test]
fn made_and_rolled_out_to_the_end() {
    run_policed(async |t: &Test| {
        t.create(&asking(4, "25,50,100")).await;
        t.completed("web").await;
        let (gr, web) = t.record.look(|now| (now.gr("web").clone(), now.deployment("web").clone()));
        let owner = gr.at("/metadata/ownerReferences/0");
        assert_eq!(owner.at("/uid"), web.at("/metadata/uid"));
        assert!(owner.flag("/controller"), "{owner}");
        assert_eq!(gr.annotation(STAGES), Some("25,50,100"));
        let event = t.event("web", "GrayRolloutCreated").await;
        assert_eq!(event.text("/involvedObject/kind"), "Deployment");
        t.push("web", "v2").await;
        t.held("web", 1, 1, 3).await;
        t.approve("web", 2).await;
        t.held("web", 2, 2, 2).await;
        t.approve("web", 3).await;
        t.completed("web").await;
        let made = t.record.history();
        let made = made.iter().filter(|stored| stored.kind == Kind::GrayRollout && !stored.deleted);
        let generations: Vec<_> =
            made.map(|stored| stored.object.int("/metadata/generation")).collect();
        assert!(generations.iter().all(|generation| *generation == 1), "{generations:?}");
    });
}

/// The annotation changes mid-rollout: the stages do, as if edited in the GrayRollout, and what
/// else someone set there stays.
#[test]
fn edited_mid_rollout() {
    run_policed(async |t: &Test| {
        t.create(&asking(4, "25,50,100")).await;
        t.completed("web").await;
        t.patch_gr("web", &json!({"spec": {"maxSurge": 1, "onDelete": "Promote"}})).await;
        t.push("web", "v2").await;
        t.held("web", 1, 1, 3).await;
        let rollout = t.rollout("web");
        ask(t, Some("25,75,100")).await;
        t.status("web", "the stages are edited", |status| {
            status.int("/rollout") > rollout && status.at("/stagePercents") == &json!([25, 75, 100])
        })
        .await;
        t.held("web", 1, 1, 3).await;
        let spec = t.record.look(|now| now.gr("web").at("/spec").clone());
        assert_eq!(spec.int("/maxSurge"), 1);
        assert_eq!(spec.text("/onDelete"), "Promote");
        t.approve("web", 2).await;
        t.held("web", 2, 3, 1).await;
        t.approve("web", 3).await;
        t.completed("web").await;
    });
}

/// Whoever may edit the Deployment but not approve sets the annotation at rest, and cannot get
/// around an approval by it mid-rollout.
#[test]
fn only_approvers_change_it_mid_rollout() {
    run_policed(async |t: &Test| {
        t.create(&deployment("web", 4)).await;
        t.kubectl(&["create", "rolebinding", "bob", "--clusterrole=edit", "--user=bob"]).await;
        let approver = "--clusterrole=grayrollout-approver";
        t.kubectl(&["create", "rolebinding", "alice", "--clusterrole=edit", "--user=alice"]).await;
        t.kubectl(&["create", "rolebinding", "approver", approver, "--user=alice"]).await;
        let says = async |user: &str, what: &str| {
            let kubeconfig = t.cluster.kubeconfig_of(user);
            let args = ["annotate", "--overwrite", "deployment/web", what];
            t.try_kubectl(&kubeconfig, &args).await
        };
        says("bob", "grayrollout.dev/stages=25,50,100").await.expect("at rest bob may");
        t.completed("web").await;
        t.push("web", "v2").await;
        t.held("web", 1, 1, 3).await;
        for change in ["grayrollout.dev/stages=25,100", "grayrollout.dev/stages-"] {
            let said = says("bob", change).await.expect_err("mid-rollout bob may not");
            assert!(said.contains("needs the verb approve"), "{said}");
        }
        says("bob", "team=shop").await.expect("everything else bob may");
        says("alice", "grayrollout.dev/stages=25,100").await.expect("alice may");
        t.status("web", "the stages are edited", |status| status.int("/stages") == 2).await;
        t.held("web", 1, 1, 3).await;
        t.approve("web", 2).await;
        t.completed("web").await;
        says("bob", "grayrollout.dev/stages-").await.expect("at rest bob may");
        t.until("given back", given_back).await;
    });
}

/// Soak times and approvals that were added to the stages stay while the shares are the same; a
/// share that was changed in the GrayRollout is put back.
#[test]
fn the_shares_are_the_annotations_and_the_rest_is_not() {
    run(async |t: &Test| {
        t.create(&asking(2, "50,100")).await;
        t.completed("web").await;
        let soaking = json!([{"percent": 50, "soakSeconds": 1}, {"percent": 100}]);
        t.patch_gr("web", &json!({"spec": {"stages": soaking}})).await;
        t.always("they stay", Duration::from_secs(2), |now| {
            now.gr("web").at("/spec/stages") == &soaking
        })
        .await;
        t.patch_gr("web", &json!({"spec": {"stages": [{"percent": 10}, {"percent": 100}]}})).await;
        t.until("the shares are put back", |now| percents(now) == [50, 100]).await;
    });
}

/// A value that makes no sense is told on the Deployment, with the right form, and changes nothing:
/// neither where there is no GrayRollout yet nor where there is one.
#[test]
fn bad_values_are_told_and_change_nothing() {
    run(async |t: &Test| {
        t.create(&asking(2, "ten,100")).await;
        let event = t.event("web", "InvalidStages").await;
        assert_eq!(event.text("/type"), "Warning");
        assert_eq!(event.text("/involvedObject/kind"), "Deployment");
        let said = event.text("/message");
        assert!(said.contains("\"ten\" is no whole number from 1 to 100"), "{said}");
        assert!(said.contains("such as \"10,50,100\""), "{said}");
        assert!(t.record.look(is_gone));
        ask(t, Some("50,100")).await;
        t.completed("web").await;
        for (bad, why) in [("60,50,100", "50 is not above 60"), ("50", "the last stage is 50")] {
            ask(t, Some(bad)).await;
            t.until(&format!("an event about {bad}"), |now| {
                now.all(Kind::Event).any(|event| {
                    event.text("/reason") == "InvalidStages" && event.text("/message").contains(why)
                })
            })
            .await;
        }
        t.record.look(|now| assert_eq!(percents(now), [50, 100]));
        assert_eq!(t.record.look(|now| now.gr("web").int("/metadata/generation")), 1);
    });
}

/// Without the annotation the GrayRollout goes, and at rest the Deployment is as it was.
#[test]
fn removed_at_rest() {
    run(async |t: &Test| {
        t.create(&asking(3, "50,100")).await;
        t.completed("web").await;
        ask(t, None).await;
        t.until("given back", |now| given_back(now) && !now.deployment("web").flag("/spec/paused"))
            .await;
        t.event("web", "GrayRolloutDeleted").await;
        t.kubectl(&["rollout", "restart", "deployment/web"]).await;
        t.kubectl(&["rollout", "status", "deployment/web", "--timeout=20s"]).await;
    });
}

/// Mid-rollout it goes as onDelete says: held by default, back where that was asked for.
#[test]
fn removed_mid_rollout() {
    run(async |t: &Test| {
        t.create(&asking(10, "20,100")).await;
        t.completed("web").await;
        t.push("web", "v2").await;
        t.held("web", 1, 2, 8).await;
        ask(t, None).await;
        t.until("held", |now| given_back(now) && now.deployment("web").flag("/spec/paused")).await;
        t.always("the share stays", Duration::from_secs(2), |now| now.split("web").new <= 3).await;

        ask(t, Some("20,100")).await;
        t.status("web", "it is taken over again", |status| {
            status.text("/phase") == "AwaitingApproval"
        })
        .await;
        t.patch_gr("web", &json!({"spec": {"onDelete": "Rollback"}})).await;
        t.until("that is noted on the Deployment", |now| {
            let original = now.deployment("web").annotation("grayrollout.dev/original");
            original.is_some_and(|original| original.contains("Rollback"))
        })
        .await;
        ask(t, None).await;
        t.until("v1 runs alone", |now| {
            given_back(now) && now.asked("web", "v1") == 10 && now.asked("web", "v2") == 0
        })
        .await;
    });
}

/// A GrayRollout that someone else made for the Deployment is left alone, under its name or
/// another, and an event says so; it outlives the annotation.
#[test]
fn one_of_someone_elses_is_left_alone() {
    run(async |t: &Test| {
        t.manage(2, &grayrollout("web", &[50, 100])).await;
        let before = t.record.look(|now| now.gr("web").clone());
        ask(t, Some("10,100")).await;
        let event = t.event("web", "StagesIgnored").await;
        assert_eq!(event.text("/type"), "Warning");
        assert!(event.text("/message").contains("the GrayRollout web exists"), "{event}");
        ask(t, None).await;
        t.always("it is left alone", Duration::from_secs(2), |now| {
            now.gr("web").at("/spec") == before.at("/spec")
                && now.gr("web").at("/metadata/ownerReferences").is_null()
        })
        .await;
        t.kubectl(&["delete", "gr", "web", "--timeout=10s"]).await;

        t.create(&grayrollout("web", &[50, 100]).with(json!({"metadata": {"name": "canary"}})))
            .await;
        ask(t, Some("10,100")).await;
        t.until("an event about it", |now| {
            now.all(Kind::Event).any(|event| event.text("/message").contains("GrayRollout canary"))
        })
        .await;
        assert!(t.record.look(is_gone));
        // Once nobody else's is there, the annotation counts.
        t.kubectl(&["delete", "gr", "canary", "--timeout=10s"]).await;
        t.until("it is made", |now| percents(now) == [10, 100]).await;
        t.completed("web").await;
        // And one that was deleted by hand is made again.
        t.kubectl(&["delete", "gr", "web", "--timeout=10s"]).await;
        t.until("it is made again", |now| percents(now) == [10, 100]).await;
    });
}

/// What happens to the annotation while the operator is down is caught up with.
#[test]
fn caught_up_after_an_outage() {
    run(async |t: &Test| {
        t.create(&deployment("web", 2)).await;
        t.kill_operator().await;
        ask(t, Some("50,100")).await;
        t.start_operator().await;
        t.completed("web").await;
        t.kill_operator().await;
        ask(t, Some("20,100")).await;
        t.start_operator().await;
        t.until("the stages follow", |now| percents(now) == [20, 100]).await;
        t.completed("web").await;
        t.kill_operator().await;
        ask(t, None).await;
        t.start_operator().await;
        t.until("given back", given_back).await;
    });
}

/// It goes with its Deployment, and the next one of the name gets one of its own.
#[test]
fn gone_with_its_deployment() {
    run(async |t: &Test| {
        t.create(&asking(2, "50,100")).await;
        t.completed("web").await;
        let uid = t.record.look(|now| now.gr("web").text("/metadata/uid").to_owned());
        t.kubectl(&["delete", "deployment", "web", "--wait=true"]).await;
        t.until("it is gone", |now| now.has_ended(&uid)).await;
        t.create(&asking(2, "20,100")).await;
        t.until("another is made", |now| percents(now) == [20, 100]).await;
        t.completed("web").await;
    });
}

/// Nothing more is written once all is as the annotation says, and what cannot be followed is told
/// once, however often it is looked at.
#[test]
fn nothing_is_written_at_rest() {
    run_without_operator(async |t: &Test| {
        let kubeconfig = &t.cluster.operator_kubeconfig;
        t.start_operator_with(kubeconfig, &["--resync-seconds", "1"]).await;
        t.create(&asking(2, "50,100")).await;
        t.completed("web").await;
        let bad = deployment("api", 1).with(json!({"metadata": {"annotations": {STAGES: "x"}}}));
        t.create(&bad).await;
        t.event("api", "InvalidStages").await;
        let before = t.quiet("web").await;
        let looks = ["grayrollout_reconcile_duration_seconds_count{", r#"result="success""#];
        let looked = t.metric(&looks).await;
        let end = tokio::time::Instant::now() + Duration::from_secs(20);
        while t.metric(&looks).await < looked + 8.0 {
            assert!(tokio::time::Instant::now() < end, "it is not looked at again");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        assert_eq!(t.record.newest(), before, "something was written at rest");
    });
}
