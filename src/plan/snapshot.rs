//! What the plan looks at: slim views of a `GrayRollout`, its Deployment and the ReplicaSets.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::calls::Answer;
use crate::api::{GrayRolloutSpec, GrayRolloutStatus, OnDelete, Strategy};

/// Everything that one decision rests on.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// The present time.
    pub now: Timestamp,
    /// The `GrayRollout`.
    pub rollout: Rollout,
    /// Its Deployment, if it exists and is not being deleted.
    pub target: Option<Target>,
    /// The ReplicaSets that the Deployment's UID controls, in any order.
    pub replica_sets: Vec<ReplicaSet>,
    /// Name of an older `GrayRollout` with the same target, if there is one.
    pub older_twin: Option<String>,
    /// Whether the API server itself holds a new template of the Deployment.
    pub admission: Admission,
    /// What calls to the world outside came to that an earlier plan asked for.
    pub answers: Vec<Answer>,
    /// Ids of the calls that were begun, answered or not.
    pub begun: Vec<String>,
}

/// Whether an admission policy pauses the Deployment in the very write that changes its template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Admission {
    /// Not known yet: what stood so far stays.
    Unknown,
    /// It was seen to.
    Holds {
        /// What is wrong with the policies beside that one.
        flaw: Option<String>,
    },
    /// It does not; why.
    Absent(String),
}

/// A Deployment that carries `grayrollout.dev/original` while the `GrayRollout` it names is gone.
#[derive(Debug, Clone)]
pub struct Orphan {
    /// The present time.
    pub now: Timestamp,
    /// The Deployment.
    pub target: Target,
    /// The ReplicaSets that the Deployment's UID controls, in any order.
    pub replica_sets: Vec<ReplicaSet>,
}

/// A `GrayRollout` as last seen.
#[derive(Debug, Clone, PartialEq)]
pub struct Rollout {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// metadata.generation.
    pub generation: i64,
    /// metadata.resourceVersion.
    pub resource_version: String,
    /// metadata.creationTimestamp.
    pub created: Timestamp,
    /// Name of the target, also where the rest of the spec cannot be read.
    pub target_name: String,
    /// UID of the Deployment from whose annotation it was made, empty where it has lost its owner;
    /// `None` where it was made by someone else.
    pub made_for: Option<Box<str>>,
    /// The spec, or why it cannot be read.
    pub spec: Result<GrayRolloutSpec, String>,
    /// The status; the default where there is none or it cannot be read.
    pub status: GrayRolloutStatus,
}

/// A Deployment as last seen.
#[derive(Debug, Clone, PartialEq)]
pub struct Target {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// metadata.generation: grows with every change of the spec.
    pub generation: i64,
    /// metadata.resourceVersion.
    pub resource_version: String,
    /// status.observedGeneration: what the native controller has acted on.
    pub observed_generation: i64,
    /// spec.replicas.
    pub replicas: i32,
    /// spec.paused.
    pub paused: bool,
    /// spec.strategy.
    pub strategy: Strategy,
    /// Fingerprint of spec.template without the label pod-template-hash.
    pub template: TemplateHash,
    /// Whether spec.template itself carries the label pod-template-hash.
    pub template_labelled: bool,
    /// spec.progressDeadlineSeconds.
    pub progress_deadline_seconds: Option<i32>,
    /// spec.revisionHistoryLimit.
    pub revision_history_limit: Option<i32>,
    /// The annotation grayrollout.dev/original: absent, readable, or why it is not.
    pub original: Option<Result<Original, String>>,
    /// The annotation grayrollout.dev/rollout.
    pub rollout_annotation: Option<String>,
}

/// Fingerprint of a pod template, without the label pod-template-hash.
///
/// Equal templates as one API server returns them have equal fingerprints, whatever the order of
/// their fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TemplateHash(pub u128);

impl TemplateHash {
    /// Ten letters and digits for the name and label of a ReplicaSet, from the alphabet that
    /// Kubernetes uses for generated names (no vowels, nothing easily confused).
    #[must_use]
    pub fn short(self) -> String {
        const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
        let mut rest = self.0;
        (0..10)
            .map(|_| {
                let letter = usize::try_from(rest % 27).ok().and_then(|i| ALPHABET.get(i));
                rest /= 27;
                char::from(*letter.unwrap_or(&b'b'))
            })
            .collect()
    }
}

impl std::fmt::Display for TemplateHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// What the annotation grayrollout.dev/original holds: what to restore and how.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Original {
    /// Name of the `GrayRollout`.
    pub name: String,
    /// UID of the `GrayRollout`.
    pub uid: String,
    /// Number of the rollout.
    #[serde(default)]
    pub rollout: i64,
    /// spec.paused as the user had it.
    #[serde(default)]
    pub paused: bool,
    /// spec.strategy as the user had it, where the operator has changed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategy: Option<Strategy>,
    /// pod-template-hash of the stable revision, in the middle of a rollout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stable: Option<String>,
    /// What deleting the `GrayRollout` does in the middle of a rollout.
    #[serde(default)]
    pub on_delete: OnDelete,
}

/// A ReplicaSet as last seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplicaSet {
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// UID of the Deployment that controls it.
    pub owner_uid: String,
    /// metadata.generation.
    pub generation: i64,
    /// metadata.resourceVersion.
    pub resource_version: String,
    /// metadata.creationTimestamp.
    pub created: Timestamp,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Its label pod-template-hash.
    pub revision: String,
    /// Fingerprint of its template without the label pod-template-hash.
    pub template: TemplateHash,
    /// spec.replicas.
    pub replicas: i32,
    /// The annotation deployment.kubernetes.io/desired-replicas.
    pub desired_annotation: Option<i32>,
    /// The annotation deployment.kubernetes.io/max-replicas.
    pub max_annotation: Option<i32>,
    /// status.observedGeneration.
    pub observed_generation: i64,
    /// status.replicas: pods that exist and are not terminating.
    pub current: i32,
    /// status.availableReplicas.
    pub available: i32,
    /// status.terminatingReplicas (since Kubernetes 1.35).
    pub terminating: i32,
    /// Message of the condition ReplicaFailure, where it is True.
    pub failure: Option<String>,
}
