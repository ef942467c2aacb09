//! What is shown, step by step.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
    sync::Arc,
    time::{Duration, Instant},
};

use grayrollout_e2e::{Api, Cluster, Json, Operator, Record, Snapshot};
use tokio::process::Command;

use crate::{
    picture::{legend, picture, pods},
    screen::{Ink, Screen, Span},
};

const NAME: &str = "web";
const NAMESPACE: &str = "default";
const REPLICAS: usize = 10;
/// The image of the change; pods of any other are the old ones.
const NEW: &str = "web:v2";
/// How long any step may take, most of which last a few seconds.
const PATIENCE: Duration = Duration::from_mins(1);

struct Story {
    cluster: &'static Cluster,
    screen: Arc<Screen>,
    record: Record,
    root: PathBuf,
}

/// Tells it all; with `keep` it does not end.
pub async fn tell(cluster: &'static Cluster, screen: Arc<Screen>, keep: bool) {
    let log = cluster.dir.join("operator.log");
    let account = &cluster.operator_kubeconfig;
    let operator = Operator::start(cluster, account, NAMESPACE, log.clone(), &[], &[]).await;
    let api = Api::new(&cluster.kubeconfig).await;
    let record = Record::begin(&api, NAMESPACE).await;
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace").to_owned();
    let story = Story { cluster, screen, record, root };
    story.rollout().await;
    if keep {
        story.leave_running(&log);
        std::future::pending::<()>().await;
    }
    drop(operator);
}

impl Story {
    async fn rollout(&self) {
        self.chapter("A Deployment with ten pods, like any other.").await;
        self.run("kubectl apply -f e2e/demo/deployment.yaml").await;
        self.screen.print(&legend());
        self.watch(|now| pods(now, NEW).1.ready == REPLICAS).await;

        self.chapter("A GrayRollout for it: in which stages its next change shall go out.").await;
        self.run("kubectl apply -f e2e/demo/grayrollout.yaml").await;
        self.show_file("e2e/demo/grayrollout.yaml");
        self.watch(|now| phase(now) == "Completed").await;

        self.chapter("A new image, set the usual way. The first stage is entered by itself.").await;
        let began = Instant::now();
        self.run("kubectl set image deployment/web app=web:v2").await;
        self.watch(|now| held(now, 1)).await;

        self.chapter("One pod of ten is new, and there it stays until someone says go on.").await;
        self.run("kubectl get grayrollout web").await;
        self.screen.breathe().await;
        self.say_dim("The status tells what to type. Half of the pods, then:").await;
        self.approve().await;
        self.watch(|now| held(now, 2)).await;

        self.chapter("Half of the pods are new. And now all of them.").await;
        self.approve().await;
        self.watch(|now| phase(now) == "Completed").await;

        let took = began.elapsed().as_secs_f32();
        self.chapter(&format!(
            "Done, {took:.0} s after the new image, and the Deployment has its own strategy back."
        ))
        .await;
        self.run("kubectl get grayrollout,deployment,replicaset").await;
    }

    /// Types the command that the status tells.
    async fn approve(&self) {
        let message = self.record.look(|now| now.gr(NAME).text("/status/message").to_owned());
        let (_, command) = message.split_once("with: ").expect("the status tells how to approve");
        self.run(command).await;
    }

    async fn chapter(&self, text: &str) {
        self.screen.say("");
        self.screen.print(&[Span(Ink::Bold, text.to_owned())]);
        self.screen.breathe().await;
    }

    async fn say_dim(&self, text: &str) {
        self.screen.print(&[Span(Ink::Dim, text.to_owned())]);
        self.screen.breathe().await;
    }

    fn show_file(&self, path: &str) {
        let text = std::fs::read_to_string(self.root.join(path)).expect("a file of the repository");
        for line in text.lines() {
            self.screen.print(&[Span(Ink::Dim, format!("    {line}"))]);
        }
    }

    /// Shows a command and does what it says.
    async fn run(&self, line: &str) {
        self.screen.print(&[Span(Ink::Dim, "$ ".into()), Span(Ink::Bold, line.to_owned())]);
        let mut command = Command::new("sh");
        command
            .args(["-c", line])
            .current_dir(&self.root)
            .env("KUBECONFIG", &self.cluster.kubeconfig)
            .env("KUBECACHEDIR", self.cluster.dir.join("kubectl-cache"))
            .env("PATH", self.path())
            .stdin(Stdio::null())
            .kill_on_drop(true);
        let done = tokio::time::timeout(PATIENCE, command.output()).await;
        let done = done.unwrap_or_else(|_| panic!("{line}: no answer")).expect("sh runs");
        for text in String::from_utf8_lossy(&done.stdout).lines() {
            self.screen.say(text);
        }
        let complaint = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{line}: {}", complaint.trim());
    }

    /// With the control plane's own kubectl first.
    fn path(&self) -> std::ffi::OsString {
        let rest = std::env::var_os("PATH").unwrap_or_default();
        let first = std::iter::once(self.cluster.bin_dir.clone());
        let all: Vec<_> = first.chain(std::env::split_paths(&rest)).collect();
        std::env::join_paths(all).expect("a path")
    }

    /// Draws the pods as they move until `done`.
    async fn watch(&self, done: impl Fn(&Snapshot) -> bool) {
        let drawn = self.record.until(PATIENCE, |now| {
            self.screen.draw(picture(now, NAME, NEW));
            done(now)
        });
        if let Err(why) = drawn.await {
            let status = self.record.look(|now| now.gr(NAME).at("/status").to_string());
            panic!("it did not go on ({why}); the status is {status}");
        }
        self.screen.breathe().await;
    }

    fn leave_running(&self, log: &Path) {
        let path = if on_path("kubectl") {
            String::new()
        } else {
            format!("\n  export PATH=\"$PATH:{}\"", self.cluster.bin_dir.display())
        };
        self.screen.say(&format!(
            "
Everything stays up until Ctrl-C. In another terminal:

  export KUBECONFIG={kubeconfig}{path}
  kubectl get grayrollout --watch                        # see it move
  kubectl set image deployment/web app=web:v3            # the next rollout
  kubectl get grayrollout web -o jsonpath='{{.status.message}}'   # what it waits for, how to approve
  kubectl set image deployment/web app=web:v2            # back to what ran before
  kubectl scale deployment/web --replicas=20             # the stages follow
  kubectl get events --field-selector involvedObject.kind=GrayRollout

The operator serves the namespace {NAMESPACE} alone. Its log: {log}",
            kubeconfig = self.cluster.kubeconfig.display(),
            log = log.display(),
        ));
    }
}

fn phase(now: &Snapshot) -> &str {
    now.gr(NAME).text("/status/phase")
}

fn held(now: &Snapshot, stage: i64) -> bool {
    phase(now) == "AwaitingApproval" && now.gr(NAME).int("/status/stage") == stage
}

fn on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
}
