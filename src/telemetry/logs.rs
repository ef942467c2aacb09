//! Logs on standard error.

use clap::ValueEnum;
use tracing_subscriber::{EnvFilter, fmt, prelude::*};

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object per line.
    Json,
}

/// Starts logging; `level` is a level such as `info`, or a list of filters such as
/// `info,kube=debug`.
///
/// # Errors
///
/// Fails where the level cannot be read.
pub fn init_logs(format: LogFormat, level: &str) -> Result<(), String> {
    // The client logs each failed request as an error; whoever sent it says more about it.
    let filter = EnvFilter::builder()
        .parse(format!("kube_client::client::builder=off,{level}"))
        .map_err(|error| format!("--log-level {level:?} is not understood: {error}"))?;
    let lines = fmt::layer().with_writer(std::io::stderr);
    let registry = tracing_subscriber::registry().with(filter);
    match format {
        LogFormat::Text => registry.with(lines.with_ansi(false)).try_init(),
        LogFormat::Json => {
            registry.with(lines.json().flatten_event(true).with_current_span(false)).try_init()
        }
    }
    .map_err(|error| error.to_string())
}
