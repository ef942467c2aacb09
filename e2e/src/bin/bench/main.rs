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
mod report;
mod rollouts;

use grayrollout_e2e::{Test, cluster, run};
use report::Report;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    assert!(args.is_empty(), "usage: bench");
    run(bench);
    cluster().stop();
}

async fn bench(test: &Test) {
    let mut report = Report::new();
    approvals::measure(test, &mut report).await;
    rollouts::measure(test, &mut report).await;
    report.finish();
}
