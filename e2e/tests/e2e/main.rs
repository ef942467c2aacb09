//! What a user sees of GrayRollout on a real control plane.
//!
//! One control plane serves all tests of a run; each test has a namespace and an operator of its
//! own. Everything that is stored meanwhile is held against the invariants when a test ends.

// The tests below are functions of tests, also where they are not marked as such.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod abort;
mod admission;
mod adopt;
mod annotation;
mod approvals;
mod cases;
mod checks;
mod crash;
mod crash_each_write;
mod deadline;
mod delete;
mod docs;
mod drift;
mod edits;
mod faults;
mod flood;
mod gitops;
mod hook_crashes;
mod hooks;
mod interval;
mod leader;
mod manifests;
mod monitoring;
mod native;
mod objects;
mod oracle;
mod packages;
mod pause;
mod policies;
mod requests;
mod rest;
mod rights;
mod samples;
mod scaling;
mod stages;
mod supersede;
mod tls;
mod writes;
mod zero;
