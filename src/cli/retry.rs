//! `retry NAME`: an aborted or failed rollout once more, from stage 1.

use serde_json::json;

use super::{Context, abort, error::Failure, output::say};

/// The same as those of an abort.
pub type Args = abort::Args;

pub async fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let session = context.session().await?;
    let status = session.gray(&args.name).await?.gray.status.unwrap_or_default();
    let rollout =
        args.rollout.or(status.rollout.filter(|rollout| *rollout > 0)).ok_or_else(|| {
            Failure::Error("nothing can be retried: nothing was rolled out yet".into())
        })?;
    let retry = json!({ "retry": { "rollout": rollout } });
    let sent = session.patch_status(&args.name, retry).await;
    sent.map_err(|error| session.status_request(&args.name).failure(error))?;
    say(format!("rollout {rollout}: retried; it starts as the next number, from stage 1"))
}
