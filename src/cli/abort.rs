//! `abort NAME`: back to the stable revision.

use serde_json::json;

use super::{Context, error::Failure, output::say};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Name of the GrayRollout.
    pub name: String,
    /// Number of the rollout that is meant; the one under way if left out. Another one is refused.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(1..=1_000_000_000))]
    pub rollout: Option<i64>,
}

pub async fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let session = context.session().await?;
    let status = session.gray(&args.name).await?.gray.status.unwrap_or_default();
    let rollout = args.rollout.or(status.rollout).ok_or_else(|| {
        Failure::Error("nothing can be aborted: nothing was rolled out yet".into())
    })?;
    let abort = json!({ "abort": { "rollout": rollout } });
    let sent = session.patch_status(&args.name, abort).await;
    sent.map_err(|error| session.status_request(&args.name).failure(error))?;
    say(format!(
        "rollout {rollout}: aborted, going back to revision {}; follow it with: kubectl gray status {}{} --watch",
        status.stable_revision.as_deref().unwrap_or("unknown"),
        args.name,
        session.flags
    ))
}
