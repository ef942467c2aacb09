//! `version`.

use serde_json::json;

use super::{
    error::Failure,
    output::{DataFormat, print_data, say},
};
use crate::api::GROUP;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Another form.
    #[arg(short, long, value_enum)]
    output: Option<DataFormat>,
}

pub fn run(args: &Args) -> Result<(), Failure> {
    let (version, api) = (env!("CARGO_PKG_VERSION"), format!("{GROUP}/v1alpha1"));
    match args.output {
        Some(format) => print_data(&json!({ "version": version, "apiVersion": api }), format),
        None => say(format!("kubectl gray {version}, for {api}")),
    }
}
