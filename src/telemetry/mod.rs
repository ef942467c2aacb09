//! What the process tells about itself: metrics, health and logs.

mod health;
mod logs;
mod metrics;
mod objects;
mod requests;
mod server;

pub use health::Health;
pub use logs::{LogFormat, init_logs};
pub use metrics::Metrics;
pub use requests::RequestsLayer;
pub use server::{Status, serve};
