//! Tries out whether a new template of a Deployment would be held: a dry run tells, and changes
//! nothing.

use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::proofs::Trial;
use crate::{
    api::{FIELD_MANAGER, ROLLOUT_ANNOTATION},
    cluster::{
        apply::{Applier, path},
        calls::CallError,
        slim::{Deployments, ObjectKey, Slim},
    },
    plan::{Rollout, Target},
};

/// An annotation of the pod template that is never stored.
const TRIAL_ANNOTATION: &str = "grayrollout.dev/trial";

impl Applier {
    /// Tries to unpause the Deployment with a new template, without any effect. `None` where there
    /// is no such Deployment, or this process does not lead.
    pub async fn try_admission(&self, rollout: &Rollout, target: &Target) -> Option<Trial> {
        let key = ObjectKey::new(&target.namespace, &target.name);
        let answer = self.dry_run(&key, target).await;
        Some(match answer {
            Ok(Slim { object, .. })
                if object.paused
                    && object.rollout_annotation.as_deref() == Some(rollout.name.as_str()) =>
            {
                Trial::Held
            }
            Ok(_) => Trial::NotHeld(
                "the policy grayrollout-hold is installed, but does not act on this Deployment"
                    .to_owned(),
            ),
            Err(CallError::NotFound(_) | CallError::Conflict(_) | CallError::NotLeading) => {
                return None;
            }
            Err(CallError::Refused { message, .. }) => {
                Trial::NotHeld(format!("a dry run of a new template was refused: {message}"))
            }
            Err(error) => {
                Trial::Failed(format!("a dry run of a new template came to nothing: {error}"))
            }
        })
    }

    async fn dry_run(
        &self,
        key: &ObjectKey,
        target: &Target,
    ) -> Result<Slim<Deployments>, CallError> {
        let never_twice = format!("{:016x}", fastrand::u64(..));
        let body = json!({
            "metadata": { "uid": target.uid, "annotations": { ROLLOUT_ANNOTATION: null } },
            "spec": {
                "paused": false,
                "template": { "metadata": { "annotations": { TRIAL_ANNOTATION: never_twice } } },
            },
        });
        let params = PatchParams {
            dry_run: true,
            field_manager: Some(FIELD_MANAGER.into()),
            ..PatchParams::default()
        };
        let request = path::<Deployments>(key).patch(&key.name, &params, &Patch::Merge(&body))?;
        self.calls.write(request).await
    }
}
