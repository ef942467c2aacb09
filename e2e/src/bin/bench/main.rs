//! How fast the operator acts on approvals, how long a rollout takes, and how much it writes, each
//! beside what the native controller does in the same run on the same local control plane.
//!
//! Prints a table, and writes it with every sample to `bench/rollout.json` in the target folder.

// What fails here is told to whoever looks on.
#![allow(clippy::panic, clippy::expect_used)]

mod approvals;
mod audit;
mod figures;
mod machine;
mod rollouts;

use std::path::{Path, PathBuf};

use figures::Figure;
use grayrollout_e2e::{Test, cluster, run};
use serde_json::json;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    assert!(args.is_empty(), "usage: bench");
    run(bench);
    cluster().stop();
}

async fn bench(test: &Test) {
    let before = machine::load();
    let mut figures = approvals::measure(test).await;
    figures.extend(rollouts::measure(test).await);
    let machine = machine::describe(&before);
    println!("\n{}\n\n{}", machine::line(&machine), figures::table(&figures));
    let file = output();
    let figures: Vec<_> = figures.iter().map(Figure::json).collect();
    let report = json!({"machine": machine, "figures": figures});
    let report = serde_json::to_string_pretty(&report).expect("plain JSON");
    std::fs::write(&file, report + "\n").expect("the report can be written");
    println!("\nevery sample: {}", file.display());
}

/// The report's file; its folder is made.
fn output() -> PathBuf {
    let exe = std::env::current_exe().expect("this program has a path");
    // <target>/release/bench
    let dir = exe.ancestors().nth(2).unwrap_or(Path::new("target")).join("bench");
    std::fs::create_dir_all(&dir).expect("a folder for the report");
    dir.join("rollout.json")
}
