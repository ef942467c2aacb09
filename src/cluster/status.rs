//! Writing the status of a GrayRollout.

use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::{
    apply::{Applier, path},
    calls::CallError,
    merge,
    slim::{ObjectKey, Rollouts, Slim},
};
use crate::{
    api::{FIELD_MANAGER, GrayRolloutStatus},
    plan::Rollout,
};

/// What the API server says about a field that its schema does not have.
const OLD_SCHEMA: &str = "field not declared in schema";

/// The fields of a status that people write; the operator never does.
const WRITTEN_BY_PEOPLE: [&str; 3] = ["approval", "abort", "retry"];

impl Applier {
    /// Writes the status of the GrayRollout as it was planned on; a newer one is a conflict.
    /// Nothing is written where nothing changed.
    ///
    /// # Errors
    ///
    /// A [`CallError::Conflict`] means that the index now has the object as it is, and that it is
    /// to be planned again; so it is where it is gone.
    pub async fn write_status(
        &self,
        rollout: &Rollout,
        status: &GrayRolloutStatus,
    ) -> Result<bool, CallError> {
        let wanted = own_part(status)?;
        if wanted == own_part(&rollout.status)? {
            return Ok(false);
        }
        let key = ObjectKey::new(&rollout.namespace, &rollout.name);
        self.known_as::<Rollouts>(&key, &rollout.resource_version)?;
        let body = json!({
            "apiVersion": "grayrollout.dev/v1alpha1",
            "kind": "GrayRollout",
            "metadata": {
                "namespace": rollout.namespace,
                "name": rollout.name,
                "uid": rollout.uid,
                "resourceVersion": rollout.resource_version,
            },
            "status": wanted,
        });
        let params = PatchParams {
            field_manager: Some(FIELD_MANAGER.into()),
            force: true,
            ..PatchParams::default()
        };
        let request = path::<Rollouts>(&key).patch_subresource(
            "status",
            &key.name,
            &params,
            &Patch::Apply(&body),
        )?;
        match self.calls.write::<Slim<Rollouts>>(request).await {
            Ok(slim) => {
                let written = slim.object.clone();
                self.index.put(slim);
                self.take_out(&written, &wanted).await?;
                Ok(true)
            }
            Err(CallError::Server { code, message }) if message.contains(OLD_SCHEMA) => {
                Err(CallError::Server {
                    code,
                    message: format!(
                        "the CRD is older than this operator, update it with \
                         kubectl apply -f crds/grayrollouts.yaml: {message}"
                    ),
                })
            }
            Err(error) => Err(self.look_again::<Rollouts>(&key, &rollout.uid, error).await),
        }
    }

    /// Server-side apply leaves what another writer put into a field that is to be absent: it is
    /// taken out.
    async fn take_out(&self, written: &Rollout, wanted: &Value) -> Result<(), CallError> {
        let written_part = own_part(&written.status)?;
        if written_part == *wanted {
            return Ok(());
        }
        let key = ObjectKey::new(&written.namespace, &written.name);
        let body = json!({
            "metadata": { "uid": written.uid, "resourceVersion": written.resource_version },
            "status": merge::between(&written_part, wanted),
        });
        let params =
            PatchParams { field_manager: Some(FIELD_MANAGER.into()), ..PatchParams::default() };
        let request = path::<Rollouts>(&key).patch_subresource(
            "status",
            &key.name,
            &params,
            &Patch::Merge(&body),
        )?;
        match self.calls.write::<Slim<Rollouts>>(request).await {
            Ok(slim) => {
                self.index.put(slim);
                Ok(())
            }
            Err(error) => Err(self.look_again::<Rollouts>(&key, &written.uid, error).await),
        }
    }
}

/// The status without what people write.
fn own_part(status: &GrayRolloutStatus) -> Result<Value, CallError> {
    let mut value =
        serde_json::to_value(status).map_err(|error| CallError::Transport(error.to_string()))?;
    if let Some(map) = value.as_object_mut() {
        map.retain(|field, _| !WRITTEN_BY_PEOPLE.contains(&field.as_str()));
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{Abort, Retry, StatusApproval};

    #[test]
    fn what_people_write_is_never_sent() {
        let status = GrayRolloutStatus {
            rollout: Some(7),
            approval: Some(StatusApproval { rollout: 7, stage: 2, by: Some("alice".into()) }),
            abort: Some(Abort { rollout: 7 }),
            retry: Some(Retry { rollout: 7 }),
            ..GrayRolloutStatus::default()
        };
        assert_eq!(own_part(&status).unwrap(), json!({"rollout": 7}));
    }
}
