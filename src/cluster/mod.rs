//! The cluster: watching it, the index of what was seen, and writing to it. Decides nothing.

pub mod admission;
mod adopt;
pub mod apply;
pub mod backoff;
pub mod calls;
pub mod events;
pub mod index;
pub mod leadership;
pub mod lease;
mod merge;
mod new_replica_set;
pub mod slim;
mod status;
pub mod watch;
