//! What the process tells about itself: metrics, health and logs.

mod auth;
mod health;
mod logs;
mod metrics;
mod objects;
mod reference;
mod requests;
mod server;

pub use auth::MetricsAuth;
pub use health::Health;
pub use logs::{LogFormat, init_logs};
pub use metrics::Metrics;
pub use reference::reference;
pub use requests::RequestsLayer;
pub use server::{Status, serve};
