//! The operator.

use std::process::ExitCode;

use clap::Parser;
use grayrollout::{
    controller::{Options, run},
    telemetry::init_logs,
};
use tracing::error;

#[tokio::main]
async fn main() -> ExitCode {
    let options = Options::parse();
    if let Err(reason) = init_logs(options.log_format, &options.log_level) {
        eprintln!("grayrollout: {reason}");
        return ExitCode::FAILURE;
    }
    match run(options).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            error!(reason, "ended");
            ExitCode::FAILURE
        }
    }
}
