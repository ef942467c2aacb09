//! Deployments and statuses that are out of the ordinary, and names that are taken.

use std::time::Duration;

use grayrollout_e2e::{
    Json, Kind, Test, deployment, grayrollout, path_of, pods_ready_after, run, stages,
};
use serde_json::{Value, json};

/// Restored from a backup, which keeps no status, in the midst of a rollout: both revisions are
/// known again from the Deployment, no number is used twice, and it goes on by approval.
#[test]
fn a_lost_status_is_found_again() {
    run(async |t: &Test| {
        let gr = grayrollout("web", &[25, 50, 100]);
        t.manage(4, &gr).await;
        t.push("web", "v2").await;
        t.held("web", 1, 1, 3).await;
        t.approve("web", 2).await;
        t.held("web", 2, 2, 2).await;
        let before = t.status_now("web");
        t.stop_operator().await;
        t.kubectl(&["delete", "gr", "web"]).await;
        t.create(&gr).await;
        t.start_operator().await;
        t.status("web", "it is held again", |status| {
            status.text("/phase") == "AwaitingApproval"
                && status.at("/stableRevision") == before.at("/stableRevision")
                && status.at("/updateRevision") == before.at("/updateRevision")
        })
        .await;
        t.split("web", 2, 2).await;
        let number = t.rollout("web");
        assert!(number > before.int("/rollout"), "{number} was used before");
        t.approve("web", 3).await;
        t.completed("web").await;
    });
}

/// With no revision kept, and with one: a rollout, one gone back from, and another.
#[test]
fn little_or_no_history() {
    run(async |t: &Test| {
        for (limit, name) in [(0, "none"), (1, "one")] {
            let web = deployment(name, 3).with(json!({"spec": {"revisionHistoryLimit": limit}}));
            t.manage_with(&web, &grayrollout(name, &[30, 100])).await;
            t.push(name, "v2").await;
            t.held(name, 1, 1, 2).await;
            t.abort(name).await;
            t.rolled_back(name).await;
            t.push(name, "v3").await;
            t.held(name, 1, 1, 2).await;
            t.approve(name, 2).await;
            t.completed(name).await;
            t.push(name, "v4").await;
            t.held(name, 1, 1, 2).await;
            t.approve(name, 2).await;
            t.completed(name).await;
        }
    });
}

/// The longest name that a Deployment may have whose ReplicaSets and pods can still be made.
#[test]
fn a_very_long_name() {
    run(async |t: &Test| {
        let name = "w".repeat(242);
        let labels = json!({"app": "long"});
        let long = deployment(&name, 2).with(json!({
            "metadata": {"labels": labels},
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}},
            },
        }));
        t.manage_with(&long, &grayrollout(&name, &[50, 100])).await;
        t.push(&name, "v2").await;
        t.held(&name, 1, 1, 1).await;
        t.approve(&name, 2).await;
        t.completed(&name).await;
    });
}

/// The name of our ReplicaSet is taken by one of someone else: it is left alone, and another name
/// is found.
#[test]
fn a_foreign_replicaset_has_our_name() {
    run(async |t: &Test| {
        t.manage(3, &grayrollout("web", &[30, 100])).await;
        // The name is told by a rollout of the same template.
        t.push("web", "v2").await;
        t.held("web", 1, 1, 2).await;
        let name = t.status_now("web").text("/update/replicaSet").to_owned();
        t.abort("web").await;
        t.rolled_back("web").await;
        let labels = json!({"app": "foreign"});
        let foreign = json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": name},
            "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "app", "image": "app:foreign"}]},
            }},
        });
        let made = t.create(&foreign).await;
        t.retry("web").await;
        t.held("web", 1, 1, 2).await;
        assert_ne!(t.status_now("web").text("/update/replicaSet"), name);
        t.approve("web", 2).await;
        t.completed("web").await;
        let path = path_of("apps/v1", &t.namespace, "replicasets") + "/" + &name;
        let now = t.api.get(&path).await.expect("it is still there");
        for same in ["/metadata/uid", "/spec", "/metadata/ownerReferences"] {
            assert_eq!(now.at(same), made.at(same), "{same}");
        }
    });
}

/// A template with fields of every kind reaches the pods as it is: the operator copies what the
/// API server stores, and need not know it.
#[test]
fn a_template_is_copied_whole() {
    run(async |t: &Test| {
        t.manage(2, &grayrollout("web", &[50, 100])).await;
        let rich = json!({"spec": {"minReadySeconds": 1, "template": {
            "metadata": {"annotations": pods_ready_after("100ms"), "finalizers": [],
                         "labels": {"tier": "front"}},
            "spec": {
                "containers": [{
                    "name": "app", "image": "app:v2", "tty": true, "stdin": true,
                    "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "NotRequired"}],
                    "resources": {"limits": {"memory": "1Gi", "cpu": "0.5"}},
                    "env": [{"name": "A", "value": ""}, {"name": "B", "valueFrom":
                        {"fieldRef": {"fieldPath": "metadata.name"}}}],
                    "lifecycle": {"stopSignal": "SIGUSR1", "preStop": {"sleep": {"seconds": 1}}},
                    "startupProbe": {"grpc": {"port": 9}, "failureThreshold": 30},
                    "volumeMounts": [{"name": "all", "mountPath": "/all", "subPathExpr": "$(B)",
                                      "recursiveReadOnly": "IfPossible", "readOnly": true}],
                }],
                "initContainers": [{"name": "side", "image": "side:1", "restartPolicy": "Always"}],
                "os": {"name": "linux"},
                "schedulingGates": null,
                "terminationGracePeriodSeconds": 5,
                "topologySpreadConstraints": [{
                    "maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway",
                    "labelSelector": {"matchLabels": {"tier": "front"}},
                    "matchLabelKeys": ["pod-template-hash"], "nodeTaintsPolicy": "Honor",
                }],
                "tolerations": [{"operator": "Exists"}],
                "volumes": [{"name": "all", "projected": {"sources": [{"serviceAccountToken":
                    {"path": "token", "expirationSeconds": 3600}}]}}],
            },
        }}});
        t.patch_deployment("web", &rich).await;
        t.held("web", 1, 1, 1).await;
        let name = t.status_now("web").text("/update/replicaSet").to_owned();
        let (wanted, mut got) = t.record.look(|now| {
            let set = now.get(Kind::ReplicaSet, &name).expect("it is there");
            (now.deployment("web").at("/spec/template").clone(), set.at("/spec/template").clone())
        });
        let labels = got.pointer_mut("/metadata/labels").and_then(Value::as_object_mut);
        let hash = labels.expect("labels").remove("pod-template-hash");
        assert_eq!(got, wanted);
        assert!(hash.is_some_and(|hash| name.ends_with(hash.as_str().unwrap())));
        t.approve("web", 2).await;
        t.completed("web").await;
    });
}

/// Stages made fewer, more, lower and higher in the midst of a rollout: the sizes follow the last
/// stage that is still covered, old approvals fall away, and the message says what came of it.
#[test]
fn stages_edited_in_every_way() {
    run(async |t: &Test| {
        t.manage(10, &grayrollout("web", &[20, 50, 100])).await;
        t.push("web", "v2").await;
        t.held("web", 1, 2, 8).await;
        t.approve("web", 2).await;
        t.held("web", 2, 5, 5).await;
        // What is asked, the stage that it leads to, and the new pods of it.
        let edits: [(&[i64], i64, i64); 4] = [
            (&[20, 40, 60, 100], 2, 4),
            (&[30, 100], 1, 3),
            (&[10, 30, 100], 2, 3),
            (&[60, 100], 0, 3),
        ];
        for (percents, stage, new) in edits {
            let number = t.rollout("web");
            t.patch_gr("web", &json!({"spec": {"stages": stages(percents, &json!({}))}})).await;
            t.status("web", "the edit is taken up", |status| {
                status.int("/rollout") == number + 1
                    && status.int("/stage") == stage
                    && status.text("/phase") == "AwaitingApproval"
                    && status.text("/message").contains(&format!("stage {}", stage + 1))
            })
            .await;
            t.split("web", new, 10 - new).await;
            t.event("web", "StagesEdited").await;
            let old = t.try_approve("web", number, stage + 1).await;
            assert!(old.is_err(), "an approval of the number before is refused");
        }
        t.always("nothing moves by itself", Duration::from_secs(1), |now| {
            now.split("web").new == 3
        })
        .await;
        t.approve("web", 2).await;
        t.completed("web").await;
    });
}
