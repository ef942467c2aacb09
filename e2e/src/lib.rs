//! What the end-to-end tests share: a real control plane, the operator as a process, users' acts,
//! and a record of every stored state that is held against the invariants.
//!
//! It knows the operator only by what the API server shows, as a user does.

// A test fails by panicking, and this crate is nothing but tests' support.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    clippy::must_use_candidate
)]

mod acts;
mod api;
mod cluster;
mod http;
mod install;
mod invariants;
mod json;
mod lag;
mod leaders;
mod manifests;
mod operator;
mod processes;
mod prometheus;
mod proxy;
mod record;
mod report;
mod snapshot;
mod test;
mod tls;
mod waits;
mod webhook;
mod writer;

pub use acts::new_template;
pub use api::{Api, ApiError};
pub use cluster::{Cluster, cluster, policed_cluster};
pub use install::POLICY_KINDS;
pub use invariants::{Context, Violation, check};
pub use json::{Json, path_of};
pub use manifests::{deployment, grayrollout, pods_are, pods_ready_after, stages};
pub use operator::Operator;
pub use processes::{Process, Usage, usage_of};
pub use prometheus::{Prometheus, promtool};
pub use proxy::{Faults, Proxy, Write};
pub use record::{Observer, Record, Stored};
pub use snapshot::{Kind, Snapshot, Split};
pub use test::{
    Test, run, run_policed, run_policed_alone, run_policed_without_operator, run_without_operator,
};
pub use tls::{Authority, Identity};
pub use waits::reason_of;
pub use webhook::{Received, Reply, Webhook};
pub use writer::{OPERATOR, writer};
