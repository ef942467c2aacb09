//! What the figures were measured on.

use std::process::Command;

use grayrollout_e2e::{Json, Test, Usage, usage_of};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

/// Processes that want to run, over the last minute; empty where the system does not tell.
pub fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or_default().to_owned()
}

/// The machine, the moment and the version.
pub fn describe(load_before: &str) -> Value {
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    json!({
        "date": Timestamp::now().strftime("%Y-%m-%d").to_string(),
        "cores": cores,
        "cpu": cpu(),
        "system": format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
        "loadBefore": load_before,
        "loadAfter": load(),
        "commit": commit(),
        "profile": if cfg!(debug_assertions) { "debug" } else { "release" },
    })
}

/// The same in one line.
pub fn line(machine: &Value) -> String {
    format!(
        "{}, {} cores, {}, {}, commit {}, {} build, load {} before and {} after",
        machine.text("/date"),
        machine.int("/cores"),
        machine.text("/cpu"),
        machine.text("/system"),
        machine.text("/commit"),
        machine.text("/profile"),
        machine.text("/loadBefore"),
        machine.text("/loadAfter"),
    )
}

fn cpu() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    name.map_or_else(|| "unknown CPU".to_owned(), |(_, name)| name.to_owned())
}

fn commit() -> String {
    let git = Command::new("git")
        .args(["describe", "--always", "--dirty"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output();
    let said = git.ok().filter(|done| done.status.success());
    said.map_or_else(
        || "unknown".to_owned(),
        |done| String::from_utf8_lossy(&done.stdout).trim().to_owned(),
    )
}

/// What the native controllers take, all of them in one process.
pub fn native(test: &Test) -> Usage {
    let file = test.cluster.dir.join("kube-controller-manager.pid");
    let pid = std::fs::read_to_string(file).expect("the controller manager runs");
    usage_of(pid.trim().parse().expect("a process id"))
}
