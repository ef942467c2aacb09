//! `pause NAME` and `resume NAME`.

use serde_json::json;

use super::{Context, error::Failure, output::say};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Name of the GrayRollout.
    name: String,
}

pub async fn run(args: &Args, paused: bool, context: &Context) -> Result<(), Failure> {
    let session = context.session().await?;
    let seen = session.gray(&args.name).await?;
    let word = if paused { "paused" } else { "resumed" };
    if seen.gray.spec.paused == paused {
        return say(format!(
            "{} is {} already",
            args.name,
            if paused { word } else { "not paused" }
        ));
    }
    session.patch_gray(&args.name, json!({ "spec": { "paused": paused } })).await?;
    say(format!("{} {word}", args.name))
}
