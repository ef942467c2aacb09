//! Slim cached objects: what the plan looks at, taken while decoding.
//!
//! Decoding one of these never fails on valid JSON, so that no object can end a watch.

mod deployment;
mod hash;
mod lenient;
mod replica_set;
mod rollout;

use std::{borrow::Cow, fmt, sync::Arc};

use jiff::Timestamp;
use k8s_openapi::NamespaceResourceScope;
use kube::{Resource, core::ObjectMeta};
use serde::{Deserialize, Deserializer};

pub use hash::{POD_TEMPLATE_HASH, Template};
use lenient::{List, Map, Scalar};

/// Annotation on a ReplicaSet: the Deployment's spec.replicas for which it was last sized.
pub const DESIRED_ANNOTATION: &str = "deployment.kubernetes.io/desired-replicas";
/// Annotation on a ReplicaSet: the most pods for which it was last sized.
pub const MAX_ANNOTATION: &str = "deployment.kubernetes.io/max-replicas";

/// Namespace and name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey {
    /// The namespace.
    pub namespace: Arc<str>,
    /// The name.
    pub name: Arc<str>,
}

impl ObjectKey {
    /// The key of an object.
    #[must_use]
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// A kind that is watched.
pub trait Kind: Copy + fmt::Debug + Send + Sync + 'static {
    /// What is cached of one object.
    type Object: Send + Clone + fmt::Debug;
    /// The API group.
    const GROUP: &'static str;
    /// The API version.
    const VERSION: &'static str;
    /// The kind's name.
    const KIND: &'static str;
    /// The resource's name in paths.
    const PLURAL: &'static str;
    /// An object's UID.
    fn uid(object: &Self::Object) -> &str;
    /// An object's resourceVersion.
    fn version(object: &Self::Object) -> &str;
}

/// The kind GrayRollout.
#[derive(Debug, Clone, Copy)]
pub struct Rollouts;
/// The kind Deployment.
#[derive(Debug, Clone, Copy)]
pub struct Deployments;
/// The kind ReplicaSet.
#[derive(Debug, Clone, Copy)]
pub struct ReplicaSets;

impl Kind for Rollouts {
    type Object = crate::plan::Rollout;
    const GROUP: &'static str = crate::api::GROUP;
    const VERSION: &'static str = "v1alpha1";
    const KIND: &'static str = "GrayRollout";
    const PLURAL: &'static str = "grayrollouts";

    fn uid(object: &Self::Object) -> &str {
        &object.uid
    }
    fn version(object: &Self::Object) -> &str {
        &object.resource_version
    }
}

impl Kind for Deployments {
    type Object = crate::plan::Target;
    const GROUP: &'static str = "apps";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "Deployment";
    const PLURAL: &'static str = "deployments";

    fn uid(object: &Self::Object) -> &str {
        &object.uid
    }
    fn version(object: &Self::Object) -> &str {
        &object.resource_version
    }
}

impl Kind for ReplicaSets {
    type Object = crate::plan::ReplicaSet;
    const GROUP: &'static str = "apps";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "ReplicaSet";
    const PLURAL: &'static str = "replicasets";

    fn uid(object: &Self::Object) -> &str {
        &object.uid
    }
    fn version(object: &Self::Object) -> &str {
        &object.resource_version
    }
}

/// One object of a kind as it came from the API server.
#[derive(Debug, Clone)]
pub struct Slim<K: Kind> {
    /// The few parts of the metadata that the watch needs.
    meta: ObjectMeta,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Its annotation grayrollout.dev/stages. Few have it, so the index keeps it apart.
    pub stages: Option<Box<str>>,
    /// What is kept of it.
    pub object: K::Object,
}

impl<K: Kind> Slim<K> {
    fn new(meta: Meta, object: K::Object) -> Self {
        let deleting = meta.deletion_timestamp != Scalar::Nothing;
        Self {
            meta: ObjectMeta {
                namespace: meta.namespace.some_text(),
                name: meta.name.some_text(),
                uid: meta.uid.some_text(),
                resource_version: meta.resource_version.some_text(),
                ..ObjectMeta::default()
            },
            deleting,
            stages: meta.annotations.0.stages.some_text().map(Into::into),
            object,
        }
    }

    /// Its namespace and name.
    #[must_use]
    pub fn key(&self) -> ObjectKey {
        let text = |part: &Option<String>| part.as_deref().unwrap_or_default().into();
        ObjectKey { namespace: text(&self.meta.namespace), name: text(&self.meta.name) }
    }

    /// Its UID.
    #[must_use]
    pub fn uid(&self) -> &str {
        self.meta.uid.as_deref().unwrap_or_default()
    }

    /// Its resourceVersion.
    #[must_use]
    pub fn version(&self) -> &str {
        self.meta.resource_version.as_deref().unwrap_or_default()
    }
}

impl<K: Kind> Resource for Slim<K> {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        K::KIND.into()
    }
    fn group((): &()) -> Cow<'_, str> {
        K::GROUP.into()
    }
    fn version((): &()) -> Cow<'_, str> {
        K::VERSION.into()
    }
    fn plural((): &()) -> Cow<'_, str> {
        K::PLURAL.into()
    }
    fn meta(&self) -> &ObjectMeta {
        &self.meta
    }
    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.meta
    }
}

/// metadata, as far as it is read; managedFields and the rest are skipped.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Meta {
    namespace: Scalar,
    name: Scalar,
    uid: Scalar,
    resource_version: Scalar,
    generation: Scalar,
    creation_timestamp: Scalar,
    deletion_timestamp: Scalar,
    labels: Map<Labels>,
    annotations: Map<Annotations>,
    owner_references: List<Owner>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Labels {
    #[serde(rename = "pod-template-hash")]
    pod_template_hash: Scalar,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Annotations {
    #[serde(rename = "deployment.kubernetes.io/desired-replicas")]
    desired: Scalar,
    #[serde(rename = "deployment.kubernetes.io/max-replicas")]
    max: Scalar,
    #[serde(rename = "grayrollout.dev/original")]
    original: Scalar,
    #[serde(rename = "grayrollout.dev/rollout")]
    rollout: Scalar,
    #[serde(rename = "grayrollout.dev/stages")]
    stages: Scalar,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Owner {
    api_version: Scalar,
    kind: Scalar,
    uid: Scalar,
    controller: Scalar,
}

impl Meta {
    /// metadata.creationTimestamp; the epoch where it cannot be read.
    fn created(&self) -> Timestamp {
        match &self.creation_timestamp {
            Scalar::Text(text) => text.parse().unwrap_or_default(),
            _ => Timestamp::default(),
        }
    }

    /// UID of whatever controls this; empty where nothing does.
    fn controller_uid(&self) -> String {
        let mut owners = self.owner_references.0.iter();
        let controller = owners.find(|owner| owner.controller.is_true());
        controller.map(|owner| owner.uid.clone().text()).unwrap_or_default()
    }

    /// UID of the Deployment that controls this; empty where none does.
    fn owner_uid(&self) -> String {
        let is_deployment = |owner: &&Owner| {
            owner.controller.is_true()
                && owner.kind.is("Deployment")
                && matches!(&owner.api_version, Scalar::Text(v) if v.starts_with("apps/"))
        };
        self.owner_references
            .0
            .iter()
            .find(is_deployment)
            .map(|owner| owner.uid.clone().text())
            .unwrap_or_default()
    }
}

/// An object of any kind: its three parts.
#[derive(Deserialize)]
#[serde(
    default,
    bound(deserialize = "S: Deserialize<'de> + Default, T: Deserialize<'de> + Default")
)]
struct Parts<S, T> {
    metadata: Map<Meta>,
    spec: S,
    status: T,
}

impl<S: Default, T: Default> Default for Parts<S, T> {
    fn default() -> Self {
        Self { metadata: Map::default(), spec: S::default(), status: T::default() }
    }
}

/// Reads the three parts of an object.
fn parts<'de, D, S, T>(deserializer: D) -> Result<Parts<S, T>, D::Error>
where
    D: Deserializer<'de>,
    S: Deserialize<'de> + Default,
    T: Deserialize<'de> + Default,
{
    Map::deserialize(deserializer).map(|Map(parts)| parts)
}

#[cfg(test)]
mod tests;
