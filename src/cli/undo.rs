//! `undo NAME`: the pod template of the stable revision, or of an earlier one, put back.

use kube::api::Patch;
use serde_json::{Value, json};

use super::{
    Context,
    error::Failure,
    output::say,
    revisions,
    session::{Seen, Session},
};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Name of the GrayRollout.
    name: String,
    /// Number of the revision, as kubectl rollout history shows it; the stable one if left out.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(1..))]
    to_revision: Option<i64>,
}

pub async fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let session = context.session().await?;
    let seen = session.gray(&args.name).await?;
    let target = &seen.gray.spec.target_ref.name;
    let deployment = session.deployment(target).await?;
    let present = deployment.pointer("/spec/template").cloned().unwrap_or_default();
    let (words, template) = match args.to_revision {
        Some(number) => (format!("revision {number}"), numbered(&session, target, number).await?),
        None => stable(&session, target, &seen).await?,
    };
    if revisions::fingerprint(&present) == revisions::fingerprint(&template) {
        return say(format!(
            "Deployment {target} has the template of {words} already; for another one, --to-revision=N with a number that this shows: kubectl rollout history deployment/{target}{}",
            session.flags
        ));
    }
    let uid = deployment.pointer("/metadata/uid").cloned().unwrap_or_default();
    session.patch_deployment(target, patch(&uid, &present, &template)?).await?;
    say(format!("Deployment {target}: the template of {words} is put back"))
}

/// The stable revision in words, and its template.
async fn stable(session: &Session, target: &str, seen: &Seen) -> Result<(String, Value), Failure> {
    let status = seen.gray.status.as_ref();
    let stable = status.and_then(|status| status.stable_revision.as_deref()).ok_or_else(|| {
        Failure::Error("there is no stable revision yet, so nothing to go back to".into())
    })?;
    let template = revisions::template(session, target, stable).await?.ok_or_else(|| {
        Failure::Error(format!(
            "the ReplicaSet of the stable revision {stable} is gone, and its template with it; set the template that you want on Deployment {target}"
        ))
    })?;
    Ok((format!("the stable revision {stable}"), template))
}

/// The template of a revision by the number that the native controller gave it.
async fn numbered(session: &Session, target: &str, number: i64) -> Result<Value, Failure> {
    revisions::numbered(session, target, number).await?.ok_or_else(|| {
        Failure::Error(format!(
            "Deployment {target} has no revision {number}; see: kubectl rollout history deployment/{target}{}",
            session.flags
        ))
    })
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
