//! One sync of the Deployment controller: which rules run, revisions, status and cleanup.

use super::{
    objects::{Cluster, Deployment, DeploymentStatus, ReplicaSet, ReplicaSetStatus},
    rolling, scale,
};
use grayrollout::plan::Strategy;

/// One sync on the Deployment `seen` in the controller's cache, which may be older than the real
/// one; ReplicaSets are read fresh, since a stale one only leads to a conflict.
///
/// Returns whether anything was written.
pub fn sync(cluster: &mut Cluster, seen: &Deployment) -> bool {
    let before = cluster.bump();
    let mut pass = Pass { cluster, deployment: seen.clone() };
    pass.run();
    pass.cluster.bump() > before + 1
}

pub(super) struct Pass<'a> {
    pub cluster: &'a mut Cluster,
    pub deployment: Deployment,
}

impl Pass<'_> {
    fn run(&mut self) {
        let paused = self.deployment.paused;
        if self.deployment.progress_deadline_seconds.is_some()
            && self.deployment.status.says_paused != paused
        {
            let status = DeploymentStatus { says_paused: paused, ..self.deployment.status.clone() };
            self.write_status(status);
        }
        if paused {
            self.scaling_only();
            return;
        }
        // Setting the revision comes before the question whether this is a scaling event.
        self.new_set(false);
        let replicas = self.deployment.replicas;
        let scaling = self
            .sets()
            .iter()
            .any(|set| set.replicas > 0 && set.desired.is_some_and(|desired| desired != replicas));
        if scaling {
            self.scaling_only();
        } else if matches!(self.deployment.strategy, Strategy::Recreate) {
            rolling::recreate(self);
        } else {
            rolling::rolling_update(self);
        }
    }

    fn scaling_only(&mut self) {
        let new = self.new_set(false);
        scale::scale(self, new.as_ref());
        if self.deployment.paused {
            self.cleanup();
        }
        self.status();
    }

    pub fn sets(&self) -> Vec<ReplicaSet> {
        self.cluster.owned(&self.deployment)
    }

    /// All but the new one, oldest first.
    pub fn old_sets(&self) -> Vec<ReplicaSet> {
        let new = self.find_new().map(|set| set.uid);
        let mut sets = self.sets();
        sets.retain(|set| Some(&set.uid) != new.as_ref());
        sets
    }

    pub fn find_new(&self) -> Option<ReplicaSet> {
        self.sets().into_iter().find(|set| set.template == self.deployment.template)
    }

    /// The new ReplicaSet with its revision and annotations kept up; made if asked for.
    pub fn new_set(&mut self, create: bool) -> Option<ReplicaSet> {
        let highest = self.old_sets().iter().filter_map(|set| set.revision).max();
        let revision = highest.unwrap_or(0) + 1;
        let annotations = self.deployment.annotations.clone();
        if let Some(new) = self.find_new() {
            let written = self.cluster.change_replica_set(&new.uid, |set| {
                set.annotations.extend(annotations);
                set.revision = Some(set.revision.unwrap_or(0).max(revision));
            });
            let new = self.find_new()?;
            if !written && self.deployment.revision != new.revision {
                self.deployment.revision = new.revision;
                self.write_status(self.deployment.status.clone());
            }
            return Some(new);
        }
        if !create {
            return None;
        }
        let replicas = rolling::size_of_new(&self.deployment, &self.sets(), 0);
        let hash = format!("n{}", self.deployment.template);
        let set = ReplicaSet {
            name: format!("web-{hash}"),
            uid: self.cluster.uid("rs"),
            owner_uid: self.deployment.uid.clone(),
            resource_version: self.cluster.bump(),
            generation: 1,
            created: self.cluster.now.div_euclid(1000),
            deleting: false,
            hash,
            template: self.deployment.template,
            replicas,
            desired: Some(self.deployment.replicas),
            max: Some(self.deployment.replicas + self.deployment.max_surge()),
            revision: Some(revision),
            annotations,
            status: ReplicaSetStatus::default(),
        };
        self.note(&format!("creates {} with {replicas}", set.name));
        self.cluster.replica_sets.push(set.clone());
        Some(set)
    }

    pub fn note(&mut self, what: &str) {
        self.cluster.log.push(format!("native {what}"));
    }

    /// Sets a size and both annotations, where any of them differs.
    pub fn scale_to(&mut self, set: &ReplicaSet, replicas: i32) {
        let desired = self.deployment.replicas;
        let max = desired + self.deployment.max_surge();
        let written = self.cluster.change_replica_set(&set.uid, |set| {
            set.replicas = replicas;
            set.desired = Some(desired);
            set.max = Some(max);
        });
        if written && set.replicas != replicas {
            self.note(&format!(
                "scales {} (v{}) {} -> {replicas}",
                set.name, set.template, set.replicas
            ));
        }
    }

    /// Deletes empty old ReplicaSets beyond revisionHistoryLimit, the lowest revisions first.
    pub fn cleanup(&mut self) {
        let Some(limit) = self.deployment.revision_history_limit else {
            return;
        };
        let mut old = self.old_sets();
        old.sort_by_key(|set| set.revision.unwrap_or(0));
        let surplus = old.len().saturating_sub(usize::try_from(limit).unwrap_or(0));
        for set in old.iter().take(surplus) {
            let empty = set.replicas == 0
                && set.status.replicas == 0
                && set.generation <= set.status.observed_generation;
            if empty {
                self.note(&format!("deletes {} (v{})", set.name, set.template));
                self.cluster.delete_replica_set(&set.uid);
            }
        }
    }

    pub fn complete(&self) -> bool {
        let (status, replicas) = (&self.deployment.status, self.deployment.replicas);
        status.updated == replicas
            && status.replicas == replicas
            && status.available == replicas
            && status.observed_generation >= self.deployment.generation
    }

    /// Brings the Deployment's status up to date.
    pub fn status(&mut self) {
        let sets = self.sets();
        let status = DeploymentStatus {
            observed_generation: self.deployment.generation,
            replicas: sets.iter().map(|set| set.status.replicas).sum(),
            updated: self.find_new().map_or(0, |set| set.status.replicas),
            available: sets.iter().map(|set| set.status.available).sum(),
            says_paused: self.deployment.status.says_paused,
        };
        if status != self.deployment.status {
            self.write_status(status);
        }
    }

    /// A write on a Deployment that changed since it was read fails, as the real one does. Later
    /// writes of the same sync still carry the earlier resourceVersion, so they fail too.
    fn write_status(&mut self, status: DeploymentStatus) {
        let version = self.cluster.bump();
        let seen = self.deployment.resource_version;
        self.deployment.status = status.clone();
        let revision = self.deployment.revision;
        if let Some(stored) = &mut self.cluster.deployment
            && stored.uid == self.deployment.uid
            && stored.resource_version == seen
        {
            stored.status = status;
            stored.revision = revision;
            stored.resource_version = version;
        }
    }
}
