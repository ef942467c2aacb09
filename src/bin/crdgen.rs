//! Prints the CustomResourceDefinition as YAML.

use std::process::ExitCode;

fn main() -> ExitCode {
    let yaml = grayrollout::api::crd()
        .and_then(|crd| serde_saphyr::to_string(&crd).map_err(|error| error.to_string()));
    match yaml {
        Ok(yaml) => {
            print!("{yaml}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("crdgen: {error}");
            ExitCode::FAILURE
        }
    }
}
