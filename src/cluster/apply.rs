//! Carries out what was planned, each write with the UID and resourceVersion it was planned for.
//!
//! Every answer goes into the index at once, so that the next decision sees it.

use std::sync::Arc;

use kube::{
    Resource,
    api::{DeleteParams, Patch, PatchParams, Preconditions},
    core::request::Request,
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};

use super::{
    calls::{CallError, Calls},
    index::{Index, Indexed},
    merge, new_replica_set as naming,
    slim::{
        DESIRED_ANNOTATION, Deployments, MAX_ANNOTATION, ObjectKey, ReplicaSets, Slim, Template,
    },
};
use crate::{
    api::{FIELD_MANAGER, ORIGINAL_ANNOTATION, ROLLOUT_ANNOTATION},
    plan::{Action, AnnotationChange, DeploymentPatch, Strategy, Target, TemplateHash},
};

/// How many names are tried for a new ReplicaSet.
const NAME_TRIES: u32 = 5;

/// What became of a planned write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Applied {
    /// It was done.
    Written,
    /// It had been done by someone else already, perhaps with other sizes.
    Found,
}

/// Carries out planned writes.
#[derive(Clone)]
pub struct Applier {
    pub(super) calls: Calls,
    pub(super) index: Arc<Index>,
}

impl Applier {
    /// Writes by `calls` and puts what comes back into the index.
    #[must_use]
    pub fn new(calls: Calls, index: Arc<Index>) -> Self {
        Self { calls, index }
    }

    /// Carries out one planned write to the Deployment or one of its ReplicaSets.
    ///
    /// # Errors
    ///
    /// A [`CallError::Conflict`] means that the index now has the object as it is, and that it is
    /// to be planned again; so it is where an object is gone.
    pub async fn apply(&self, target: &Target, action: &Action) -> Result<Applied, CallError> {
        match action {
            Action::PatchDeployment(patch) => self.patch_deployment(target, patch).await,
            Action::CreateReplicaSet { template, replicas, desired, max } => {
                let sizes = Sizes { replicas: *replicas, desired: *desired, max: *max };
                self.create(target, *template, sizes).await
            }
            Action::ScaleReplicaSet { name, uid, resource_version, replicas, desired, max } => {
                let key = ObjectKey::new(&target.namespace, name);
                let body = json!({
                    "metadata": {
                        "uid": uid,
                        "resourceVersion": resource_version,
                        "annotations": {
                            DESIRED_ANNOTATION: desired.map(|n| n.to_string()),
                            MAX_ANNOTATION: max.map(|n| n.to_string()),
                        },
                    },
                    "spec": { "replicas": replicas },
                });
                self.known_as::<ReplicaSets>(&key, resource_version)?;
                self.patch::<ReplicaSets>(&key, uid, &body).await.map(|_| Applied::Written)
            }
            Action::DeleteReplicaSet { name, uid, resource_version } => {
                let key = ObjectKey::new(&target.namespace, name);
                self.known_as::<ReplicaSets>(&key, resource_version)?;
                self.delete::<ReplicaSets>(&key, uid, resource_version).await
            }
        }
    }

    /// A write for another resourceVersion than is known by now is bound to be refused: it is planned
    /// again without asking.
    pub(super) fn known_as<K: Indexed>(
        &self,
        key: &ObjectKey,
        version: &str,
    ) -> Result<(), CallError> {
        match self.index.version_of::<K>(key) {
            Some(known) if known != version => {
                Err(CallError::Conflict(format!("{key} has changed since it was planned for")))
            }
            _ => Ok(()),
        }
    }

    /// One merge patch of an object that carries its UID and resourceVersion.
    async fn patch<K: Indexed>(
        &self,
        key: &ObjectKey,
        uid: &str,
        body: &Value,
    ) -> Result<K::Object, CallError>
    where
        Slim<K>: DeserializeOwned,
    {
        let params =
            PatchParams { field_manager: Some(FIELD_MANAGER.into()), ..PatchParams::default() };
        let request = path::<K>(key).patch(&key.name, &params, &Patch::Merge(body))?;
        match self.calls.write::<Slim<K>>(request).await {
            Ok(slim) => {
                let object = slim.object.clone();
                self.index.put::<K>(slim);
                Ok(object)
            }
            Err(error) => Err(self.look_again::<K>(key, uid, error).await),
        }
    }

    /// After a conflict: puts the object into the index as it is now.
    pub(super) async fn look_again<K: Indexed>(
        &self,
        key: &ObjectKey,
        uid: &str,
        error: CallError,
    ) -> CallError
    where
        Slim<K>: DeserializeOwned,
    {
        match error {
            CallError::Conflict(message) => match self.fetch::<K>(key, uid).await {
                Ok(()) => CallError::Conflict(message),
                Err(error) => error,
            },
            CallError::NotFound(message) => {
                self.index.remove::<K>(key, uid);
                CallError::Conflict(message)
            }
            error => error,
        }
    }

    async fn fetch<K: Indexed>(&self, key: &ObjectKey, uid: &str) -> Result<(), CallError>
    where
        Slim<K>: DeserializeOwned,
    {
        match self.get::<K, Slim<K>>(key).await {
            Ok(slim) => {
                if slim.uid() != uid {
                    self.index.remove::<K>(key, uid);
                }
                self.index.put::<K>(slim);
                Ok(())
            }
            Err(CallError::NotFound(_)) => {
                self.index.remove::<K>(key, uid);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Looks at an object, if there is one, and puts it into the index.
    ///
    /// # Errors
    ///
    /// See [`CallError`].
    pub async fn look<K: Indexed>(&self, key: &ObjectKey) -> Result<(), CallError>
    where
        Slim<K>: DeserializeOwned,
    {
        match self.get::<K, Slim<K>>(key).await {
            Ok(slim) => {
                self.index.put::<K>(slim);
                Ok(())
            }
            Err(CallError::NotFound(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn get<K: Indexed, T: DeserializeOwned>(&self, key: &ObjectKey) -> Result<T, CallError> {
        let request = path::<K>(key).get(&key.name, &kube::api::GetParams::default())?;
        self.calls.read(request).await
    }

    async fn patch_deployment(
        &self,
        target: &Target,
        patch: &DeploymentPatch,
    ) -> Result<Applied, CallError> {
        let key = ObjectKey::new(&target.namespace, &target.name);
        self.known_as::<Deployments>(&key, &patch.resource_version)?;
        let mut spec = Map::new();
        if let Some(paused) = patch.paused {
            spec.insert("paused".into(), paused.into());
        }
        if let Some(strategy) = &patch.strategy {
            spec.insert("strategy".into(), whole_strategy(strategy)?);
        }
        if let Some(name) = &patch.template_of {
            let template = self.template_back(&key, patch, name).await?;
            spec.insert("template".into(), template);
        }
        let mut annotations = Map::new();
        annotate(&mut annotations, ORIGINAL_ANNOTATION, &patch.original, to_text)?;
        annotate(&mut annotations, ROLLOUT_ANNOTATION, &patch.rollout, |name| Ok(name.clone()))?;
        let body = json!({
            "metadata": {
                "uid": patch.uid,
                "resourceVersion": patch.resource_version,
                "annotations": annotations,
            },
            "spec": spec,
        });
        let now = self.patch::<Deployments>(&key, &patch.uid, &body).await?;
        let undone = patch.paused.is_some_and(|paused| now.paused != paused)
            || patch.strategy.as_ref().is_some_and(|strategy| now.strategy != *strategy);
        if undone {
            return Err(CallError::Refused {
                code: 0,
                message: "an admission policy or webhook undid it; grayrollout-guard must name \
                          the user that the operator runs as"
                    .into(),
            });
        }
        Ok(Applied::Written)
    }

    /// The merge patch that turns the Deployment's template into that of a ReplicaSet.
    async fn template_back(
        &self,
        key: &ObjectKey,
        patch: &DeploymentPatch,
        name: &str,
    ) -> Result<Value, CallError> {
        let deployment = self.deployment(key, &patch.uid).await?;
        let from = key_of(&key.namespace, name);
        let mut wanted = match self.get::<ReplicaSets, Value>(&from).await {
            Ok(mut replica_set) => take(&mut replica_set, "/spec/template"),
            Err(error) => {
                let uid = self.index.replica_set_uid(&from).unwrap_or_default();
                return Err(self.look_again::<ReplicaSets>(&from, &uid, error).await);
            }
        };
        naming::remove_label(&mut wanted);
        let present = deployment.pointer("/spec/template");
        Ok(merge::between(present.unwrap_or(&Value::Null), &wanted))
    }

    /// The Deployment as raw JSON, so that fields not known here stay; it goes into the index too.
    async fn deployment(&self, key: &ObjectKey, uid: &str) -> Result<Value, CallError> {
        let raw: Value = match self.get::<Deployments, Value>(key).await {
            Ok(raw) => raw,
            Err(error) => return Err(self.look_again::<Deployments>(key, uid, error).await),
        };
        let slim = Slim::<Deployments>::deserialize(&raw)
            .map_err(|error| CallError::Transport(error.to_string()))?;
        let same = slim.uid() == uid && !slim.deleting;
        if slim.uid() != uid {
            self.index.remove::<Deployments>(key, uid);
        }
        self.index.put(slim);
        if same {
            Ok(raw)
        } else {
            Err(CallError::Conflict(format!("Deployment {key} was deleted")))
        }
    }

    async fn create(
        &self,
        target: &Target,
        hash: TemplateHash,
        sizes: Sizes,
    ) -> Result<Applied, CallError> {
        let key = ObjectKey::new(&target.namespace, &target.name);
        let deployment = self.deployment(&key, &target.uid).await?;
        let generation = deployment.pointer("/metadata/generation").and_then(Value::as_i64);
        // A create has no precondition of its own, and the Deployment's resourceVersion changes
        // with each of the native controller's notes.
        if template_hash(&deployment) != hash || generation.unwrap_or_default() != target.generation
        {
            return Err(CallError::Conflict(format!("Deployment {key} changed meanwhile")));
        }
        for attempt in 0..NAME_TRIES {
            let suffix = naming::suffix(hash, attempt);
            let body = naming::replica_set(&deployment, &suffix, sizes);
            let body = serde_json::to_vec(&body)
                .map_err(|error| CallError::Transport(error.to_string()))?;
            let params = kube::api::PostParams {
                field_manager: Some(FIELD_MANAGER.into()),
                ..kube::api::PostParams::default()
            };
            let request = path::<ReplicaSets>(&key).create(&params, body)?;
            match self.calls.write(request).await {
                Ok(slim) => {
                    self.index.put::<ReplicaSets>(slim);
                    return Ok(Applied::Written);
                }
                Err(CallError::AlreadyExists(_)) => {}
                Err(error) => return Err(error),
            }
            let name = naming::name(&target.name, &suffix);
            let taken = key_of(&target.namespace, &name);
            match self.get::<ReplicaSets, Slim<ReplicaSets>>(&taken).await {
                Ok(slim) => {
                    let object = &slim.object;
                    let ours = object.owner_uid == target.uid
                        && object.template == hash
                        && !object.deleting;
                    self.index.put(slim);
                    if ours {
                        return Ok(Applied::Found);
                    }
                }
                // It was just deleted; the next name will do.
                Err(CallError::NotFound(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Err(CallError::Refused {
            code: 0,
            message: format!(
                "no name is free for a new ReplicaSet of Deployment {key}: \
                 others hold {NAME_TRIES} of them"
            ),
        })
    }

    pub(super) async fn delete<K: Indexed>(
        &self,
        key: &ObjectKey,
        uid: &str,
        resource_version: &str,
    ) -> Result<Applied, CallError>
    where
        Slim<K>: DeserializeOwned,
    {
        let params = DeleteParams::background().preconditions(Preconditions {
            uid: Some(uid.into()),
            resource_version: Some(resource_version.into()),
        });
        let request = path::<K>(key).delete(&key.name, &params)?;
        match self.calls.write::<Value>(request).await {
            Ok(_) => {
                self.index.remove::<K>(key, uid);
                Ok(Applied::Written)
            }
            Err(error) => Err(self.look_again::<K>(key, uid, error).await),
        }
    }
}

/// The sizes of a new ReplicaSet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    pub replicas: i32,
    pub desired: Option<i32>,
    pub max: Option<i32>,
}

pub(super) fn path<K: Indexed>(key: &ObjectKey) -> Request {
    Request::new(Slim::<K>::url_path(&(), Some(&key.namespace)))
}

fn key_of(namespace: &str, name: &str) -> ObjectKey {
    ObjectKey::new(namespace, name)
}

fn take(object: &mut Value, pointer: &str) -> Value {
    object.pointer_mut(pointer).map(Value::take).unwrap_or_default()
}

/// The fingerprint of an object's template.
fn template_hash(object: &Value) -> TemplateHash {
    object
        .pointer("/spec/template")
        .and_then(|template| Template::deserialize(template).ok())
        .unwrap_or_default()
        .hash
}

/// The merge patch of a strategy that leaves nothing of an earlier one.
fn whole_strategy(strategy: &Strategy) -> Result<Value, CallError> {
    if *strategy == Strategy::Recreate {
        return Ok(json!({ "type": "Recreate", "rollingUpdate": null }));
    }
    serde_json::to_value(strategy).map_err(|error| CallError::Transport(error.to_string()))
}

fn to_text(value: &impl serde::Serialize) -> Result<String, CallError> {
    serde_json::to_string(value).map_err(|error| CallError::Transport(error.to_string()))
}

/// Adds the change of one annotation to a merge patch.
fn annotate<T>(
    annotations: &mut Map<String, Value>,
    name: &str,
    change: &AnnotationChange<T>,
    text: impl Fn(&T) -> Result<String, CallError>,
) -> Result<(), CallError> {
    let value = match change {
        AnnotationChange::Keep => return Ok(()),
        AnnotationChange::Set(value) => text(value)?.into(),
        AnnotationChange::Remove => Value::Null,
    };
    annotations.insert(name.into(), value);
    Ok(())
}

#[cfg(test)]
#[path = "apply_tests.rs"]
mod tests;
