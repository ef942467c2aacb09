//! What people and other programs do to a Deployment and its GrayRollout.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::{Json, Test, deployment, install, path_of};

impl Test {
    /// Runs kubectl in the test's namespace and returns what it prints.
    pub async fn kubectl(&self, args: &[&str]) -> String {
        match self.try_kubectl(&self.cluster.kubeconfig, args).await {
            Ok(said) => said,
            Err(said) => panic!("kubectl {}: {said}", args.join(" ")),
        }
    }

    /// Runs kubectl, which must fail, and returns its complaint.
    pub async fn kubectl_refused(&self, args: &[&str]) -> String {
        match self.try_kubectl(&self.cluster.kubeconfig, args).await {
            Ok(said) => panic!("kubectl {} was not refused: {said}", args.join(" ")),
            Err(said) => said,
        }
    }

    /// Runs kubectl as the user of a kubeconfig.
    ///
    /// # Errors
    ///
    /// What kubectl complains of.
    pub async fn try_kubectl(&self, kubeconfig: &Path, args: &[&str]) -> Result<String, String> {
        let mut command = self.cluster.kubectl();
        command.env("KUBECONFIG", kubeconfig).args(["-n", &self.namespace]).args(args);
        let done = tokio::process::Command::from(command).output().await;
        let done = done.expect("kubectl runs");
        self.catch_up().await;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        if done.status.success() { Ok(text(&done.stdout)) } else { Err(text(&done.stderr)) }
    }

    /// Creates a ServiceAccount in the test's namespace; gives a kubeconfig of it, and its token.
    pub async fn service_account(&self, name: &str) -> (PathBuf, String) {
        self.kubectl(&["create", "serviceaccount", name]).await;
        let token = install::token(&self.api, &self.namespace, name).await.expect("a token");
        let file = self.cluster.dir.join(format!("{}-{name}.yaml", self.namespace));
        install::write_kubeconfig(self.cluster, &token, &file).expect("a kubeconfig");
        (file, token)
    }

    /// Creates an object of one of the kinds used here.
    pub async fn create(&self, object: &Value) -> Value {
        let path = self.collection_of(object);
        let made = self.api.post(&path, object).await;
        self.catch_up().await;
        made.unwrap_or_else(|error| panic!("{} is refused: {error}", object.text("/kind")))
    }

    /// Creates an object, which must be refused, and returns the complaint.
    pub async fn create_refused(&self, object: &Value) -> String {
        let path = self.collection_of(object);
        match self.api.post(&path, object).await {
            Ok(_) => panic!("not refused: {object}"),
            Err(error) => error.message,
        }
    }

    /// Waits until what was just written is in the record too, so that what is awaited next is
    /// not found in the state before.
    async fn catch_up(&self) {
        self.record.catch_up().await.expect("the record catches up");
    }

    fn collection_of(&self, object: &Value) -> String {
        let plural = match object.text("/kind") {
            "Deployment" => "deployments",
            "ReplicaSet" => "replicasets",
            "GrayRollout" => "grayrollouts",
            "ResourceQuota" => "resourcequotas",
            other => panic!("no path for {other}"),
        };
        path_of(object.text("/apiVersion"), &self.namespace, plural)
    }

    /// The path of a Deployment.
    pub fn deployment_path(&self, name: &str) -> String {
        path_of("apps/v1", &self.namespace, "deployments") + "/" + name
    }

    /// The path of a GrayRollout.
    pub fn gr_path(&self, name: &str) -> String {
        path_of("grayrollout.dev/v1alpha1", &self.namespace, "grayrollouts") + "/" + name
    }

    /// A Deployment that runs v1, and its GrayRollout at rest.
    pub async fn manage(&self, replicas: i64, gr: &Value) {
        let name = gr.text("/spec/targetRef/name").to_owned();
        self.manage_with(&deployment(&name, replicas), gr).await;
    }

    /// The same with the Deployment's manifest given.
    pub async fn manage_with(&self, deployment: &Value, gr: &Value) {
        let name = deployment.text("/metadata/name");
        let replicas = deployment.int("/spec/replicas");
        self.create(deployment).await;
        self.until("v1 is available", |now| {
            now.deployment(name).int("/status/availableReplicas") == replicas
                && now.deployment(name).int("/status/observedGeneration") > 0
        })
        .await;
        self.create(gr).await;
        self.completed(name).await;
    }

    /// Sets the image of a Deployment, as a user does.
    pub async fn push(&self, name: &str, version: &str) {
        let image = format!("app=app:{version}");
        self.kubectl(&["set", "image", &format!("deployment/{name}"), &image]).await;
    }

    /// Sets the image, and how its pods behave.
    pub async fn push_pods(&self, name: &str, version: &str, annotations: Value) {
        self.patch_deployment(name, &new_template(version, annotations)).await;
    }

    /// Applies a merge patch to a Deployment.
    pub async fn patch_deployment(&self, name: &str, patch: &Value) {
        let done = self.api.patch(&self.deployment_path(name), patch).await;
        self.catch_up().await;
        done.unwrap_or_else(|error| panic!("the patch of {name} is refused: {error}"));
    }

    /// Applies a merge patch to a GrayRollout's spec or metadata.
    pub async fn patch_gr(&self, name: &str, patch: &Value) {
        let done = self.api.patch(&self.gr_path(name), patch).await;
        self.catch_up().await;
        done.unwrap_or_else(|error| panic!("the patch of {name} is refused: {error}"));
    }

    /// Changes what a steering annotation says on the live pods of an image.
    pub async fn annotate_pods(&self, version: &str, annotation: &str) {
        let image = format!("app:{version}");
        let names: Vec<String> = self.record.look(|now| {
            now.all(crate::Kind::Pod)
                .filter(|pod| pod.text("/spec/containers/0/image") == image)
                .filter(|pod| pod.at("/metadata/deletionTimestamp").is_null())
                .map(|pod| pod.text("/metadata/name").to_owned())
                .collect()
        });
        assert!(!names.is_empty(), "there are pods of {image}");
        let mut args = vec!["annotate", "--overwrite", "pod"];
        args.extend(names.iter().map(String::as_str));
        args.push(annotation);
        self.kubectl(&args).await;
    }

    /// Scales a Deployment through its scale subresource, as a user and an HPA do.
    pub async fn scale(&self, name: &str, replicas: i64) {
        let patch = json!({"spec": {"replicas": replicas}});
        let path = self.deployment_path(name) + "/scale";
        self.api.patch(&path, &patch).await.expect("scaled");
        self.catch_up().await;
    }

    /// Approves stages of the rollout under way, as a user does.
    pub async fn approve(&self, name: &str, stage: i64) {
        let said = self.try_approve(name, self.rollout(name), stage).await;
        said.unwrap_or_else(|said| panic!("the approval of stage {stage} is refused: {said}"));
    }

    /// Approves stages of a rollout by its number.
    ///
    /// # Errors
    ///
    /// What kubectl complains of.
    pub async fn try_approve(
        &self,
        name: &str,
        rollout: i64,
        stage: i64,
    ) -> Result<String, String> {
        let approval = json!({"approval": {"rollout": rollout, "stage": stage}});
        self.patch_status(name, approval).await
    }

    /// Aborts the rollout under way, as a user does.
    pub async fn abort(&self, name: &str) {
        let abort = json!({"abort": {"rollout": self.rollout(name)}});
        let said = self.patch_status(name, abort).await;
        said.unwrap_or_else(|said| panic!("the abort is refused: {said}"));
    }

    /// Retries the rollout that was aborted or failed, as a user does.
    pub async fn retry(&self, name: &str) {
        let retry = json!({"retry": {"rollout": self.rollout(name)}});
        let said = self.patch_status(name, retry).await;
        said.unwrap_or_else(|said| panic!("the retry is refused: {said}"));
    }

    /// Patches the status with kubectl.
    ///
    /// # Errors
    ///
    /// What kubectl complains of.
    pub async fn patch_status(&self, name: &str, status: Value) -> Result<String, String> {
        let patch = json!({"status": status}).to_string();
        let args = ["patch", "gr", name, "--subresource=status", "--type=merge", "-p", &patch];
        self.try_kubectl(&self.cluster.kubeconfig, &args).await
    }

    /// The number of the rollout under way, as status shows it.
    pub fn rollout(&self, name: &str) -> i64 {
        self.record.look(|now| now.gr(name).int("/status/rollout"))
    }
}

/// A patch to a new image whose pods carry these annotations.
pub fn new_template(version: &str, annotations: Value) -> Value {
    let container = json!({"name": "app", "image": format!("app:{version}")});
    json!({"spec": {"template": {
        "metadata": {"annotations": annotations},
        "spec": {"containers": [container]},
    }}})
}
