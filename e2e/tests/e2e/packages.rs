//! What is shipped to be installed: config/ by kustomize, and the Helm chart.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use grayrollout_e2e::{
    Cluster, Json, Operator, Test, deployment, grayrollout, run_without_operator,
};
use serde_json::{Value, json};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace").to_owned()
}

/// The chart's objects as YAML, for the namespaces that it is to work in.
fn chart(dir: &Path, namespaces: &[&str], version: &str) -> String {
    let values = dir.join(format!("values-{version}-{}.json", namespaces.len()));
    let given = json!({"namespaces": namespaces, "metrics": {"auth": true, "dashboard": {"enabled": true}}});
    fs::write(&values, given.to_string()).expect("the values");
    let mut go = Command::new("go");
    go.args(["run", ".", "render", "../../charts/grayrollout", "--kube-version", version])
        .arg(&values)
        .current_dir(root().join("e2e/packages"));
    said(&mut go)
}

fn said(command: &mut Command) -> String {
    let out = command.output().expect("the command runs");
    let complaint = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{command:?}: {complaint}");
    String::from_utf8_lossy(&out.stdout).into_owned()
}

/// The API server takes every object of every package, and knows every field of it.
#[test]
fn every_package_is_valid() {
    run_without_operator(async |t: &Test| {
        let here = t.namespace.as_str();
        let overlay = |name: &str| {
            let dir = root().join("config").join(name);
            let text = said(t.cluster.kubectl().arg("kustomize").arg(dir));
            // The overlay for chosen namespaces is written for one that is not here.
            text.replace("shop", here)
        };
        for (package, objects) in [
            ("default", overlay("default")),
            ("namespaced", overlay("overlays/namespaced")),
            ("before-1.36", overlay("overlays/before-1.36")),
            ("metrics-auth", overlay("overlays/metrics-auth")),
            ("chart", chart(&t.cluster.dir, &[], "v1.37.0")),
            ("chart, namespaced", chart(&t.cluster.dir, &[here], "v1.37.0")),
            ("chart, before 1.36", chart(&t.cluster.dir, &[], "v1.35.0")),
        ] {
            let file = t.cluster.dir.join("package.yaml");
            fs::write(&file, &objects).expect("the objects");
            let mut kubectl = t.cluster.kubectl();
            kubectl
                .args(["apply", "--server-side", "--force-conflicts", "--dry-run=server"])
                .args(["--validate=strict", "-f"])
                .arg(&file);
            let answered = said(&mut kubectl);
            let accepted = answered.lines().count();
            let sent = objects.lines().filter(|line| line.starts_with("kind: ")).count();
            assert_eq!(accepted, sent, "{package}: {answered}");
            assert!(sent > 15, "{package}: only {sent} objects");
        }
    });
}

/// The operator's pods are allowed where Pod Security is restricted, as their namespace is.
#[test]
fn the_pods_satisfy_pod_security_restricted() {
    run_without_operator(async |t: &Test| {
        let shipped = fs::read_to_string(root().join("config/manager/deployment.yaml"));
        let shipped: Value = serde_saphyr::from_str(&shipped.unwrap()).unwrap();
        let pod = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "operator"},
            "spec": shipped.at("/spec/template/spec"),
        });
        t.service_account("grayrollout").await;
        let path = format!("/api/v1/namespaces/{}", t.namespace);
        let enforce = json!({"pod-security.kubernetes.io/enforce": "restricted"});
        t.api.patch(&path, &json!({"metadata": {"labels": enforce}})).await.unwrap();
        let pods = format!("{path}/pods?dryRun=All&fieldValidation=Strict");
        t.api.post(&pods, &pod).await.expect("the pod is allowed");
        let root = pod.with(json!({"spec": {"securityContext": {"seccompProfile": null}}}));
        let refused = t.api.post(&pods, &root).await.expect_err("it is looked at");
        assert!(refused.message.contains("seccompProfile"), "{refused}");
    });
}

/// A control plane of its own, since installing touches all namespaces.
struct Fresh(Cluster);

impl Fresh {
    fn kubectl(&self, args: &[&str]) -> String {
        said(self.0.kubectl().args(args))
    }

    fn apply(&self, namespace: &str, object: &Value) {
        let file = self.0.dir.join("object.json");
        fs::write(&file, object.to_string()).expect("the object");
        self.kubectl(&["-n", namespace, "apply", "-f", file.to_str().expect("a plain path")]);
    }

    fn get(&self, what: &[&str]) -> Value {
        let args = [&["-n", "shop", "get", "-o", "json"][..], what].concat();
        serde_json::from_str(&self.kubectl(&args)).expect("JSON")
    }

    fn until(&self, what: &str, mut met: impl FnMut() -> bool) {
        let end = Instant::now() + Duration::from_mins(1);
        while !met() {
            let seen = || self.kubectl(&["get", "gr,deploy,rs", "-A", "-o", "wide"]);
            assert!(Instant::now() < end, "{what}: not within a minute\n{}", seen());
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    fn phase(&self, name: &str, phase: &str) {
        self.until(&format!("{name} is {phase}"), || {
            self.get(&["gr", name]).text("/status/phase") == phase
        });
    }

    /// Every object that there is, bar what comes and goes by itself.
    fn objects(&self) -> BTreeSet<String> {
        let kinds = self.kubectl(&["api-resources", "--verbs=list", "-o", "name"]);
        let kinds: Vec<&str> = kinds
            .lines()
            .filter(|kind| !kind.starts_with("events") && !kind.ends_with(".metrics.k8s.io"))
            .collect();
        let columns =
            "-o=custom-columns=A:.apiVersion,K:.kind,S:.metadata.namespace,N:.metadata.name";
        let list = self.kubectl(&["get", &kinds.join(","), "-A", "--no-headers", columns]);
        list.lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .filter(|object| {
                !object.contains(" Pod shop ") && !object.contains(" ReplicaSet shop ")
            })
            .collect()
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// Installed as docs/install.md says, used, and uninstalled as docs/upgrade.md says: nothing is
/// left, and every Deployment is as it was, or as onDelete wants it.
#[test]
fn uninstalling_leaves_nothing() {
    let fresh = Fresh(Cluster::bare().unwrap_or_else(|why| panic!("no control plane: {why}")));
    fresh.kubectl(&["create", "namespace", "shop"]);
    for name in ["rests", "held", "goes-back"] {
        fresh.apply("shop", &deployment(name, 4));
    }
    fresh.until("all are available", || {
        let all = fresh.get(&["deploy"]);
        all.list("/items").iter().all(|one| one.int("/status/availableReplicas") == 4)
    });
    let (before, spec) = (fresh.objects(), fresh.get(&["deploy", "rests"]).at("/spec").clone());

    let config = root().join("config/default");
    let config = config.to_str().expect("a plain path");
    fresh.kubectl(&["apply", "--server-side", "-k", config]);
    let crd = "crd/grayrollouts.grayrollout.dev";
    fresh.kubectl(&["wait", "--for=condition=Established", "--timeout=30s", crd]);
    // A kind that is established is served a moment later.
    fresh.until("the kind is served", || {
        let mut list = fresh.0.kubectl();
        list.args(["-n", "shop", "get", "grayrollouts"]).output().expect("it runs").status.success()
    });
    fresh.0.use_operators_account().expect("its token");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let log = fresh.0.dir.join("operator.log");
    let kubeconfig = fresh.0.operator_kubeconfig.clone();
    let operator = Operator::start(&fresh.0, &kubeconfig, "shop", log, &[], &[]);
    let operator = runtime.block_on(operator);
    for name in ["rests", "held", "goes-back"] {
        let on_delete = if name == "goes-back" { "Rollback" } else { "Hold" };
        let gr = grayrollout(name, &[50, 100]).with(json!({"spec": {"onDelete": on_delete}}));
        fresh.apply("shop", &gr);
        fresh.phase(name, "Completed");
    }
    for name in ["held", "goes-back"] {
        let deployment = format!("deployment/{name}");
        fresh.kubectl(&["-n", "shop", "set", "image", &deployment, "app=app:v2"]);
        fresh.phase(name, "AwaitingApproval");
    }

    fresh.kubectl(&["delete", "grayrollouts", "--all", "--all-namespaces"]);
    fresh.until("nothing of it is left on the Deployments", || {
        !fresh.get(&["deploy"]).to_string().contains("grayrollout.dev/")
    });
    drop(operator);
    fresh.kubectl(&["delete", "--ignore-not-found", "--timeout=90s", "-k", config]);

    assert_eq!(fresh.get(&["deploy", "rests"]).at("/spec"), &spec);
    let held = fresh.get(&["deploy", "held"]);
    assert!(held.flag("/spec/paused"), "{}", held.at("/spec"));
    assert_eq!(held.text("/spec/strategy/type"), "RollingUpdate");
    // The native controller keeps the share, and may use the surge.
    assert!((2..=3).contains(&held.int("/status/updatedReplicas")), "{}", held.at("/status"));
    let back = fresh.get(&["deploy", "goes-back"]);
    assert!(!back.flag("/spec/paused"), "{}", back.at("/spec"));
    assert_eq!(back.text("/spec/template/spec/containers/0/image"), "app:v1");
    let after = fresh.objects();
    let left: Vec<_> = after.difference(&before).collect();
    assert!(left.is_empty(), "left behind: {left:?}");
    let lost: Vec<_> = before.difference(&after).collect();
    assert!(lost.is_empty(), "taken along: {lost:?}");
}
