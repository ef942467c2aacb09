//! Writing the GrayRollout that a Deployment's annotation asks for.

use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::{
    apply::{Applier, path},
    calls::CallError,
    slim::{Deployments, Kind, ObjectKey, Rollouts, Slim},
};
use crate::{
    api::{FIELD_MANAGER, STAGES_ANNOTATION},
    plan::{AdoptionAction, Target, written},
};

impl Applier {
    /// Carries out one write to the GrayRollout of a Deployment's name.
    ///
    /// # Errors
    ///
    /// A [`CallError::Conflict`] means that the index now has the GrayRollout as it is, and that it
    /// is to be planned again.
    pub async fn adopt(&self, target: &Target, action: &AdoptionAction) -> Result<(), CallError> {
        let key = ObjectKey::new(&target.namespace, &target.name);
        match action {
            AdoptionAction::Create { stages } => {
                self.create_rollout(&key, &rollout(target, stages, None)).await
            }
            AdoptionAction::Apply { uid, resource_version, stages } => {
                let body = rollout(target, stages, Some((uid, resource_version)));
                self.apply_rollout(&key, uid, &body).await
            }
            AdoptionAction::Delete { uid, resource_version } => {
                self.delete::<Rollouts>(&key, uid, resource_version).await.map(|_| ())
            }
        }
    }

    /// A plain create, since an apply would take over one that someone else made meanwhile.
    async fn create_rollout(&self, key: &ObjectKey, body: &Value) -> Result<(), CallError> {
        let params =
            PostParams { field_manager: Some(FIELD_MANAGER.into()), ..PostParams::default() };
        let body =
            serde_json::to_vec(body).map_err(|error| CallError::Transport(error.to_string()))?;
        let request = path::<Rollouts>(key).create(&params, body)?;
        match self.calls.write::<Slim<Rollouts>>(request).await {
            Ok(slim) => {
                self.index.put(slim);
                Ok(())
            }
            Err(CallError::AlreadyExists(message)) => {
                self.look::<Rollouts>(key).await?;
                Err(CallError::Conflict(message))
            }
            Err(error) => Err(error),
        }
    }

    async fn apply_rollout(
        &self,
        key: &ObjectKey,
        uid: &str,
        body: &Value,
    ) -> Result<(), CallError> {
        let params = PatchParams {
            field_manager: Some(FIELD_MANAGER.into()),
            force: true,
            ..PatchParams::default()
        };
        let request = path::<Rollouts>(key).patch(&key.name, &params, &Patch::Apply(body))?;
        match self.calls.write::<Slim<Rollouts>>(request).await {
            Ok(slim) => {
                self.index.put(slim);
                Ok(())
            }
            Err(error) => Err(self.look_again::<Rollouts>(key, uid, error).await),
        }
    }
}

/// The fields that are the annotation's: everything else is whoever's who sets it. `present` is the
/// UID and the resourceVersion that it was planned for.
fn rollout(target: &Target, stages: &[i32], present: Option<(&str, &str)>) -> Value {
    let api_version = format!("{}/{}", Deployments::GROUP, Deployments::VERSION);
    let mut metadata = json!({
        "namespace": target.namespace,
        "name": target.name,
        "annotations": { STAGES_ANNOTATION: written(stages) },
        "ownerReferences": [{
            "apiVersion": api_version,
            "kind": Deployments::KIND,
            "name": target.name,
            "uid": target.uid,
            "controller": true,
            "blockOwnerDeletion": true,
        }],
    });
    if let (Some((uid, version)), Some(metadata)) = (present, metadata.as_object_mut()) {
        metadata.insert("uid".into(), uid.into());
        metadata.insert("resourceVersion".into(), version.into());
    }
    json!({
        "apiVersion": format!("{}/{}", Rollouts::GROUP, Rollouts::VERSION),
        "kind": Rollouts::KIND,
        "metadata": metadata,
        "spec": {
            "targetRef": {
                "apiVersion": api_version,
                "kind": Deployments::KIND,
                "name": target.name,
            },
            "stages": stages.iter().map(|percent| json!({ "percent": percent })).collect::<Vec<_>>(),
        },
    })
}
