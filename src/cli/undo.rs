//! `undo NAME`: the stable revision's pod template, put back.

use kube::api::Patch;
use serde_json::{Value, json};

use super::{Context, error::Failure, output::say, revisions};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Name of the GrayRollout.
    name: String,
}

pub async fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let session = context.session().await?;
    let seen = session.gray(&args.name).await?;
    let target = &seen.gray.spec.target_ref.name;
    let status = seen.gray.status.clone().unwrap_or_default();
    let stable = status.stable_revision.as_deref().ok_or_else(|| {
        Failure::Error("there is no stable revision yet, so nothing to go back to".into())
    })?;
    let deployment = session.deployment(target).await?;
    let present = deployment.pointer("/spec/template").cloned().unwrap_or_default();
    let template = revisions::template(&session, target, stable).await?.ok_or_else(|| {
        Failure::Error(format!(
            "the ReplicaSet of the stable revision {stable} is gone, and its template with it; set the template that you want on Deployment {target}"
        ))
    })?;
    if revisions::fingerprint(&present) == revisions::fingerprint(&template) {
        return say(format!(
            "Deployment {target} has the template of the stable revision {stable} already; for an earlier one: kubectl rollout undo deployment/{target}{} --to-revision=N",
            session.flags
        ));
    }
    let uid = deployment.pointer("/metadata/uid").cloned().unwrap_or_default();
    session.patch_deployment(target, patch(&uid, &present, &template)?).await?;
    say(format!("Deployment {target}: the template of the stable revision {stable} is put back"))
}

/// Replaces the template only if it is still the one that was looked at.
fn patch(uid: &Value, present: &Value, template: &Value) -> Result<Patch<Value>, Failure> {
    let patch = serde_json::from_value(json!([
        { "op": "test", "path": "/metadata/uid", "value": uid },
        { "op": "test", "path": "/spec/template", "value": present },
        { "op": "replace", "path": "/spec/template", "value": template },
    ]))?;
    Ok(Patch::Json(patch))
}
