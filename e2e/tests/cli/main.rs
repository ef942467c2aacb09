//! `kubectl gray` as people and scripts use it, on a real control plane.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod acts;
mod approve;
mod files;
mod look;
mod plugin;
mod rights;
mod terminal;
mod wait;
mod watch;
