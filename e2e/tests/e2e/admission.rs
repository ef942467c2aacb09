//! With the admission policies of config/policies installed: a Deployment rests unpaused, and a new
//! template is held by the API server itself.
//!
use std::{collections::BTreeSet, path::Path, time::Duration};

use grayrollout_e2e::{
    Json, Kind, POLICY_KINDS, Test, deployment, grayrollout, new_template, pods_ready_after,
    run_policed, run_policed_alone, run_policed_without_operator,
};
use serde_json::{Value, json};

/// A patch by which a policy never matches.
const NEVER: &str =
    r#"-p=[{"op":"replace","path":"/spec/matchConditions/0/expression","value":"false"}]"#;

fn config(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
    root.join("config").join(path).display().to_string()
}

/// bob may edit everything in the namespace, and alice approve.
async fn people(t: &Test) {
    t.kubectl(&["create", "rolebinding", "bob", "--clusterrole=edit", "--user=bob"]).await;
    let approver = "--clusterrole=grayrollout-approver";
    t.kubectl(&["create", "rolebinding", "alice", approver, "--user=alice"]).await;
}

async fn bob(t: &Test, args: &[&str]) -> Result<String, String> {
    t.try_kubectl(&t.cluster.kubeconfig_of("bob"), args).await
}

async fn bob_does(t: &Test, args: &[&str]) {
    if let Err(said) = bob(t, args).await {
        panic!("bob: kubectl {}: {said}", args.join(" "));
    }
}

async fn approve_as(t: &Test, user: &str, stage: i64) -> Result<String, String> {
    let approval = json!({"status": {"approval": {"rollout": t.rollout("web"), "stage": stage}}});
    let patch = approval.to_string();
    let args = ["patch", "gr", "web", "--subresource=status", "--type=merge", "-p", &patch];
    t.try_kubectl(&t.cluster.kubeconfig_of(user), &args).await
}

/// Writes manifests into a file.
fn file(t: &Test, name: &str, manifests: &[Value]) -> String {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": manifests});
    let path = t.cluster.dir.join(format!("{}-{name}.json", t.namespace));
    std::fs::write(&path, list.to_string()).expect("a file");
    path.display().to_string()
}

fn version(version: &str) -> Value {
    deployment("web", 4).with(new_template(version, json!({})))
}

async fn rests(t: &Test, hold: &str, says: &str) {
    let what = format!("it rests by {hold}, saying {says:?}");
    let policed = hold == "Admission";
    t.until_within(&what, t.at_most(40), |now| {
        let status = now.gr("web").at("/status");
        status.text("/hold") == hold
            && status.text("/phase") == "Completed"
            && status.text("/message").contains(says)
            && now.deployment("web").flag("/spec/paused") != policed
    })
    .await;
}

/// What a developer types, and what an approver does.
#[test]
fn commands_of_people_who_may_and_may_not_approve() {
    run_policed(async |t: &Test| {
        people(t).await;
        t.manage(4, &grayrollout("web", &[25, 100])).await;
        rests(t, "Admission", "nothing is rolling out").await;
        let commands: [&[&str]; 3] = [
            &["set", "image", "deployment/web", "app=app:v2"],
            &["rollout", "undo", "deployment/web"],
            &["rollout", "restart", "deployment/web"],
        ];
        for (rollout, command) in (1..).zip(commands) {
            bob_does(t, command).await;
            t.held("web", 1, 1, 3).await;
            assert_eq!(t.rollout("web"), rollout);
            bob_does(t, &["rollout", "resume", "deployment/web"]).await;
            t.always("nothing moves", Duration::from_secs(1), |now| now.split("web").old == 3)
                .await;
            let said = approve_as(t, "bob", 2).await.expect_err("bob may not approve");
            assert!(said.contains("resource \"grayrollouts/status\""), "{said}");
            approve_as(t, "alice", 2).await.expect("alice may approve");
            t.completed("web").await;
            rests(t, "Admission", "nothing is rolling out").await;
            bob_does(t, &["rollout", "status", "deployment/web", "--timeout=10s"]).await;
            let by = t.record.look(|now| now.gr("web").text("/status/approval/by").to_owned());
            assert_eq!(by, "alice", "the approval is signed");
        }
        let twin = json!({"spec": {"approval": {"rollout": 3, "stage": 2, "revision": "x"}}});
        let said = bob(t, &["patch", "gr", "web", "--type=merge", "-p", &twin.to_string()]).await;
        let said = said.expect_err("bob may not approve in the spec either");
        assert!(said.contains("needs the verb approve"), "{said}");
    });
}

/// An approval in the spec is signed too, and a manifest without the name takes nothing away.
#[test]
fn an_approval_in_git_is_signed() {
    run_policed(async |t: &Test| {
        people(t).await;
        t.kubectl(&["create", "rolebinding", "alice-edits", "--clusterrole=edit", "--user=alice"])
            .await;
        t.manage(4, &grayrollout("web", &[25, 100])).await;
        t.push("web", "v2").await;
        t.held("web", 1, 1, 3).await;
        let revision = t.status_now("web").text("/updateRevision").to_owned();
        let approval = json!({"rollout": 1, "stage": 2, "revision": revision});
        let approved = grayrollout("web", &[25, 100]).with(json!({"spec": {"approval": approval}}));
        let manifest = file(t, "approved", &[approved]);
        let alice = t.cluster.kubeconfig_of("alice");
        let apply = ["apply", "--server-side", "--force-conflicts", "-f", &manifest];
        t.try_kubectl(&alice, &apply).await.expect("alice may approve");
        t.completed("web").await;
        let by = |t: &Test| t.record.look(|now| now.gr("web").at("/spec/approval/by").clone());
        assert_eq!(by(t), "alice");
        bob_does(t, &apply).await;
        assert_eq!(by(t), "alice", "bob changed nothing");
        assert!(t.event("web", "StageApproved").await.text("/message").contains("alice"));
    });
}

/// With no operator at all a new template stays where it is, whatever anyone does.
#[test]
fn held_while_no_operator_runs() {
    run_policed_without_operator(async |t: &Test| {
        people(t).await;
        t.start_operator().await;
        t.manage(4, &grayrollout("web", &[25, 100])).await;
        rests(t, "Admission", "nothing is rolling out").await;
        t.stop_operator().await;
        bob_does(t, &["set", "image", "deployment/web", "app=app:v2"]).await;
        let unpaused = version("v2").with(json!({"spec": {"paused": false, "strategy": {
            "type": "RollingUpdate", "rollingUpdate": {"maxSurge": 4, "maxUnavailable": 4},
        }}}));
        let manifest = file(t, "unpaused", &[unpaused]);
        let forced = ["apply", "--server-side", "--force-conflicts", "-f", &manifest];
        let attempts: [&[&str]; 6] = [
            &["rollout", "resume", "deployment/web"],
            &forced,
            &["apply", "-f", &manifest],
            &["replace", "-f", &manifest],
            &["annotate", "deployment/web", "grayrollout.dev/rollout-"],
            &["scale", "deployment/web", "--replicas=5"],
        ];
        for attempt in attempts {
            bob_does(t, attempt).await;
        }
        t.until("scaling goes through", |now| now.settled("web") && now.split("web").old == 5)
            .await;
        let held = t.deployment_now("web");
        assert!(held.flag("/spec/paused"));
        assert_eq!(held.annotation("grayrollout.dev/rollout"), Some("web"));
        assert_eq!(held.at("/spec/strategy/rollingUpdate/maxSurge"), "25%");
        assert!(t.record.look(|now| now.new_set(now.deployment("web")).is_none()));
        t.start_operator().await;
        t.held("web", 1, 2, 3).await;
        approve_as(t, "alice", 2).await.expect("alice may approve");
        t.completed("web").await;
    });
}

/// A GrayRollout that comes in the same command as the change it is to stage, before it or after.
#[test]
fn applied_together_with_the_change() {
    run_policed(async |t: &Test| {
        for (round, first) in [true, false].into_iter().enumerate() {
            t.create(&deployment("web", 4)).await;
            t.until("v1 is available", |now| {
                now.deployment("web").int("/status/availableReplicas") == 4
            })
            .await;
            let slow = deployment("web", 4).with(new_template("v2", pods_ready_after("1s")));
            let mut both = vec![grayrollout("web", &[25, 100]), slow];
            if !first {
                both.reverse();
            }
            let manifests = file(t, &format!("both-{round}"), &both);
            t.kubectl(&["apply", "--server-side", "--force-conflicts", "-f", &manifests]).await;
            t.phase("web", "AwaitingApproval").await;
            let split = t.record.look(|now| now.split("web"));
            // The native controller's own 25% may be gone before it is stopped.
            assert!(split.old >= 2 && split.new <= 2, "{} new, {} old", split.new, split.old);
            t.approve("web", 2).await;
            t.completed("web").await;
            rests(t, "Admission", "nothing is rolling out").await;
            t.kubectl(&["delete", "gr/web", "deployment/web"]).await;
            t.until("all is gone", |now| now.all(Kind::Pod).next().is_none()).await;
        }
    });
}

/// A GrayRollout that goes while the operator is down and the API server holds a template: the
/// mark goes, and nothing is rolled out that nobody approved.
#[test]
fn deleted_while_held_and_no_operator_runs() {
    run_policed_without_operator(async |t: &Test| {
        t.start_operator().await;
        t.manage(4, &grayrollout("web", &[25, 100])).await;
        rests(t, "Admission", "nothing is rolling out").await;
        t.stop_operator().await;
        t.push("web", "v2").await;
        t.kubectl(&["delete", "gr/web"]).await;
        t.start_operator().await;
        t.until("no mark", |now| {
            now.deployment("web").annotation("grayrollout.dev/rollout").is_none()
        })
        .await;
        t.always("it stays paused", Duration::from_secs(1), |now| {
            now.deployment("web").flag("/spec/paused") && now.split("web").old == 4
        })
        .await;
        t.kubectl(&["rollout", "resume", "deployment/web"]).await;
        t.split("web", 4, 0).await;
    });
}

/// Deleted with onDelete: Rollback: the operator's own change of the template is not held.
#[test]
fn deleted_with_a_rollback_ends_unpaused() {
    run_policed(async |t: &Test| {
        for stages in [&[25, 100][..], &[100]] {
            // With one stage that needs an approval nothing has begun yet.
            let mut gr = grayrollout("web", stages).with(json!({"spec": {"onDelete": "Rollback"}}));
            if stages.len() == 1 {
                gr["spec"]["stages"][0]["approval"] = "Required".into();
            }
            t.manage(4, &gr).await;
            rests(t, "Admission", "nothing is rolling out").await;
            t.push("web", "v2").await;
            t.phase("web", "AwaitingApproval").await;
            t.kubectl(&["delete", "gr/web"]).await;
            t.until("v1 again, and given back", |now| {
                let deployment = now.deployment("web");
                let image = deployment.text("/spec/template/spec/containers/0/image");
                image == "app:v1"
                    && !deployment.flag("/spec/paused")
                    && deployment.annotation("grayrollout.dev/original").is_none()
                    && deployment.annotation("grayrollout.dev/rollout").is_none()
                    && now.split("web").new == 4
                    && now.settled("web")
            })
            .await;
            t.kubectl(&["delete", "deployment/web"]).await;
            t.until("all is gone", |now| now.all(Kind::Pod).next().is_none()).await;
        }
    });
}

fn pods(t: &Test) -> BTreeSet<String> {
    t.record.look(|now| {
        now.all(Kind::Pod)
            .filter(|pod| pod.at("/metadata/deletionTimestamp").is_null())
            .map(|pod| pod.text("/metadata/uid").to_owned())
            .collect()
    })
}

/// Policies that are missing, half installed, or of another version are seen and shown; no pod is
/// touched by that, and what is pushed meanwhile is held by the operator.
#[test]
fn policies_that_are_not_as_they_should_be_are_shown() {
    run_policed_alone(async |t: &Test| {
        t.manage(4, &grayrollout("web", &[25, 100])).await;
        rests(t, "Admission", "nothing is rolling out").await;
        let before = pods(t);
        let shipped = config("policies");
        let back = ["apply", "--server-side", "--force-conflicts", "-k", &shipped];
        let hold = "mutatingadmissionpolicy/grayrollout-hold";
        let changes: [(&[&str], &str, &str); 4] = [
            (
                &["delete", "mutatingadmissionpolicybinding/grayrollout-hold"],
                "Paused",
                "the policy grayrollout-hold is not bound",
            ),
            (
                &["label", "--overwrite", hold, "grayrollout.dev/policies=v2"],
                "Paused",
                "the policy grayrollout-hold is of version v2",
            ),
            (
                &["delete", "mutatingadmissionpolicy/grayrollout-guard"],
                "Admission",
                "the policy grayrollout-guard is not installed",
            ),
            (
                // Installed, but without effect.
                &["patch", hold, "--type=json", NEVER],
                "Paused",
                "does not act on this Deployment",
            ),
        ];
        for (change, by, says) in changes {
            t.kubectl(change).await;
            rests(t, by, says).await;
            t.kubectl(&back).await;
            rests(t, "Admission", "nothing is rolling out").await;
        }
        t.kubectl(&["delete", POLICY_KINDS, "-l", "app.kubernetes.io/name=grayrollout"]).await;
        rests(t, "Paused", "rests paused, since the admission policies are not installed").await;
        assert_eq!(pods(t), before, "no pod is touched");
        assert_eq!(t.status_now("web").int("/rollout"), 0, "nothing was rolled out");
        t.push("web", "v2").await;
        t.held("web", 1, 1, 3).await;
        t.kubectl(&back).await;
        t.approve("web", 2).await;
        t.completed("web").await;
        rests(t, "Admission", "nothing is rolling out").await;
    });
}

/// Before Kubernetes 1.36: what the mutating guard would undo is refused, and says why.
#[test]
fn the_guard_of_older_clusters_refuses() {
    run_policed_alone(async |t: &Test| {
        let overlay = config("overlays/before-1.36/guard.yaml");
        let kinds = "mutatingadmissionpolicies,mutatingadmissionpolicybindings";
        t.kubectl(&["delete", kinds, "-l", "app.kubernetes.io/name=grayrollout"]).await;
        t.kubectl(&["apply", "-f", &overlay]).await;
        people(t).await;
        t.manage(4, &grayrollout("web", &[25, 100])).await;
        t.push("web", "v2").await;
        t.held("web", 1, 1, 3).await;
        let manifest = file(
            t,
            "v2",
            &[version("v2").with(json!({"spec": {"strategy": {
                "type": "RollingUpdate", "rollingUpdate": {"maxSurge": 4, "maxUnavailable": 4},
            }}}))],
        );
        let end = tokio::time::Instant::now() + t.at_most(40);
        let resume = ["rollout", "resume", "deployment/web"];
        let said = loop {
            match bob(t, &resume).await {
                Err(said) => break said,
                Ok(_) => assert!(tokio::time::Instant::now() < end, "the guard takes effect"),
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        };
        assert!(said.contains("GrayRollout web is rolling this Deployment out"), "{said}");
        t.held("web", 1, 1, 3).await;
        let attempts: [(&[&str], &str); 2] = [
            (
                &["apply", "--server-side", "--force-conflicts", "-f", &manifest],
                "change spec.strategy once it is through",
            ),
            (&["annotate", "deployment/web", "grayrollout.dev/rollout-"], "must stay as they are"),
        ];
        for (attempt, why) in attempts {
            let said = bob(t, attempt).await.expect_err("refused");
            assert!(said.contains(why), "{said}");
        }
        bob_does(t, &["scale", "deployment/web", "--replicas=8"]).await;
        t.held("web", 1, 2, 6).await;
        bob_does(t, &["set", "image", "deployment/web", "app=app:v3"]).await;
        t.status("web", "superseded", |status| status.int("/rollout") == 2).await;
        t.held("web", 1, 2, 6).await;
        approve_as(t, "alice", 2).await.expect("alice may approve");
        t.completed("web").await;
        rests(t, "Paused", "the policy grayrollout-hold is not installed").await;
    });
}
