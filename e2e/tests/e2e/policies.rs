//! The admission policies of config/policies, each bound to the test's own namespace.

use std::{path::Path, time::Duration};

use grayrollout_e2e::{Test, grayrollout, run};
use serde_json::{Value, json};

/// Installs a policy as shipped, but for its name and for other namespaces.
async fn install(t: &Test, policy: &str) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
    let shipped = root.join(format!("config/policies/{policy}.yaml"));
    let shipped = std::fs::read_to_string(shipped).expect("the policy is there");
    let only_here = format!(
        "validationActions: [Deny]\n  matchResources:\n    namespaceSelector:\n      matchLabels:\n        kubernetes.io/metadata.name: {}",
        t.namespace
    );
    let here = shipped
        .replace(
            &format!("grayrollout-{policy}\n"),
            &format!("grayrollout-{policy}-{}\n", t.namespace),
        )
        .replace("validationActions: [Deny]", &only_here);
    let file = std::env::temp_dir().join(format!("{}-{policy}.yaml", t.namespace));
    std::fs::write(&file, here).expect("a temporary file");
    t.kubectl(&["apply", "-f", file.to_str().expect("a plain path")]).await;
    std::fs::remove_file(&file).expect("the temporary file goes");
}

async fn patch_as(t: &Test, user: &str, more: &[&str], patch: &Value) -> Result<String, String> {
    let patch = patch.to_string();
    let mut args = vec!["patch", "gr", "web", "--type=merge", "-p", &patch];
    args.extend(more);
    t.try_kubectl(&t.cluster.kubeconfig_of(user), &args).await
}

const STATUS: &str = "--subresource=status";

/// Someone who may write the status, but not approve, tries to approve, to abort, to set counters,
/// and the twins in the spec: each is refused and names what is missing. An approver may approve,
/// but neither set counters nor sign for another.
#[test]
fn k352_only_approvers_approve_and_none_sets_counters() {
    run(async |t: &Test| {
        t.manage(4, &grayrollout("web", &[25, 50, 100])).await;
        t.push("web", "v2").await;
        t.held("web", 1, 1, 3).await;
        let resources =
            "--resource=grayrollouts.grayrollout.dev,grayrollouts.grayrollout.dev/status";
        t.kubectl(&["create", "role", "writer", "--verb=get,patch", resources]).await;
        t.kubectl(&["create", "rolebinding", "bob", "--role=writer", "--user=bob"]).await;
        let approver = "--clusterrole=grayrollout-approver";
        t.kubectl(&["create", "rolebinding", "alice", approver, "--user=alice"]).await;
        install(t, "approve").await;

        let counters = json!({"status": {"replicas": 77}});
        let end = tokio::time::Instant::now() + t.at_most(30);
        while patch_as(t, "bob", &[STATUS, "--dry-run=server"], &counters).await.is_ok() {
            assert!(tokio::time::Instant::now() < end, "the policy takes effect");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }

        let rollout = t.rollout("web");
        let approval = json!({"status": {"approval": {"rollout": rollout, "stage": 2}}});
        let missing = "need the verb approve on grayrollouts.grayrollout.dev";
        for (more, patch, why) in [
            (vec![STATUS], approval.clone(), missing),
            (vec![STATUS], json!({"status": {"abort": {"rollout": rollout}}}), missing),
            (vec![STATUS], counters.clone(), "every other field is the operator's"),
            (vec![], json!({"spec": {"stages": [{"percent": 100}]}}), "needs the verb approve"),
            (
                vec![],
                json!({"spec": {"approval": {"rollout": rollout, "stage": 2, "revision": "x"}}}),
                "needs the verb approve",
            ),
        ] {
            let said = patch_as(t, "bob", &more, &patch).await.expect_err("bob is refused");
            assert!(said.contains(why), "{patch}: {said}");
        }
        patch_as(t, "bob", &[], &json!({"spec": {"onDelete": "Promote"}})).await.expect("an edit");

        let forged = json!({"status": {"approval": {"rollout": rollout, "stage": 2, "by": "bob"}}});
        for (patch, why) in [
            (counters, "every other field is the operator's"),
            (forged, "must be your own user name"),
        ] {
            let said = patch_as(t, "alice", &[STATUS], &patch).await.expect_err("alice is refused");
            assert!(said.contains(why), "{patch}: {said}");
        }
        assert!(t.status_now("web").get("approval").is_none(), "nothing of it came through");
        patch_as(t, "alice", &[STATUS], &approval).await.expect("alice may approve");
        t.held("web", 2, 2, 2).await;
    });
}
