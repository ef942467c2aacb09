//! `restart NAME`: all pods anew, stage by stage.

use jiff::Timestamp;
use kube::api::Patch;
use serde_json::json;

use super::{Context, error::Failure, output::say};

/// What kubectl rollout restart sets.
const RESTARTED_AT: &str = "kubectl.kubernetes.io/restartedAt";

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Name of the GrayRollout.
    name: String,
    /// Also in the midst of a rollout, which is superseded by it.
    #[arg(short, long)]
    yes: bool,
}

pub async fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let session = context.session().await?;
    let seen = session.gray(&args.name).await?;
    let status = seen.gray.status.clone().unwrap_or_default();
    if let (Some(rollout), Some(_), false) = (status.rollout, status.stage, args.yes) {
        return Err(Failure::Error(format!(
            "rollout {rollout} is not over and a restart would supersede it; finish or undo it first, or say --yes"
        )));
    }
    let target = &seen.gray.spec.target_ref.name;
    let now = Timestamp::now().round(jiff::Unit::Second).unwrap_or_default().to_string();
    let patch = json!({
        "spec": { "template": { "metadata": { "annotations": { RESTARTED_AT: now } } } }
    });
    session.patch_deployment(target, Patch::Merge(patch)).await?;
    say(format!(
        "Deployment {target} restarts stage by stage; follow it with: kubectl gray status {}{} --watch",
        args.name, session.flags
    ))
}
