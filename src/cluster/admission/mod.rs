//! Whether the API server holds a new template by itself: which admission policies there are, and
//! for each Deployment whether they were seen to work.

pub mod policies;
pub mod proofs;
mod trial;
mod watch;

pub use watch::PolicyWatcher;
