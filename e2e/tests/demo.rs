//! The demo, as someone sees it who runs it for the first time.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

fn demo(args: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_demo"))
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .expect("the demo starts")
}

/// A demo that is stopped in the way Ctrl-C does it, also when the test fails.
struct Running(Child);

impl Running {
    fn interrupt(&self) {
        let pid = self.0.id().to_string();
        let done = Command::new("kill").args(["-INT", &pid]).status().expect("kill runs");
        assert!(done.success());
    }

    fn exit_code(&mut self) -> Option<i32> {
        let give_up = Instant::now() + Duration::from_mins(1);
        loop {
            if let Some(status) = self.0.try_wait().expect("a child of ours") {
                return status.code();
            }
            assert!(Instant::now() < give_up, "the demo does not end");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// It goes through all stages, shows the commands with their answers and the pods as they move,
/// and ends by itself.
#[test]
fn it_shows_a_full_rollout() {
    let mut demo = Running(demo(&[]));
    let out = std::io::read_to_string(demo.0.stdout.take().unwrap()).unwrap();
    assert_eq!(demo.exit_code(), Some(0), "{out}");
    let mut rest = out.as_str();
    for expected in [
        "$ kubectl apply -f e2e/demo/deployment.yaml\ndeployment.apps/web created",
        "$ kubectl apply -f e2e/demo/grayrollout.yaml\ngrayrollout.grayrollout.dev/web created",
        "$ kubectl set image deployment/web app=web:v2\n",
        "○■■■■■■■■■",
        "●■■■■■■■■■       1 new  9 old   AwaitingApproval, stage 1 of 3 (10%)",
        "waits for a person to approve stage 2",
        "$ kubectl patch gr web",
        "●●●●●■■■■■       5 new  5 old   AwaitingApproval, stage 2 of 3 (50%)",
        "$ kubectl patch gr web",
        "●●●●●●●●●●      10 new  0 old   Completed",
    ] {
        let at = rest.find(expected);
        let at = at.unwrap_or_else(|| panic!("{expected:?} does not follow in:\n{out}"));
        rest = &rest[at + expected.len()..];
    }
    assert!(!out.contains('\x1b'), "colours where nobody sees them:\n{out}");
}

/// With --keep it stays until Ctrl-C, and then nothing is left: neither processes nor files.
#[test]
fn ctrl_c_ends_what_it_kept() {
    let mut demo = Running(demo(&["--keep"]));
    let mut lines = BufReader::new(demo.0.stdout.take().unwrap()).lines().map_while(Result::ok);
    let export =
        lines.find_map(|line| Some(line.trim().strip_prefix("export KUBECONFIG=")?.to_owned()));
    let kubeconfig = std::path::PathBuf::from(export.expect("it says how to play with it"));
    let dir = kubeconfig.parent().unwrap().to_owned();
    assert!(kubeconfig.exists());
    let pids: Vec<String> = ["etcd", "kube-apiserver", "kube-controller-manager", "kwok"]
        .iter()
        .map(|name| {
            std::fs::read_to_string(dir.join(format!("{name}.pid"))).unwrap().trim().to_owned()
        })
        .collect();
    assert!(pids.iter().all(|pid| runs(pid)));

    demo.interrupt();
    assert_eq!(demo.exit_code(), Some(0));
    assert_eq!(pids.iter().filter(|pid| runs(pid)).collect::<Vec<_>>(), Vec::<&String>::new());
    assert!(!dir.exists(), "{} is left", dir.display());
}

fn runs(pid: &str) -> bool {
    Command::new("kill")
        .args(["-0", pid])
        .stderr(Stdio::null())
        .status()
        .expect("kill runs")
        .success()
}
