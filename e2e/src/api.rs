//! The API server by path and plain JSON, so that no field is lost in typed objects.

use std::path::Path;

use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::{Value, json};

use crate::Json;

/// A client of the API server as one user.
#[derive(Clone)]
pub struct Api {
    client: Client,
}

/// A refusal of the API server.
#[derive(Debug)]
pub struct ApiError {
    /// The HTTP status code; 0 where there was no answer.
    pub code: u16,
    /// What the API server said.
    pub message: String,
}

impl std::fmt::Display for ApiError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.code, self.message)
    }
}

impl From<kube::Error> for ApiError {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self { code: status.code, message: status.message.clone() },
            other => Self { code: 0, message: other.to_string() },
        }
    }
}

impl Api {
    /// A client for a kubeconfig file. It works only in the runtime in which it was made.
    pub async fn new(kubeconfig: &Path) -> Self {
        let file = Kubeconfig::read_from(kubeconfig).expect("the kubeconfig can be read");
        let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default())
            .await
            .expect("the kubeconfig is complete");
        Self { client: Client::try_from(config).expect("a client can be made") }
    }

    /// The client below, for streams.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Reads an object or a list.
    ///
    /// # Errors
    ///
    /// What the API server answers.
    pub async fn get(&self, path: &str) -> Result<Value, ApiError> {
        self.send("GET", path, "", &Value::Null).await
    }

    /// Creates an object in a collection.
    ///
    /// # Errors
    ///
    /// What the API server answers.
    pub async fn post(&self, path: &str, body: &Value) -> Result<Value, ApiError> {
        self.send("POST", path, "application/json", body).await
    }

    /// Replaces an object.
    ///
    /// # Errors
    ///
    /// What the API server answers.
    pub async fn put(&self, path: &str, body: &Value) -> Result<Value, ApiError> {
        self.send("PUT", path, "application/json", body).await
    }

    /// Applies a JSON merge patch.
    ///
    /// # Errors
    ///
    /// What the API server answers.
    pub async fn patch(&self, path: &str, body: &Value) -> Result<Value, ApiError> {
        self.send("PATCH", path, "application/merge-patch+json", body).await
    }

    /// Applies a manifest server-side as a field manager, over others where they conflict.
    ///
    /// # Errors
    ///
    /// What the API server answers.
    pub async fn apply(&self, path: &str, manager: &str, body: &Value) -> Result<Value, ApiError> {
        let path = format!("{path}?fieldManager={manager}&force=true");
        self.send("PATCH", &path, "application/apply-patch+yaml", body).await
    }

    /// Deletes an object, its dependents in the background.
    ///
    /// # Errors
    ///
    /// What the API server answers.
    pub async fn delete(&self, path: &str) -> Result<Value, ApiError> {
        let options = json!({"propagationPolicy": "Background"});
        self.send("DELETE", path, "application/json", &options).await
    }

    /// Creates a namespace whose name begins with `prefix`, and returns its name.
    pub async fn create_namespace(&self, prefix: &str) -> String {
        let body = json!({"metadata": {"generateName": format!("{prefix}-")}});
        let made = self.post("/api/v1/namespaces", &body).await;
        made.expect("a namespace").text("/metadata/name").to_owned()
    }

    async fn send(
        &self,
        method: &str,
        path: &str,
        content_type: &str,
        body: &Value,
    ) -> Result<Value, ApiError> {
        let mut request = http::Request::builder().method(method).uri(path);
        let body = if content_type.is_empty() {
            Vec::new()
        } else {
            request = request.header("Content-Type", content_type);
            body.to_string().into_bytes()
        };
        let request = request.body(body).expect("a request");
        Ok(self.client.request(request).await?)
    }
}
