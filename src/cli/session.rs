//! The cluster as the kubeconfig names it: bounded requests, answers as plain JSON.

use std::{path::PathBuf, time::Duration};

use clap::Args;
use kube::{
    Api, Client, Config, ResourceExt,
    api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams},
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{
    error::{Failure, Request, chain},
    rights,
};
use crate::api::GrayRollout;

/// Longest time of one request, and to reach the API server.
const REQUEST_SECONDS: u64 = 30;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Field manager of what people do with the plugin.
const FIELD_MANAGER: &str = "kubectl-gray";
const GRAYROLLOUTS: &str = "grayrollouts.grayrollout.dev";

/// Which cluster, as whom and where, as kubectl's flags say it.
#[derive(Debug, Clone, Default, Args)]
pub struct ClusterFlags {
    /// Namespace; that of the kubeconfig's context if left out.
    #[arg(short, long, global = true, value_name = "NS", help_heading = "Cluster")]
    pub namespace: Option<String>,
    /// Context of the kubeconfig.
    #[arg(long, global = true, value_name = "NAME", help_heading = "Cluster")]
    pub context: Option<String>,
    /// Path of the kubeconfig; KUBECONFIG or ~/.kube/config if left out.
    #[arg(long, global = true, value_name = "FILE", help_heading = "Cluster")]
    pub kubeconfig: Option<PathBuf>,
    /// User to act as.
    #[arg(long = "as", global = true, value_name = "USER", help_heading = "Cluster")]
    pub as_user: Option<String>,
}

/// A connection to a cluster.
pub struct Session {
    client: Client,
    /// The namespace to work in.
    pub namespace: String,
    /// Flags to repeat in commands that are shown, e.g. ` -n shop --context prod`.
    pub flags: String,
}

/// A GrayRollout, as it came and as it is understood.
pub struct Seen {
    /// The object as the API server sent it.
    pub raw: Value,
    /// The same, typed.
    pub gray: GrayRollout,
}

impl Seen {
    /// Understands an object.
    ///
    /// # Errors
    ///
    /// Fails where it was written by a version that has other values.
    pub fn new(raw: Value) -> Result<Self, Failure> {
        let gray = serde_json::from_value(raw.clone()).map_err(|error| {
            Failure::Error(format!(
                "cannot read this GrayRollout: {error}; the plugin and the operator may be of different versions"
            ))
        })?;
        Ok(Self { raw, gray })
    }
}

impl Session {
    /// Connects as the flags and the kubeconfig say.
    ///
    /// # Errors
    ///
    /// Fails where the kubeconfig cannot be read or has no such context.
    pub async fn new(flags: &ClusterFlags) -> Result<Self, Failure> {
        let mut config = config(flags).await?;
        config.connect_timeout = Some(CONNECT_TIMEOUT);
        config.default_retry = false;
        if flags.as_user.is_some() {
            config.auth_info.impersonate.clone_from(&flags.as_user);
        }
        let namespace = flags.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
        let client = Client::try_from(config).map_err(|error| {
            Failure::Error(format!("the kubeconfig cannot be used: {}", chain(&error)))
        })?;
        let context =
            flags.context.as_ref().map_or_else(String::new, |name| format!(" --context {name}"));
        Ok(Self { client, flags: format!(" -n {namespace}{context}"), namespace })
    }

    /// GrayRollouts of this namespace, typed, for watching.
    #[must_use]
    pub fn grays(&self) -> Api<GrayRollout> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// One GrayRollout.
    ///
    /// # Errors
    ///
    /// Fails where it is missing or may not be read.
    pub async fn gray(&self, name: &str) -> Result<Seen, Failure> {
        Seen::new(self.get(GRAYROLLOUTS, name).await?)
    }

    /// All GrayRollouts of the namespace or the cluster.
    ///
    /// # Errors
    ///
    /// Fails where they may not be listed.
    pub async fn all_grays(&self, everywhere: bool, labels: &str) -> Result<Vec<Seen>, Failure> {
        let list = self.list(GRAYROLLOUTS, everywhere, labels).await?;
        list.into_iter().map(Seen::new).collect()
    }

    /// Merges `status` into a GrayRollout's status.
    ///
    /// # Errors
    ///
    /// What the API server refuses, in its words.
    pub async fn patch_status(&self, name: &str, status: Value) -> Result<Value, kube::Error> {
        let body = json!({ "status": status });
        let request = self.api(GRAYROLLOUTS, false);
        let params =
            PatchParams { field_manager: Some(FIELD_MANAGER.into()), ..Default::default() };
        let patch = Patch::Merge(&body);
        let sent = request.patch_status(name, &params, &patch);
        let answer = timeout(Duration::from_secs(REQUEST_SECONDS), sent).await;
        match answer {
            Ok(answer) => answer.map(|object| serde_json::to_value(object).unwrap_or_default()),
            Err(_) => Err(kube::Error::Service("no answer in time".into())),
        }
    }

    /// The words in which a failed [`Self::patch_status`] is told.
    #[must_use]
    pub fn status_request(&self, name: &str) -> Request {
        self.request("patch", "grayrollouts.grayrollout.dev/status", Some(name))
    }

    /// Merges a patch into a GrayRollout.
    ///
    /// # Errors
    ///
    /// Fails where that is refused.
    pub async fn patch_gray(&self, name: &str, patch: Value) -> Result<Value, Failure> {
        self.patch(GRAYROLLOUTS, name, Patch::Merge(patch)).await
    }

    /// Patches a Deployment.
    ///
    /// # Errors
    ///
    /// Fails where that is refused.
    pub async fn patch_deployment(
        &self,
        name: &str,
        patch: Patch<Value>,
    ) -> Result<Value, Failure> {
        self.patch("deployments.apps", name, patch).await
    }

    /// A Deployment.
    ///
    /// # Errors
    ///
    /// Fails where it is missing or may not be read.
    pub async fn deployment(&self, name: &str) -> Result<Value, Failure> {
        self.get("deployments.apps", name).await
    }

    /// ReplicaSets of the namespace with these labels.
    ///
    /// # Errors
    ///
    /// Fails where they may not be listed.
    pub async fn replica_sets(&self, labels: &str) -> Result<Vec<Value>, Failure> {
        self.list("replicasets.apps", false, labels).await
    }

    /// The name the API server knows us by; `None` where it does not tell.
    pub async fn who_am_i(&self) -> Option<String> {
        let review = json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"
        });
        let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
        let answer = self.review(path, &review).await?;
        answer.pointer("/status/userInfo/username")?.as_str().map(str::to_owned)
    }

    /// The commands that are not the user's, in words; empty where none is known to be missing.
    pub async fn missing_rights(&self, name: &str) -> Vec<String> {
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview",
            "spec": { "namespace": self.namespace }
        });
        let path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
        self.review(path, &review)
            .await
            .map_or_else(Vec::new, |answer| rights::missing(&answer, name))
    }

    /// Asks the API server about ourselves; everyone may.
    async fn review(&self, path: &str, review: &Value) -> Option<Value> {
        let request = http::Request::post(path)
            .header("Content-Type", "application/json")
            .body(review.to_string().into_bytes())
            .ok()?;
        let sent = self.client.request::<Value>(request);
        timeout(Duration::from_secs(REQUEST_SECONDS), sent).await.ok()?.ok()
    }

    /// The words in which a failed watch of a GrayRollout is told.
    #[must_use]
    pub fn watch_request(&self, name: &str) -> Request {
        self.request("watch", GRAYROLLOUTS, Some(name))
    }

    async fn get(&self, resource: &'static str, name: &str) -> Result<Value, Failure> {
        let request = self.request("get", resource, Some(name));
        let object = self.bounded(&request, self.api(resource, false).get(name)).await?;
        Ok(serde_json::to_value(object)?)
    }

    async fn list(
        &self,
        resource: &'static str,
        everywhere: bool,
        labels: &str,
    ) -> Result<Vec<Value>, Failure> {
        let mut request = self.request("list", resource, None);
        if everywhere {
            request.namespace = None;
        }
        let params = ListParams::default().labels(labels);
        let api = self.api(resource, everywhere);
        let mut objects = self.bounded(&request, api.list(&params)).await?.items;
        objects.sort_by_key(|object| (object.namespace(), object.name_any()));
        let typed = |mut object: DynamicObject| {
            // Items of a list come without their type.
            object.types.get_or_insert(kube::core::TypeMeta {
                api_version: resource_of(resource).api_version,
                kind: resource_of(resource).kind,
            });
            serde_json::to_value(object).map_err(Failure::from)
        };
        objects.into_iter().map(typed).collect()
    }

    async fn patch(
        &self,
        resource: &'static str,
        name: &str,
        patch: Patch<Value>,
    ) -> Result<Value, Failure> {
        let request = self.request("patch", resource, Some(name));
        let params =
            PatchParams { field_manager: Some(FIELD_MANAGER.into()), ..Default::default() };
        let api = self.api(resource, false);
        let object = self.bounded(&request, api.patch(name, &params, &patch)).await?;
        Ok(serde_json::to_value(object)?)
    }

    fn request(&self, verb: &'static str, resource: &'static str, name: Option<&str>) -> Request {
        let namespace = Some(self.namespace.clone());
        Request { verb, resource, namespace, name: name.map(str::to_owned) }
    }

    async fn bounded<T>(
        &self,
        request: &Request,
        sent: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<T, Failure> {
        match timeout(Duration::from_secs(REQUEST_SECONDS), sent).await {
            Ok(answer) => answer.map_err(|error| request.failure(error)),
            Err(_) => Err(request.no_answer(REQUEST_SECONDS)),
        }
    }

    fn api(&self, resource: &str, everywhere: bool) -> Api<DynamicObject> {
        let resource = resource_of(resource);
        if everywhere {
            Api::all_with(self.client.clone(), &resource)
        } else {
            Api::namespaced_with(self.client.clone(), &self.namespace, &resource)
        }
    }
}

async fn config(flags: &ClusterFlags) -> Result<Config, Failure> {
    let unreadable = |why: String| {
        Failure::Error(format!("{why}; check --kubeconfig, KUBECONFIG and --context"))
    };
    let options = KubeConfigOptions { context: flags.context.clone(), ..Default::default() };
    let file = match &flags.kubeconfig {
        Some(path) => Kubeconfig::read_from(path),
        None => Kubeconfig::read(),
    };
    match file {
        Ok(file) => Config::from_custom_kubeconfig(file, &options).await.map_err(|error| {
            unreadable(format!("the kubeconfig cannot be used: {}", chain(&error)))
        }),
        Err(error) if flags.kubeconfig.is_some() || flags.context.is_some() => {
            Err(unreadable(format!("the kubeconfig cannot be read: {}", chain(&error))))
        }
        // Inside a pod there may be none.
        Err(error) => Config::incluster()
            .map_err(|_| unreadable(format!("there is no usable kubeconfig: {}", chain(&error)))),
    }
}

fn resource_of(resource: &str) -> ApiResource {
    let (plural, group) = resource.split_once('.').unwrap_or((resource, ""));
    let (kind, version) = match plural {
        "deployments" => ("Deployment", "v1"),
        "replicasets" => ("ReplicaSet", "v1"),
        _ => ("GrayRollout", "v1alpha1"),
    };
    ApiResource {
        group: group.into(),
        version: version.into(),
        api_version: format!("{group}/{version}"),
        kind: kind.into(),
        plural: plural.into(),
    }
}
