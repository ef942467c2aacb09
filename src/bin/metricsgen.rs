//! Prints docs/metrics.md.

use std::process::ExitCode;

fn main() -> ExitCode {
    match grayrollout::telemetry::reference() {
        Ok(page) => {
            print!("{page}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("metricsgen: {error}");
            ExitCode::FAILURE
        }
    }
}
