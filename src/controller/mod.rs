//! The process: wiring, queue, decisions, supervision.

mod adopt;
mod memo;
mod options;
mod queue;
mod reconcile;
mod run;

pub use options::Options;
pub use run::run;
