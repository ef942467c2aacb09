//! A staged rollout of real containers: kubelet and containerd beside the control plane, the
//! operator in pods of its own image, and a client whose every request must be answered.
//!
//! Started by e2e/node/run.sh, in namespaces of network and processes of its own, which give it the
//! addresses that it uses and take along whatever it leaves running.

// What fails here is told to whoever looks on.
#![allow(clippy::panic, clippy::expect_used, clippy::indexing_slicing, clippy::unwrap_used)]

mod client;
mod machine;
mod story;

use std::process::ExitCode;

use grayrollout_e2e::Cluster;

fn main() -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let cluster = match Cluster::bare() {
        Ok(cluster) => cluster,
        Err(why) => {
            eprintln!("no control plane: {why}");
            return ExitCode::FAILURE;
        }
    };
    let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let machine = machine::Machine::start(&cluster, &runtime);
        story::tell(&cluster);
        drop(machine);
    }));
    if done.is_err() {
        eprintln!("{}", machine::logs(&cluster));
    }
    cluster.stop();
    if done.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
