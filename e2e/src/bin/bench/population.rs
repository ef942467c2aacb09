//! Many Deployments in namespaces of their own, which no record is kept of.

use std::time::{Duration, Instant};

use futures::{StreamExt, stream};
use grayrollout_e2e::{Api, Json, Operator, Test, deployment, grayrollout, new_template, path_of};
use serde_json::{Value, json};

/// Requests of ours at once.
const AT_ONCE: usize = 32;
const POLL: Duration = Duration::from_millis(200);
/// How long ten thousand may take.
const PATIENCE: Duration = Duration::from_mins(20);

/// Deployments named alike, numbered from 0.
pub struct Population<'t> {
    /// What has the control plane.
    pub test: &'t Test,
    /// The API server as the administrator.
    pub api: Api,
    /// Where they are.
    pub namespace: String,
    /// How many are in one namespace, each a part of the first one's name; 0 is all in the first.
    pub per_namespace: usize,
    /// Pods of each.
    pub replicas: i64,
}

impl<'t> Population<'t> {
    /// An empty one.
    pub async fn new(test: &'t Test, prefix: &str, replicas: i64) -> Self {
        let namespace = test.api.create_namespace(prefix).await;
        Self { test, api: test.api.clone(), namespace, per_namespace: 0, replicas }
    }

    /// More of them, with another number of pods each, so many in a namespace.
    pub fn spread(&self, per_namespace: usize, replicas: i64) -> Self {
        let (test, api) = (self.test, self.api.clone());
        Self { test, api, namespace: self.namespace.clone(), per_namespace, replicas }
    }

    fn namespace_of(&self, number: usize) -> String {
        match number.checked_div(self.per_namespace) {
            Some(part) => format!("{}-{part}", self.namespace),
            None => self.namespace.clone(),
        }
    }

    /// An operator for it.
    pub async fn operator(&self) -> Operator {
        let mut operator = self.operator_starting();
        operator.ready().await;
        operator
    }

    /// An operator that was just started, for its namespace, or for all where it has several.
    pub fn operator_starting(&self) -> Operator {
        let namespace = if self.per_namespace == 0 { &self.namespace } else { "" };
        self.operator_of(namespace, &[])
    }

    /// An operator for all namespaces that was just started, with further flags.
    pub fn operator_of_all_starting(&self, args: &[&str]) -> Operator {
        self.operator_of("", args)
    }

    fn operator_of(&self, namespace: &str, args: &[&str]) -> Operator {
        let cluster = self.test.cluster;
        let log = cluster.dir.join(format!("{}.log", self.namespace));
        Operator::spawn(cluster, &cluster.operator_kubeconfig, namespace, log, args, &[])
    }

    /// Creates Deployments, and waits for their ReplicaSets and pods.
    pub async fn deploy(&self, numbers: std::ops::Range<usize>) {
        let count = numbers.len();
        let before = self.count("apps/v1", "replicasets").await;
        self.make_namespaces(&numbers).await;
        let bounds = json!({"spec": {"strategy": {"type": "RollingUpdate",
            "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}}});
        self.each(numbers, async |number| {
            let made = deployment(&name_of(number), self.replicas).with(bounds.clone());
            let path = path_of("apps/v1", &self.namespace_of(number), "deployments");
            self.api.post(&path, &made).await.expect("a Deployment");
        })
        .await;
        self.counted("apps/v1", "replicasets", before + count).await;
    }

    async fn make_namespaces(&self, numbers: &std::ops::Range<usize>) {
        let mut last = self.namespace.clone();
        for namespace in numbers.clone().map(|number| self.namespace_of(number)) {
            let known = namespace == last
                || self.api.get(&format!("/api/v1/namespaces/{namespace}")).await.is_ok();
            if !known {
                let made = json!({"metadata": {"name": namespace}});
                self.api.post("/api/v1/namespaces", &made).await.expect("a namespace");
            }
            last = namespace;
        }
    }

    /// Sets the image of each.
    pub async fn push(&self, numbers: std::ops::Range<usize>, version: &str) {
        self.each(numbers, async |number| {
            let path = self.path("apps/v1", "deployments", number);
            let patch = new_template(version, json!({}));
            self.api.patch(&path, &patch).await.expect("the patch is taken");
        })
        .await;
    }

    /// Creates a GrayRollout of each.
    pub async fn manage(&self, numbers: std::ops::Range<usize>, percents: &[i64]) {
        self.each(numbers, async |number| {
            let namespace = self.namespace_of(number);
            let path = path_of("grayrollout.dev/v1alpha1", &namespace, "grayrollouts");
            let made = grayrollout(&name_of(number), percents);
            self.api.post(&path, &made).await.expect("a GrayRollout");
        })
        .await;
    }

    /// Deletes all of them, so many there are.
    pub async fn delete(&self, count: usize) {
        let mut namespaces: Vec<_> = (0..count).map(|number| self.namespace_of(number)).collect();
        namespaces.push(self.namespace.clone());
        namespaces.sort();
        namespaces.dedup();
        let paths = namespaces.iter().map(|namespace| format!("/api/v1/namespaces/{namespace}"));
        let paths: Vec<_> = paths.collect();
        for path in &paths {
            self.api.delete(path).await.expect("it ends");
        }
        for path in &paths {
            until("a namespace is gone", async || self.api.get(path).await.is_err()).await;
        }
    }

    /// Approves a stage.
    pub async fn approve(&self, number: usize, rollout: i64, stage: i64) {
        let path = self.path("grayrollout.dev/v1alpha1", "grayrollouts", number) + "/status";
        let approval = json!({"status": {"approval": {"rollout": rollout, "stage": stage}}});
        self.api.patch(&path, &approval).await.expect("the approval is taken");
    }

    /// The path of an object.
    pub fn path(&self, version: &str, plural: &str, number: usize) -> String {
        let path = path_of(version, &self.namespace_of(number), plural);
        format!("{path}/{}", name_of(number))
    }

    async fn each(&self, numbers: std::ops::Range<usize>, act: impl AsyncFn(usize)) {
        stream::iter(numbers).for_each_concurrent(AT_ONCE, |number| act(number)).await;
    }

    /// Objects of a kind in its namespace, or everywhere where it has several, without reading them.
    pub async fn count(&self, version: &str, plural: &str) -> usize {
        let path = self.list_path(version, plural) + "?limit=1";
        let list = self.api.get(&path).await.expect("a list");
        let more = usize::try_from(list.int("/metadata/remainingItemCount")).unwrap_or(0);
        list.list("/items").len() + more
    }

    /// The path of all objects of a kind in its namespace, or everywhere where it has several.
    pub fn list_path(&self, version: &str, plural: &str) -> String {
        let path = path_of(version, &self.namespace, plural);
        if self.per_namespace == 0 {
            return path;
        }
        path.replace(&format!("namespaces/{}/", self.namespace), "")
    }

    /// Waits until there are so many objects of a kind.
    pub async fn counted(&self, version: &str, plural: &str, count: usize) {
        until(&format!("{count} {plural}"), async || self.count(version, plural).await >= count)
            .await;
    }

    /// Waits until an operator tells so many GrayRollouts to be completed.
    pub async fn completed(&self, operator: &Operator, count: usize) {
        until(&format!("{count} completed"), async || {
            let completed = ["grayrollout_phase{", r#"phase="Completed""#];
            let count: f64 = u32::try_from(count).unwrap_or(u32::MAX).into();
            operator.metric(&completed).await >= count
        })
        .await;
    }

    /// An object's present state.
    pub async fn get(&self, version: &str, plural: &str, number: usize) -> Value {
        self.api.get(&self.path(version, plural, number)).await.expect("the object is there")
    }
}

/// The name of the Deployment with a number.
pub fn name_of(number: usize) -> String {
    format!("web-{number:05}")
}

/// The number of the Deployment with a name.
pub fn number_of(name: &str) -> usize {
    name.rsplit('-').next().and_then(|number| number.parse().ok()).expect("a name with a number")
}

/// Waits, with patience.
pub async fn until(what: &str, met: impl AsyncFn() -> bool) {
    let start = Instant::now();
    while !met().await {
        assert!(start.elapsed() < PATIENCE, "{what}: not in {} min", PATIENCE.as_secs() / 60);
        tokio::time::sleep(POLL).await;
    }
}
