//! The objects that the controllers share, and the writes that bump their versions.

use std::collections::{BTreeMap, BTreeSet};

use grayrollout::{api::IntOrPercent, plan::Strategy};

/// A Deployment. A pod template is a number: equal numbers are equal templates.
#[derive(Debug, Clone, PartialEq)]
pub struct Deployment {
    pub uid: String,
    pub resource_version: u64,
    pub generation: i64,
    pub annotations: BTreeMap<String, String>,
    pub replicas: i32,
    pub paused: bool,
    pub strategy: Strategy,
    pub template: u32,
    pub revision_history_limit: Option<i32>,
    pub progress_deadline_seconds: Option<i32>,
    /// The annotation deployment.kubernetes.io/revision.
    pub revision: Option<i64>,
    pub status: DeploymentStatus,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeploymentStatus {
    pub observed_generation: i64,
    pub replicas: i32,
    pub updated: i32,
    pub available: i32,
    /// Whether Progressing says DeploymentPaused.
    pub says_paused: bool,
}

impl Deployment {
    pub fn of(uid: &str, replicas: i32, strategy: Strategy, template: u32) -> Self {
        Self {
            uid: uid.to_owned(),
            resource_version: 1,
            generation: 1,
            annotations: BTreeMap::new(),
            replicas,
            paused: false,
            strategy,
            template,
            revision_history_limit: Some(10),
            progress_deadline_seconds: Some(600),
            revision: None,
            status: DeploymentStatus::default(),
        }
    }

    /// maxSurge as the controller resolves it: 0 unless the strategy is RollingUpdate.
    pub fn max_surge(&self) -> i32 {
        match &self.strategy {
            Strategy::RollingUpdate { rolling_update } => {
                resolve(&rolling_update.max_surge, self.replicas, true)
            }
            _ => 0,
        }
    }

    /// maxUnavailable likewise: at least 1 where maxSurge is 0, at most the replicas.
    pub fn max_unavailable(&self) -> i32 {
        let Strategy::RollingUpdate { rolling_update } = &self.strategy else {
            return 0;
        };
        if self.replicas == 0 {
            return 0;
        }
        let unavailable = resolve(&rolling_update.max_unavailable, self.replicas, false);
        let least = i32::from(self.max_surge() == 0);
        unavailable.max(least).min(self.replicas)
    }
}

/// A count or percentage of `replicas`, as intstr.GetScaledValueFromIntOrPercent gives it.
pub fn resolve(value: &IntOrPercent, replicas: i32, up: bool) -> i32 {
    match value {
        IntOrPercent::Count(count) => *count,
        IntOrPercent::Percent(text) => {
            let percent: i32 = text.trim_end_matches('%').parse().expect("a percentage");
            (percent * replicas + if up { 99 } else { 0 }) / 100
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct ReplicaSet {
    pub name: String,
    pub uid: String,
    pub owner_uid: String,
    pub resource_version: u64,
    pub generation: i64,
    /// creationTimestamp in whole seconds, as the API server keeps it.
    pub created: i64,
    pub deleting: bool,
    /// The label pod-template-hash.
    pub hash: String,
    pub template: u32,
    pub replicas: i32,
    pub desired: Option<i32>,
    pub max: Option<i32>,
    pub revision: Option<i64>,
    /// What was copied from the Deployment.
    pub annotations: BTreeMap<String, String>,
    pub status: ReplicaSetStatus,
}

impl ReplicaSet {
    /// An empty one that its controller has seen.
    pub fn of(name: &str, owner_uid: &str, template: u32) -> Self {
        Self {
            name: name.to_owned(),
            uid: format!("{name}-uid"),
            owner_uid: owner_uid.to_owned(),
            resource_version: 1,
            generation: 1,
            created: 0,
            deleting: false,
            hash: format!("n{template}"),
            template,
            replicas: 0,
            desired: None,
            max: None,
            revision: None,
            annotations: BTreeMap::new(),
            status: ReplicaSetStatus::default(),
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReplicaSetStatus {
    pub observed_generation: i64,
    pub replicas: i32,
    pub available: i32,
    pub terminating: i32,
    pub failure: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pod {
    /// UID of its ReplicaSet.
    pub owner: String,
    pub template: u32,
    pub created: i64,
    pub ready: bool,
    /// When it gets ready by itself.
    pub ready_at: Option<i64>,
    /// Set once deleted: when it is gone.
    pub gone_at: Option<i64>,
}

/// One namespace with one Deployment, and how its pods behave. Times are milliseconds.
#[derive(Debug, Clone)]
pub struct Cluster {
    pub now: i64,
    pub deployment: Option<Deployment>,
    pub replica_sets: Vec<ReplicaSet>,
    pub pods: Vec<Pod>,
    /// How long a pod takes to get ready, and to go.
    pub start_ms: i64,
    pub stop_ms: i64,
    /// Templates whose pods never get ready.
    pub broken: BTreeSet<u32>,
    /// Whether a quota refuses new pods.
    pub quota: bool,
    /// What the native controllers did, for people.
    pub log: Vec<String>,
    version: u64,
    uids: u64,
}

impl Cluster {
    pub fn new(now: i64) -> Self {
        Self {
            now,
            deployment: None,
            replica_sets: Vec::new(),
            pods: Vec::new(),
            start_ms: 1000,
            stop_ms: 1000,
            broken: BTreeSet::new(),
            quota: false,
            log: Vec::new(),
            version: 1,
            uids: 0,
        }
    }

    /// The next resourceVersion.
    pub fn bump(&mut self) -> u64 {
        self.version += 1;
        self.version
    }

    pub fn uid(&mut self, kind: &str) -> String {
        self.uids += 1;
        format!("{kind}-uid-{}", self.uids)
    }

    /// Changes the Deployment's spec or annotations: both raise its generation.
    pub fn change_deployment(&mut self, change: impl FnOnce(&mut Deployment)) {
        let version = self.version + 1;
        let Some(deployment) = &mut self.deployment else {
            return;
        };
        let before = deployment.clone();
        change(deployment);
        if *deployment != before {
            deployment.generation += 1;
            deployment.resource_version = version;
            self.version = version;
        }
    }

    /// Changes a ReplicaSet; only a change of its size raises the generation.
    pub fn change_replica_set(&mut self, uid: &str, change: impl FnOnce(&mut ReplicaSet)) -> bool {
        let version = self.version + 1;
        let Some(set) = self.replica_sets.iter_mut().find(|set| set.uid == uid) else {
            return false;
        };
        let before = set.clone();
        change(set);
        if *set == before {
            return false;
        }
        set.generation += i64::from(set.replicas != before.replicas);
        set.resource_version = version;
        self.version = version;
        true
    }

    /// The ReplicaSets that the Deployment controls, oldest first.
    pub fn owned(&self, deployment: &Deployment) -> Vec<ReplicaSet> {
        let mut owned: Vec<_> = self
            .replica_sets
            .iter()
            .filter(|set| set.owner_uid == deployment.uid && !set.deleting)
            .cloned()
            .collect();
        owned.sort_by(|a, b| (a.created, &a.name).cmp(&(b.created, &b.name)));
        owned
    }

    /// Removes a ReplicaSet; the garbage collector takes its pods.
    pub fn delete_replica_set(&mut self, uid: &str) {
        self.bump();
        self.replica_sets.retain(|set| set.uid != uid);
        let gone = self.now + self.stop_ms;
        for pod in self.pods.iter_mut().filter(|pod| pod.owner == uid) {
            pod.gone_at.get_or_insert(gone);
        }
    }

    /// Removes the Deployment and all that it owns.
    pub fn delete_deployment(&mut self) {
        self.bump();
        if let Some(deployment) = self.deployment.take() {
            for set in self.owned(&deployment) {
                self.delete_replica_set(&set.uid);
            }
        }
    }
}
