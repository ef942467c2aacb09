//! What works without a cluster, and what makes a first manifest.

use std::{
    fs,
    process::Command,
    time::{Duration, Instant},
};

use grayrollout_e2e::{Json, Test, cluster, deployment, grayrollout, run};
use serde_json::{Value, json};

use crate::plugin::{Ran, finish, gray, offline};

fn run_offline(args: &[&str]) -> Ran {
    let mut command = offline();
    command.args(args);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(finish(command))
}

/// A file that is removed with the control plane's folder.
fn file(name: &str, text: &str) -> String {
    let path = cluster().dir.join(name);
    fs::write(&path, text).unwrap();
    path.display().to_string()
}

fn pair(stages: &Value) -> String {
    let gr = grayrollout("web", &[100]).with(json!({"spec": {"stages": stages}}));
    format!("{gr}\n---\n{}\n", deployment("web", 10))
}

/// A plan of files needs no cluster.
#[test]
fn a_plan_of_files() {
    let path = file("plan.yaml", &pair(&json!([{"percent": 10}, {"percent": 100}])));
    let said = run_offline(&["plan", "-f", &path]).done();
    assert!(
        said.starts_with("web: Deployment web, 10 replicas, at most 3 more and 0 fewer"),
        "{said}"
    );
    let rows: Vec<Vec<&str>> =
        said.lines().skip(2).map(|l| l.split_whitespace().collect()).collect();
    assert_eq!(rows[0][..7], ["1", "10%", "10%", "1", "9", "11", "10"], "{said}");
    assert_eq!(rows[1][..7], ["2", "100%", "100%", "10", "0", "13", "10"], "{said}");
    let alone = file("alone.yaml", &grayrollout("web", &[50, 100]).to_string());
    assert!(run_offline(&["plan", "-f", &alone]).failed(2).contains("--replicas"));
    run_offline(&["plan", "-f", &alone, "--replicas", "3"]).done();
    assert_eq!(run_offline(&["plan"]).code, 2);
}

/// What lint finds is what the API server refuses; what it lets pass is accepted.
#[test]
fn lint_and_the_api_server_agree() {
    run(async |t: &Test| {
        let good = [
            json!([{"percent": 10}, {"percent": 100}]),
            json!([{"percent": 100, "soakSeconds": 5}]),
        ];
        let bad = [
            json!([{"percent": 10}]),
            json!([{"percent": 50}, {"percent": 10}, {"percent": 100}]),
            json!([{"percent": 0}, {"percent": 100}]),
            json!([{"percent": 100, "soakSeconds": -1}]),
            json!([{"percent": "10"}, {"percent": 100}]),
            json!([]),
            json!([{"percent": 100, "approval": "Maybe"}]),
        ];
        let specs =
            |stages: &Value| grayrollout("web", &[100]).with(json!({"spec": {"stages": stages}}));
        let more_bad = [
            json!({"maxSurge": "a"}),
            json!({"maxSurge": 0, "maxUnavailable": 0}),
            json!({"maxSurge": -1}),
            json!({"maxUnavailable": "101%"}),
            json!({"progressDeadlineSeconds": 0}),
            json!({"onDelete": "Nothing"}),
            json!({"targetRef": {"kind": "StatefulSet"}}),
            json!({"approval": {"rollout": 1, "revision": "a", "stage": 2}}),
        ]
        .map(|spec| grayrollout("web", &[100]).with(json!({ "spec": spec })));
        let good = good.iter().map(specs);
        let bad = bad.iter().map(specs).chain(more_bad);
        for (index, object) in good.enumerate() {
            let path = file(&format!("good-{index}.json"), &object.to_string());
            gray(t, &["lint", "-f", &path]).await.done();
            t.kubectl(&["create", "--dry-run=server", "-f", &path]).await;
        }
        for (index, object) in bad.enumerate() {
            let path = file(&format!("bad-{index}.json"), &object.to_string());
            let found = gray(t, &["lint", "-f", &path]).await;
            assert!(found.out.contains("error: GrayRollout web: spec"), "{object}: {found:?}");
            found.failed(1);
            t.kubectl_refused(&["create", "--dry-run=server", "-f", &path]).await;
        }
    });
}

/// Bare words that kubectl takes for booleans: lint tells why the API server refuses the manifest.
#[test]
fn lint_reads_yaml_as_kubectl_does() {
    run(async |t: &Test| {
        let hooks = |on: &str, name: &str| {
            format!(
                "\
apiVersion: grayrollout.dev/v1alpha1
kind: GrayRollout
metadata: {{name: web}}
spec:
  targetRef: {{name: web}}
  stages: [{{percent: 010}}, {{percent: 100}}]
  paused: yes
  hooks:
  - name: {name}
    {on}: [PodsAdded]
    webhook: {{url: \"http://a\"}}
"
            )
        };
        let path = file("quoted.yaml", &hooks("\"on\"", "a"));
        let said = gray(t, &["lint", "-f", &path]).await.done();
        assert!(
            said.contains("spec.stages[0].percent: line 6") && said.contains("is 8;"),
            "{said}"
        );
        assert!(said.contains("warning: GrayRollout web: spec.paused: line 7"), "{said}");
        let made = t.kubectl(&["create", "--dry-run=server", "-f", &path, "-o", "json"]).await;
        let made: Value = serde_json::from_str(&made).unwrap();
        assert_eq!((made.int("/spec/stages/0/percent"), made.flag("/spec/paused")), (8, true));

        for (on, name, complaint) in [
            ("on", "a", "spec.hooks[0].on: line 10: kubectl reads YAML 1.1"),
            ("\"on\"", "yes", "spec.hooks[0].name: line 9: kubectl reads YAML 1.1"),
        ] {
            let path = file("bare.yaml", &hooks(on, name));
            let found = gray(t, &["lint", "-f", &path]).await;
            assert!(found.out.contains(complaint), "{found:?}");
            found.failed(1);
            t.kubectl_refused(&["create", "--dry-run=server", "-f", &path]).await;
        }
    });
}

/// Lint needs no cluster, looks at the neighbours and speaks JSON.
#[test]
fn lint_offline() {
    let stages = json!([{"percent": 10}, {"percent": 11}, {"percent": 100}]);
    let path = file("lint.yaml", &pair(&stages).replace("\"replicas\":10", "\"replicas\":4"));
    let said = run_offline(&["lint", "-f", &path]).done();
    assert!(said.contains("warning: GrayRollout web: with 4 replicas stage 2 (11%)"), "{said}");
    let found: Value =
        serde_json::from_str(&run_offline(&["lint", "-f", &path, "-o", "json"]).done()).unwrap();
    assert_eq!(found.text("/0/level"), "warning");
    let broken = file("broken.yaml", "a: [1");
    let said = run_offline(&["lint", "-f", &broken]);
    assert!(said.out.contains("broken.yaml: error: "), "{said:?}");
    said.failed(1);
    run_offline(&["lint", "-f", "/nonexistent/file"]).failed(1);
    run_offline(&["lint", "-f", &file("other.yaml", "kind: ConfigMap")]).failed(1);
}

/// What init prints can be applied as it is.
#[test]
fn init_prints_what_can_be_applied() {
    run(async |t: &Test| {
        t.create(&deployment("web", 4)).await;
        let text =
            gray(t, &["init", "web", "--stages", "25,100", "--soak-seconds", "1"]).await.done();
        let path = file(&format!("{}.yaml", t.namespace), &text);
        gray(t, &["lint", "-f", &path]).await.done();
        t.kubectl(&["apply", "-f", &path]).await;
        t.completed("web").await;
        t.push("web", "v2").await;
        t.held("web", 1, 1, 3).await;
        let said = gray(t, &["init", "web"]).await.failed(1);
        assert!(said.contains("the GrayRollout web rolls out Deployment web already"), "{said}");
        let said = gray(t, &["init", "none"]).await.failed(1);
        assert!(said.contains("no deployments/none"), "{said}");
        let said = gray(t, &["init", "web", "--stages", "50,10,100"]).await.failed(2);
        assert!(said.contains("higher percent"), "{said}");
    });
}

/// The completion of each shell knows the commands, and bash can read its own.
#[test]
fn completion_of_every_shell() {
    for shell in ["bash", "zsh", "fish"] {
        let script = run_offline(&["completion", shell]).done();
        for verb in ["approve", "status", "rolledback", "--no-color"] {
            // fish writes long flags without their dashes.
            let verb = if shell == "fish" { verb.trim_start_matches('-') } else { verb };
            assert!(script.contains(verb), "{shell}: {verb}");
        }
        if shell == "bash" {
            let path = file("completion.bash", &script);
            assert!(Command::new("bash").args(["-n", &path]).status().unwrap().success());
        }
    }
    assert_eq!(run_offline(&["completion", "tcl"]).code, 2);
}

/// No cluster, no kubeconfig, a context that is not there: one line each that says what to do.
#[test]
fn a_cluster_that_cannot_be_had() {
    let said = run_offline(&["get"]).failed(1);
    assert!(said.contains("--kubeconfig") && said.lines().count() == 1, "{said}");
    let admin = cluster().kubeconfig.display().to_string();
    let said = run_offline(&["get", "--kubeconfig", &admin, "--context", "none"]).failed(1);
    assert!(said.contains("none") && said.contains("--context"), "{said}");
    let text = fs::read_to_string(&cluster().kubeconfig).unwrap();
    let server = text.lines().find(|line| line.contains("server:")).unwrap().trim().to_owned();
    let closed = file("closed.yaml", &text.replace(&server, "server: https://127.0.0.1:9"));
    let said = run_offline(&["get", "--kubeconfig", &closed]).failed(1);
    assert!(said.contains("cannot reach the cluster") && said.lines().count() == 1, "{said}");
}

/// It starts at once. The best of several tries, so that a busy machine does not decide.
#[test]
fn it_starts_at_once() {
    let best = (0..20).map(|_| {
        let start = Instant::now();
        run_offline(&["version"]).done();
        start.elapsed()
    });
    assert!(best.min().unwrap() < Duration::from_millis(30));
}
