//! The operator.

use std::process::ExitCode;

use clap::Parser;
use grayrollout::{
    controller::{Options, run},
    telemetry::init_logs,
};

#[tokio::main]
async fn main() -> ExitCode {
    let options = Options::parse();
    let started = init_logs(options.log_format, &options.log_level);
    let outcome = match started {
        Ok(()) => run(options).await,
        Err(error) => Err(error),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("grayrollout: {error}");
            ExitCode::FAILURE
        }
    }
}
