//! The shipped roles give what they say and no more. That the operator can do its work with its
//! role alone is what every test here shows: it fails on any answer of 403.

use std::path::Path;

use grayrollout_e2e::{Json, Test, grayrollout, run, run_without_operator};
use serde_json::Value;

fn config(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
    root.join("config").join(path).display().to_string()
}

/// What kustomize makes of a folder; nothing of it is created.
fn rendered(t: &Test, folder: &str) -> Vec<Value> {
    let mut create = t.cluster.kubectl();
    create.args(["create", "--dry-run=client", "-o", "json", "-k", &config(folder)]);
    let done = create.output().expect("kubectl runs");
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{folder}: {said}");
    let mut objects = Vec::new();
    for object in serde_json::Deserializer::from_slice(&done.stdout).into_iter::<Value>() {
        let object = object.expect("JSON");
        match object.list("/items") {
            [] => objects.push(object),
            items => objects.extend_from_slice(items),
        }
    }
    objects
}

/// No wildcard, no secrets, no pods, nowhere.
#[test]
fn the_roles_name_each_right() {
    run_without_operator(async |t: &Test| {
        for folder in ["default", "overlays/namespaced", "overlays/before-1.36"] {
            let mut rules = 0;
            for role in rendered(t, folder) {
                if !role.text("/kind").ends_with("Role") {
                    continue;
                }
                for rule in role.list("/rules") {
                    rules += 1;
                    let text = rule.to_string();
                    assert!(!text.contains('*'), "{folder}: {text}");
                    for resource in rule.list("/resources") {
                        let resource = resource.as_str().unwrap_or_default();
                        assert!(!resource.starts_with("pods"), "{folder}: {text}");
                        assert!(!resource.starts_with("secrets"), "{folder}: {text}");
                    }
                }
            }
            assert!(rules > 10, "{folder}: {rules} rules");
        }
    });
}

/// Whether a user may do something in the test's namespace.
async fn may(t: &Test, kubeconfig: &Path, verb: &str, resource: &str) -> bool {
    let more = if resource.ends_with("/status") { Some("--subresource=status") } else { None };
    let resource = resource.trim_end_matches("/status");
    let mut args = vec!["auth", "can-i", verb, resource];
    args.extend(more);
    t.try_kubectl(kubeconfig, &args).await.is_ok_and(|said| said.contains("yes"))
}

/// Whoever has the usual roles in a namespace has the fitting one here; nobody approves by chance.
#[test]
fn roles_for_people_are_as_narrow_as_their_names() {
    run(async |t: &Test| {
        let rights = ["get", "create", "approve"];
        let gr = "grayrollouts.grayrollout.dev";
        for (user, role, wanted) in [
            ("alice", "view", [true, false, false]),
            ("bob", "edit", [true, true, false]),
            ("carol", "admin", [true, true, false]),
        ] {
            let (role, user_flag) = (format!("--clusterrole={role}"), format!("--user={user}"));
            t.kubectl(&["create", "rolebinding", user, &role, &user_flag]).await;
            let kubeconfig = t.cluster.kubeconfig_of(user);
            let end = tokio::time::Instant::now() + t.at_most(20);
            loop {
                let mut has = Vec::new();
                for verb in rights {
                    has.push(may(t, &kubeconfig, verb, gr).await);
                }
                if has == wanted {
                    break;
                }
                // Aggregation is a controller's work.
                assert!(tokio::time::Instant::now() < end, "{user}: {rights:?} are {has:?}");
                tokio::time::sleep(std::time::Duration::from_millis(200)).await;
            }
            assert!(!may(t, &kubeconfig, "patch", &format!("{gr}/status")).await, "{user}");
        }
        let approver = "--clusterrole=grayrollout-approver";
        t.kubectl(&["create", "rolebinding", "approver", approver, "--user=alice"]).await;
        let alice = t.cluster.kubeconfig_of("alice");
        assert!(may(t, &alice, "approve", gr).await);
        assert!(may(t, &alice, "patch", &format!("{gr}/status")).await);
        assert!(!may(t, &alice, "patch", gr).await, "approving is not editing");
        let operator = &t.cluster.operator_kubeconfig;
        for (verb, resource) in [
            ("get", "secrets"),
            ("list", "pods"),
            ("delete", "pods"),
            ("delete", "deployments.apps"),
            ("update", "deployments.apps"),
            ("update", gr),
            ("deletecollection", gr),
            ("approve", gr),
        ] {
            assert!(!may(t, operator, verb, resource).await, "the operator may {verb} {resource}");
        }
    });
}

/// With the roles of config/overlays/namespaced alone, in the one namespace they are for.
#[test]
fn rights_in_one_namespace_are_enough() {
    run_without_operator(async |t: &Test| {
        let account = "scoped";
        let system = "grayrollout-system";
        let make = ["create", "serviceaccount", account, "-n", system];
        t.kubectl(&make).await;
        let mut made = Vec::new();
        for mut object in rendered(t, "overlays/namespaced") {
            let kind = object.text("/kind").to_owned();
            let here = object.text("/metadata/namespace") == "shop";
            let policies = kind == "ClusterRoleBinding";
            if !(here || policies) {
                continue;
            }
            if here {
                object["metadata"]["namespace"] = t.namespace.as_str().into();
            } else {
                object["metadata"]["name"] = t.namespace.as_str().into();
            }
            if kind.ends_with("Binding") {
                object["subjects"][0]["name"] = account.into();
            }
            made.push(object);
        }
        assert_eq!(made.len(), 3, "a Role, its binding, and what belongs to no namespace");
        let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": made});
        let file = t.cluster.dir.join(format!("{}.json", t.namespace));
        std::fs::write(&file, list.to_string()).expect("a file");
        let file = file.display().to_string();
        t.kubectl(&["apply", "-f", &file]).await;

        let kubeconfig = t.cluster.kubeconfig_of_account(account).await;
        t.start_operator_with(&kubeconfig, &[]).await;
        t.manage(4, &grayrollout("web", &[25, 100])).await;
        t.push("web", "v2").await;
        t.held("web", 1, 1, 3).await;
        t.abort("web").await;
        t.rolled_back("web").await;
        t.push("web", "v3").await;
        t.held("web", 1, 1, 3).await;
        t.approve("web", 2).await;
        t.completed("web").await;
        t.stop_operator().await;
        t.kubectl(&["delete", "-f", &file]).await;
        t.kubectl(&["delete", "serviceaccount", account, "-n", system]).await;
    });
}
