//! Installing, rolling out, killing an operator, aborting.

use std::{path::Path, time::Instant};

use grayrollout_e2e::{Cluster, Json};
use serde_json::{Value, json};

use crate::{
    client::{Client, Tally},
    machine::{run, until},
};

struct Story<'a> {
    cluster: &'a Cluster,
    began: Instant,
}

/// Tells it, and panics where something is not as it should be.
pub fn tell(cluster: &Cluster) {
    let story = Story { cluster, began: Instant::now() };
    story.install();
    story.deploy();
    let client = Client::start(cluster, "shop", "web");
    story.roll_out();
    story.check("a rollout, an operator killed in the midst of it", client.stop(), &["v1", "v2"]);
    let client = Client::start(cluster, "shop", "web");
    story.abort();
    story.check("an abort", client.stop(), &["v2", "v3"]);
}

impl Story<'_> {
    fn say(&self, what: &str) {
        println!("{:6.1} s  {what}", self.began.elapsed().as_secs_f32());
    }

    fn kubectl(&self, args: &[&str]) -> String {
        run(self.cluster.kubectl().args(args))
    }

    fn get(&self, args: &[&str]) -> Value {
        let text = self.kubectl(&[&["get", "-o", "json"][..], args].concat());
        serde_json::from_str(&text).expect("JSON")
    }

    fn apply(&self, object: &Value) {
        let file = self.cluster.dir.join("object.json");
        std::fs::write(&file, object.to_string()).expect("the object");
        self.kubectl(&["-n", "shop", "apply", "-f", file.to_str().expect("a plain path")]);
    }

    fn status(&self) -> Value {
        self.get(&["-n", "shop", "gr", "web"]).at("/status").clone()
    }

    fn phase(&self, phase: &str, rollout: Option<i64>) {
        until(&format!("{phase}, rollout {rollout:?}"), || {
            let status = self.status();
            status.text("/phase") == phase
                && rollout.is_none_or(|number| status.int("/rollout") == number)
        });
    }

    fn patch_status(&self, status: &Value) {
        let patch = json!({"status": status}).to_string();
        let args = ["-n", "shop", "patch", "gr", "web", "--subresource=status", "--type=merge"];
        self.kubectl(&[&args[..], &["-p", &patch]].concat());
    }

    /// As docs/install.md says.
    fn install(&self) {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
        let config = root.join("config/default");
        self.kubectl(&["apply", "-k", config.to_str().expect("a plain path")]);
        let of = ["-n", "grayrollout-system"];
        let wait = ["rollout", "status", "deployment/grayrollout", "--timeout=120s"];
        self.kubectl(&[&of[..], &wait].concat());
        let pods = self.operator_pods();
        assert_eq!(pods.len(), 2, "two operator pods are ready: {pods:?}");
        let namespace = self.get(&["namespace", "grayrollout-system"]);
        let enforced = namespace.at("/metadata/labels/pod-security.kubernetes.io~1enforce");
        assert_eq!(enforced, "restricted");
        let kubeconfig = self.get(&[&of[..], &["deployment", "grayrollout"]].concat()).to_string();
        assert!(!kubeconfig.contains("KUBECONFIG"), "it reaches the API server in the cluster");
        self.say("two operator pods are ready, Pod Security restricted");
    }

    fn operator_pods(&self) -> Vec<(String, String)> {
        let pods = self.get(&["-n", "grayrollout-system", "pods"]);
        let ready = pods.list("/items").iter().filter(|pod| {
            pod.at("/metadata/deletionTimestamp").is_null()
                && pod.list("/status/containerStatuses").iter().all(|c| c.flag("/ready"))
        });
        let names = ready
            .map(|p| (p.text("/metadata/name").to_owned(), p.text("/metadata/uid").to_owned()));
        names.collect()
    }

    fn deploy(&self) {
        self.kubectl(&["create", "namespace", "shop"]);
        let container = |version: &str| {
            json!({
                "name": "web",
                "image": "web:1",
                "imagePullPolicy": "Never",
                "env": [{"name": "VERSION", "value": version}],
                "readinessProbe": {
                    "httpGet": {"path": "/ready", "port": 8080},
                    "periodSeconds": 1,
                },
            })
        };
        self.apply(&json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "web"},
            "spec": {
                "replicas": 4,
                "selector": {"matchLabels": {"app": "web"}},
                "template": {
                    "metadata": {"labels": {"app": "web"}},
                    "spec": {
                        "terminationGracePeriodSeconds": 15,
                        "containers": [container("v1")],
                    },
                },
            },
        }));
        self.kubectl(&["-n", "shop", "rollout", "status", "deployment/web", "--timeout=120s"]);
        self.apply(&json!({
            "apiVersion": "grayrollout.dev/v1alpha1",
            "kind": "GrayRollout",
            "metadata": {"name": "web"},
            "spec": {
                "targetRef": {"name": "web"},
                "stages": [{"percent": 25}, {"percent": 50}, {"percent": 100}],
            },
        }));
        self.phase("Completed", None);
        self.say("web runs v1 and has its stages");
    }

    fn push(&self, version: &str) {
        let env = format!("VERSION={version}");
        self.kubectl(&["-n", "shop", "set", "env", "deployment/web", &env]);
    }

    fn roll_out(&self) {
        self.push("v2");
        self.phase("AwaitingApproval", Some(1));
        self.say("stage 1 is held");
        let held = self.status();
        self.patch_status(&json!({"approval": {"rollout": 1, "stage": 2}}));
        // The one that leads, without grace, while pods move.
        let holder = self.get(&["-n", "grayrollout-system", "lease", "grayrollout"]);
        let holder = holder.text("/spec/holderIdentity");
        let leader = self.operator_pods().into_iter().find(|(_, uid)| uid == holder);
        let leader = leader.unwrap_or_else(|| panic!("{holder} is no operator pod")).0;
        self.kubectl(&[
            "-n",
            "grayrollout-system",
            "delete",
            "pod",
            &leader,
            "--grace-period=0",
            "--force",
        ]);
        self.say("stage 2 is approved, and the operator pod that leads is killed");
        until("stage 2 is held", || {
            let status = self.status();
            status.text("/phase") == "AwaitingApproval" && status.int("/stage") == 2
        });
        let status = self.status();
        for field in ["/rollout", "/updateRevision", "/stableRevision"] {
            assert_eq!(status.at(field), held.at(field), "{field}: {status}");
        }
        self.say("stage 2 is held; the rollout is the same");
        self.patch_status(&json!({"approval": {"rollout": 1, "stage": 3}}));
        self.phase("Completed", Some(1));
        self.say("completed");
        until("there are two operator pods again", || self.operator_pods().len() == 2);
    }

    fn abort(&self) {
        self.push("v3");
        self.phase("AwaitingApproval", Some(2));
        self.patch_status(&json!({"approval": {"rollout": 2, "stage": 2}}));
        until("half is new", || self.status().int("/update/available") == 2);
        self.patch_status(&json!({"abort": {"rollout": 2}}));
        self.phase("RolledBack", Some(2));
        self.say("v3 was aborted at half");
    }

    fn check(&self, what: &str, tally: Tally, versions: &[&str]) {
        self.say(&format!("{what}: {} requests, {} failed", tally.sent, tally.failed.len()));
        assert!(tally.failed.is_empty(), "{:?}", &tally.failed[..tally.failed.len().min(5)]);
        assert!(tally.sent > 200, "only {} requests", tally.sent);
        assert_eq!(tally.versions, versions, "both versions answered");
    }
}
