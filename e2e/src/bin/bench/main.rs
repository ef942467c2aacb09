//! How fast the operator acts, how long rollouts take, how much it writes and what it needs, each
//! beside what the native controller does in the same run on the same local control plane.
//!
//! `bench [PART...]` measures the named parts, or all. Each prints a table, and writes it with
//! every sample to `bench/PART.json` in the target folder.

// What fails here is told to whoever looks on.
#![allow(clippy::panic, clippy::expect_used)]

mod approvals;
mod audit;
mod crowd;
mod figures;
mod first_pod;
mod machine;
mod noise;
mod population;
mod report;
mod rollouts;
mod scale;

use grayrollout_e2e::{
    Test, cluster, policed_cluster, run, run_policed, run_policed_without_operator,
    run_without_operator,
};
use report::Report;

const PARTS: [&str; 7] =
    ["approvals", "first-pod", "rollouts", "noise", "crowd", "impatient", "scale"];

fn main() {
    let mut parts: Vec<String> = std::env::args().skip(1).collect();
    if let Some(unknown) = parts.iter().find(|part| !PARTS.contains(&part.as_str())) {
        panic!("{unknown} is none of {}", PARTS.join(", "));
    }
    if parts.is_empty() {
        parts = PARTS.map(ToOwned::to_owned).to_vec();
    }
    for part in parts {
        let (mut report, part) = (Report::new(&part), part.as_str());
        match part {
            // These start operators of their own.
            "crowd" => run_bare(async |test: &Test| {
                crowd::measure(test, &mut report).await;
            }),
            "impatient" => run_bare(async |test: &Test| {
                crowd::impatient(test, &mut report).await;
            }),
            "scale" => run_bare(async |test: &Test| {
                scale::measure(test, &mut report).await;
            }),
            _ => run_with_operator(async |test: &Test| match part {
                "approvals" => approvals::measure(test, &mut report).await,
                "first-pod" => first_pod::measure(test, &mut report).await,
                "rollouts" => rollouts::measure(test, &mut report).await,
                _ => noise::measure(test, &mut report).await,
            }),
        }
        report.finish();
    }
    if policies() { policed_cluster() } else { cluster() }.stop();
}

/// Whether the admission policies are installed, as a user would have them.
fn policies() -> bool {
    std::env::var_os("BENCH_POLICIES").is_some_and(|value| value == "1")
}

fn run_with_operator<F: AsyncFnOnce(&Test)>(body: F) {
    if policies() { run_policed(body) } else { run(body) }
}

fn run_bare<F: AsyncFnOnce(&Test)>(body: F) {
    if policies() { run_policed_without_operator(body) } else { run_without_operator(body) }
}
