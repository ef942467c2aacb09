//! GrayRollout: staged rollouts in place on existing Deployments.
//!
//! Data flows one way: watch, index, snapshot, [`plan`], apply, status.

pub mod api;
pub mod cli;
pub mod cluster;
pub mod controller;
pub mod outbound;
pub mod plan;
pub mod telemetry;
