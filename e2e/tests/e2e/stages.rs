//! Rollouts that go well: how many pods each stage has, and what it takes to leave and enter one.

use std::time::Duration;

use grayrollout_e2e::{Json, Kind, Split, Test, deployment, grayrollout, reason_of, run, stages};
use serde_json::{Value, json};

/// 10, 50 and 100 percent of 10 pods, each approved by hand with kubectl.
#[test]
fn clean_10_50_100() {
    run(async |t: &Test| {
        t.manage(10, &grayrollout("web", &[10, 50, 100])).await;
        let before = t.status_now("web");
        t.push("web", "v2").await;
        t.held("web", 1, 1, 9).await;
        let status = t.status_now("web");
        assert!(status.int("/rollout") > before.int("/rollout"));
        assert_eq!(status.at("/stableRevision"), before.at("/stableRevision"));
        assert_ne!(status.at("/updateRevision"), status.at("/stableRevision"));
        let expected = json!({
            "stages": 3, "progress": "1/3", "updated": "1/1", "replicas": 10,
            "desiredPercent": 10, "actualPercent": 10,
        });
        t.status("web", "the counts", |status| {
            let fields = expected.as_object().unwrap();
            let told = fields.iter().all(|(field, value)| &status[field] == value);
            let track = |name: &str, count: i64| {
                let track = status.at(&format!("/{name}"));
                ["/desired", "/current", "/available"].iter().all(|field| track.int(field) == count)
            };
            told && track("stable", 9) && track("update", 1)
        })
        .await;

        t.approve("web", 2).await;
        t.held("web", 2, 5, 5).await;
        t.status("web", "half", |status| {
            status.int("/actualPercent") == 50 && status.text("/progress") == "2/3"
        })
        .await;
        let status = t.status_now("web");

        t.approve("web", 3).await;
        t.completed("web").await;
        let done = t.status_now("web");
        assert_eq!(done.at("/stage"), &Value::Null, "nothing rolls out any more");
        assert_eq!(done.at("/stableRevision"), status.at("/updateRevision"));
        let last = done.at("/history/0");
        assert_eq!(last.text("/result"), "Completed");
        assert_eq!(last.at("/rollout"), status.at("/rollout"));
        assert_eq!(last.at("/revision"), status.at("/updateRevision"));
        for reason in [
            "RolloutStarted",
            "ReplicaSetCreated",
            "AwaitingApproval",
            "StageApproved",
            "ReplicaSetScaled",
            "RolloutCompleted",
        ] {
            t.event("web", reason).await;
        }
        assert!((t.metric(&["grayrollout_rollouts_total{", "Completed"]).await - 1.0).abs() < 0.1);
    });
}

/// A user follows what status and kubectl print, and nothing else.
#[test]
fn the_message_is_enough_to_go_on() {
    run(async |t: &Test| {
        t.manage(4, &grayrollout("web", &[25, 100])).await;
        t.kubectl(&["wait", "--for=condition=Ready", "gr/web", "--timeout=20s"]).await;
        t.push("web", "v2").await;
        let awaiting = "--for=condition=AwaitingApproval";
        t.kubectl(&["wait", awaiting, "gr/web", "--timeout=20s"]).await;
        t.status("web", "the counts", |status| status.int("/actualPercent") == 25).await;
        let table = t.kubectl(&["get", "gr"]).await;
        let words = |line: &str| -> Vec<String> {
            line.split_whitespace().map(ToOwned::to_owned).collect()
        };
        let lines: Vec<Vec<String>> = table.lines().map(words).collect();
        let heads = ["NAME", "TARGET", "PHASE", "STAGE", "PERCENT", "UPDATED", "AGE"];
        assert_eq!(lines[0], heads);
        assert_eq!(lines[1][..6], ["web", "web", "AwaitingApproval", "1/2", "25", "1/1"]);

        let message = t.status_now("web").text("/message").to_owned();
        // It ends with a quote; what may follow is no part of it.
        let command = message.rsplit_once('\'').map_or("", |(command, _)| command);
        let (_, command) = command.split_once("kubectl ").expect("a command to approve");
        let done = std::process::Command::new("sh")
            .args(["-c", &format!("kubectl {command}'")])
            .env("KUBECONFIG", &t.cluster.kubeconfig)
            .env("PATH", path_with(&t.cluster.bin_dir))
            .output()
            .expect("sh runs");
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{command}: {said}");
        t.completed("web").await;
    });
}

fn path_with(first: &std::path::Path) -> std::ffi::OsString {
    let rest = std::env::var_os("PATH").unwrap_or_default();
    let all = std::iter::once(first.to_owned()).chain(std::env::split_paths(&rest));
    std::env::join_paths(all).expect("a path")
}

/// Automatic stages run through by themselves, each after its soak time and not before.
#[test]
fn automatic_stages_wait_for_their_soak_time() {
    run(async |t: &Test| {
        let gr = grayrollout("web", &[100]).with(json!({"spec": {"stages": [
            {"percent": 25, "soakSeconds": 2},
            {"percent": 50, "soakSeconds": 1, "approval": "Automatic"},
            {"percent": 100, "soakSeconds": 1, "approval": "Automatic"},
        ]}}));
        t.manage(4, &gr).await;
        t.push("web", "v2").await;
        t.status("web", "it soaks", |status| reason_of(status, "Progressing") == "Soaking").await;
        t.completed("web").await;
        assert!(t.status_now("web").at("/approval").is_null());
        t.event("web", "StageReached").await;

        let history = t.record.history();
        let moment = |what: &dyn Fn(&grayrollout_e2e::Stored) -> bool| {
            history.iter().find(|stored| what(stored)).expect("it happened").at
        };
        let available = |count: i64| {
            moment(&|stored| {
                stored.kind == Kind::ReplicaSet
                    && image(&stored.object) == "app:v2"
                    && stored.object.int("/status/availableReplicas") == count
            })
        };
        let stage = |number: i64| moment(&|stored| stored.object.int("/status/stage") == number);
        let done = moment(&|stored| stored.object.text("/status/history/0/result") == "Completed");
        for (reached, left, soak) in
            [(available(1), stage(2), 2), (available(2), stage(3), 1), (available(4), done, 1)]
        {
            let soaked = left.saturating_sub(reached);
            // The watches of the record may be a moment apart.
            let least = Duration::from_secs(soak).saturating_sub(Duration::from_millis(200));
            assert!(soaked > least, "left after {soaked:?}, not {soak} s");
            assert!(soaked < t.at_most(soak + 3), "left after {soaked:?}, not soon after {soak} s");
        }
    });
}

fn image(set: &Value) -> &str {
    set.text("/spec/template/spec/containers/0/image")
}

/// With maxSurge 0 one old pod goes for one new, but for the overlap of the first and the last.
#[test]
fn without_surge_old_pods_go_first() {
    run(async |t: &Test| {
        let gr = grayrollout("web", &[50, 100])
            .with(json!({"spec": {"maxSurge": 0, "maxUnavailable": 1}}));
        t.manage(4, &gr).await;
        let start = t.record.newest();
        t.push("web", "v2").await;
        t.held("web", 1, 2, 2).await;
        t.approve("web", 2).await;
        t.completed("web").await;
        let asked = t.most_since(start, |now| {
            let Split { new, old } = now.split("web");
            new + old
        });
        assert_eq!(asked, 5, "4 and the pod that overlaps");
        let beyond = t.most_since(start, |now| {
            let Split { new, old } = now.split("web");
            if new > 1 && old > 1 { new + old } else { 0 }
        });
        assert!(beyond <= 4, "{beyond} pods in the midst of it");
    });
}

/// Slowly terminating pods without surge: with waitForTermination, after the first, a new pod comes
/// only when the old one is really gone.
#[test]
fn a2239_a_new_pod_waits_until_the_old_one_is_gone() {
    run(async |t: &Test| {
        let slow = json!({"kwok.grayrollout.dev/terminate-after": "1500ms"});
        let web = deployment("web", 4)
            .with(json!({"spec": {"template": {"metadata": {"annotations": slow}}}}));
        let gr = grayrollout("web", &[50, 100]).with(json!({"spec": {
            "maxSurge": 0, "maxUnavailable": 1, "waitForTermination": true,
        }}));
        t.manage_with(&web, &gr).await;
        let start = t.record.newest();
        t.push("web", "v2").await;
        t.held("web", 1, 2, 2).await;
        t.approve("web", 2).await;
        t.completed("web").await;
        t.until("all old pods are gone", |now| now.all(Kind::Pod).count() == 4).await;
        let pods = t.since(start, |now| {
            let of = |version: &str| {
                let image = format!("app:{version}");
                let pods = now.all(Kind::Pod);
                pods.filter(|pod| pod.text("/spec/containers/0/image") == image).count()
            };
            (of("v1"), of("v2"))
        });
        let most = pods.iter().map(|(old, new)| old + new).max();
        assert_eq!(most, Some(5), "4 and the pod that overlaps: {pods:?}");
        let amid = pods.iter().filter(|(old, new)| *old > 1 && *new > 1);
        let most = amid.map(|(old, new)| old + new).max();
        assert!(most <= Some(4), "terminating pods count: {pods:?}");
    });
}

/// With one replica the new pod runs beside the old one until the last stage.
#[test]
fn one_replica_runs_both() {
    run(async |t: &Test| {
        t.manage(1, &grayrollout("web", &[50, 100])).await;
        t.push("web", "v2").await;
        t.held("web", 1, 1, 1).await;
        t.approve("web", 2).await;
        t.completed("web").await;
    });
}

/// One replica without surge cannot run both; the stage is held without a new pod, and says why.
#[test]
fn one_replica_without_surge_has_no_gray() {
    run(async |t: &Test| {
        let gr = grayrollout("web", &[50, 100]).with(json!({"spec": {"maxSurge": 0}}));
        t.manage(1, &gr).await;
        t.push("web", "v2").await;
        t.held("web", 1, 0, 1).await;
        let message = t.status_now("web").text("/message").to_owned();
        assert!(message.contains("surge"), "{message}");
        t.approve("web", 2).await;
        t.completed("web").await;
    });
}

/// Few pods and fine stages: at least one new pod and one old, both shares are shown, and stages
/// that hold the same number of pods still ask one by one.
#[test]
fn a2281_few_pods_and_fine_stages() {
    run(async |t: &Test| {
        t.manage(2, &grayrollout("two", &[70, 95, 100])).await;
        t.manage(3, &grayrollout("three", &[10, 100])).await;
        t.push("two", "v2").await;
        t.push("three", "v2").await;
        t.held("three", 1, 1, 2).await;
        assert_eq!(t.status_now("three").int("/desiredPercent"), 10);
        t.status("three", "a third", |status| status.int("/actualPercent") == 33).await;

        t.held("two", 1, 1, 1).await;
        assert_eq!(t.status_now("two").int("/desiredPercent"), 70);
        t.status("two", "half", |status| status.int("/actualPercent") == 50).await;
        t.approve("two", 2).await;
        t.held("two", 2, 1, 1).await;
        assert_eq!(t.status_now("two").int("/desiredPercent"), 95);
        t.approve("two", 3).await;
        t.completed("two").await;
    });
}

/// Where the first stage needs an approval nothing at all is touched before it is given.
#[test]
fn nothing_is_touched_before_a_required_first_approval() {
    run(async |t: &Test| {
        let gr = grayrollout("web", &[10, 100]).with(
            json!({"spec": {"stages": stages(&[10, 100], &json!({"approval": "Required"}))}}),
        );
        t.manage(10, &gr).await;
        t.push("web", "v2").await;
        t.held("web", 0, 0, 10).await;
        t.record.look(|now| {
            assert!(now.new_set(now.deployment("web")).is_none(), "no new ReplicaSet");
        });
        assert_eq!(t.status_now("web").text("/progress"), "0/2");
        t.approve("web", 1).await;
        t.held("web", 1, 1, 9).await;
        t.approve("web", 2).await;
        t.completed("web").await;
    });
}

/// Stages edited in the middle: another number, old approvals fall away, and the rollout goes on
/// from the last stage that asks for no more than there is.
#[test]
fn edited_stages_start_a_new_number() {
    run(async |t: &Test| {
        t.manage(10, &grayrollout("web", &[10, 50, 100])).await;
        t.push("web", "v2").await;
        t.held("web", 1, 1, 9).await;
        t.approve("web", 2).await;
        t.held("web", 2, 5, 5).await;
        let first = t.rollout("web");

        let edited = json!({"spec": {"stages": stages(&[20, 60, 100], &json!({}))}});
        t.patch_gr("web", &edited).await;
        t.status("web", "another number", |status| status.int("/rollout") > first).await;
        t.held("web", 1, 2, 8).await;
        t.event("web", "StagesEdited").await;
        let refused = t.try_approve("web", first, 3).await.unwrap_err();
        assert!(refused.contains(&format!("rollout: {}", first + 1)), "{refused}");

        // No stage asks for as little as there is: the sizes stay, and going on needs an approval.
        let edited =
            json!({"spec": {"stages": stages(&[80, 100], &json!({"approval": "Automatic"}))}});
        t.patch_gr("web", &edited).await;
        t.held("web", 0, 2, 8).await;
        t.approve("web", 1).await;
        t.completed("web").await;
    });
}
