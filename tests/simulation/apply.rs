//! Carrying a plan out: each write with its precondition, in order, until one fails.

use grayrollout::{
    api::{GrayRolloutStatus, ORIGINAL_ANNOTATION, ROLLOUT_ANNOTATION},
    plan::{Action, AnnotationChange, DeploymentPatch, Event, EventOn},
};

use crate::{
    guards::{self, Guard},
    native::{ReplicaSet, sync_deployment, sync_replica_set},
    operator::{End, Kind, Mishap, Operator},
    status_checks,
    world::{Checked, NAME, World, hash},
};

/// One pass that is being carried out.
pub struct Pass<'a> {
    world: &'a mut World,
    mishap: Mishap,
    pub writes: u32,
}

impl<'a> Pass<'a> {
    pub fn new(world: &'a mut World, mishap: Mishap) -> Self {
        let mut pass = Self { world, mishap, writes: 0 };
        pass.meddle();
        pass
    }

    /// Lets another writer in, where it is time for that.
    fn meddle(&mut self) {
        if self.mishap.conflict_after == Some(self.writes) {
            self.world.bump_versions();
        }
    }

    pub fn events(&mut self, events: &[Event]) {
        for event in events {
            self.world.writes.events += 1 + u32::from(event.on == EventOn::Both);
            let line = format!("event {}: {}", event.kind.reason(), event.message);
            self.world.say(&line);
        }
    }

    /// Counts a write that went through, lets the operator see it, and lets mishaps happen.
    fn written(&mut self, operator: &mut Operator, object: Object<'_>) -> Checked<End> {
        self.writes += 1;
        if self.world.without != Some(Guard::OwnWrites) {
            match object {
                Object::Gray => operator.observe(self.world, Kind::Gray),
                Object::Deployment => operator.observe(self.world, Kind::Deployment),
                Object::Set(name) => operator.observe_set(self.world, name),
            }
        }
        if self.mishap.crash_after == Some(self.writes) {
            return Ok(End::Crashed);
        }
        self.meddle();
        if self.mishap.native_between {
            let before = self.world.cluster.clone();
            let cluster = &mut self.world.cluster;
            if let Some(seen) = cluster.deployment.clone() {
                sync_deployment(cluster, &seen);
            }
            let uids: Vec<_> = cluster.replica_sets.iter().map(|set| set.uid.clone()).collect();
            for uid in uids {
                sync_replica_set(cluster, &uid);
            }
            guards::native_follows(self.world, &before)?;
        }
        Ok(End::Done)
    }

    pub fn status(
        &mut self,
        operator: &mut Operator,
        status: &GrayRolloutStatus,
        events: &[Event],
    ) -> Checked<End> {
        let seen = operator.gray.as_ref().map(|gray| gray.resource_version);
        let fits = self.world.gray.as_ref().map(|gray| gray.resource_version) == seen;
        if !fits && self.world.without != Some(Guard::StatusVersion) {
            self.world.say("operator: conflict on the status");
            return Ok(End::Conflict);
        }
        let text = serde_json::to_string(status).expect("a status");
        let written: GrayRolloutStatus = serde_json::from_str(&text).expect("a status");
        guards::goes_on(&self.world.status(), status)?;
        let changed = changed_fields(&self.world.status(), status);
        self.world.change_status(|stored| {
            *stored = GrayRolloutStatus {
                approval: stored.approval.clone(),
                abort: stored.abort.clone(),
                retry: stored.retry.clone(),
                ..written
            };
        });
        self.world.writes.status += 1;
        let line = format!(
            "operator: status {:?} rollout {:?} stage {:?} [{changed}]: {}",
            status.phase,
            status.rollout,
            status.stage,
            status.message.as_deref().unwrap_or("")
        );
        self.world.say(&line);
        self.events(events);
        status_checks::record(self.world);
        guards::truly_over(self.world, status)?;
        self.written(operator, Object::Gray)
    }

    pub fn actions(&mut self, operator: &mut Operator, actions: &[Action]) -> Checked<End> {
        for action in actions {
            let end = self.action(operator, action)?;
            if end != End::Done {
                return Ok(end);
            }
        }
        Ok(End::Done)
    }

    fn action(&mut self, operator: &mut Operator, action: &Action) -> Checked<End> {
        let (new, total) = (guards::new_size(self.world), self.world.total());
        let created;
        let object = match action {
            Action::PatchDeployment(_) => Object::Deployment,
            Action::CreateReplicaSet { template, .. } => {
                created = name_of(&template.short());
                Object::Set(&created)
            }
            Action::ScaleReplicaSet { name, .. } | Action::DeleteReplicaSet { name, .. } => {
                Object::Set(name)
            }
        };
        let without = self.world.without;
        let done = match action {
            Action::PatchDeployment(patch) => self.patch(patch),
            Action::CreateReplicaSet { template, replicas, desired, max } => {
                self.create(operator, template.short(), (*replicas, *desired, *max), |t| {
                    hash(t) == *template
                })
            }
            Action::ScaleReplicaSet { name, uid, resource_version, replicas, desired, max } => {
                let line = format!("operator: scales {} to {replicas}", self.label(name));
                self.replica_set(name, uid, resource_version, |world| {
                    world.cluster.change_replica_set(uid, |set| {
                        set.replicas = *replicas;
                        (set.desired, set.max) = guards::written(without, set, *desired, *max);
                    });
                    world.say(&line);
                })
            }
            Action::DeleteReplicaSet { name, uid, resource_version } => {
                let line = format!("operator: deletes {}", self.label(name));
                self.replica_set(name, uid, resource_version, |world| {
                    world.cluster.delete_replica_set(uid);
                    world.say(&line);
                })
            }
        };
        if !done {
            self.world.say("operator: conflict");
            return Ok(End::Conflict);
        }
        if matches!(action, Action::PatchDeployment(_)) {
            self.world.writes.deployment += 1;
        } else {
            self.world.writes.sets += 1;
        }
        guards::grown_within_stage(self.world, new)?;
        guards::total_within_surge(self.world, total)?;
        self.written(operator, object)
    }

    fn label(&self, name: &str) -> String {
        let sets = &self.world.cluster.replica_sets;
        let set = sets.iter().find(|set| set.name == name);
        set.map_or_else(
            || name.to_owned(),
            |set| format!("{name} (v{}, now {})", set.template, set.replicas),
        )
    }

    fn replica_set(
        &mut self,
        name: &str,
        uid: &str,
        version: &str,
        write: impl FnOnce(&mut World),
    ) -> bool {
        let any = self.world.without == Some(Guard::SetVersion);
        let fits = self.world.cluster.replica_sets.iter().any(|set| {
            let current = set.resource_version.to_string() == version;
            set.name == name && set.uid == uid && (current || any)
        });
        if fits {
            write(self.world);
        }
        fits
    }

    fn patch(&mut self, patch: &DeploymentPatch) -> bool {
        let Some(deployment) = &self.world.cluster.deployment else {
            return false;
        };
        let any = self.world.without == Some(Guard::DeploymentVersion);
        let current = deployment.resource_version.to_string() == patch.resource_version;
        if deployment.uid != patch.uid || !(current || any) {
            return false;
        }
        let sets = &self.world.cluster.replica_sets;
        let template = match &patch.template_of {
            None => deployment.template,
            Some(name) => match sets.iter().find(|set| set.name == *name) {
                Some(set) => set.template,
                None => return false,
            },
        };
        self.world.cluster.change_deployment(|deployment| {
            deployment.template = template;
            deployment.paused = patch.paused.unwrap_or(deployment.paused);
            if let Some(strategy) = &patch.strategy {
                deployment.strategy = strategy.clone();
            }
            let annotations = &mut deployment.annotations;
            annotate(annotations, ORIGINAL_ANNOTATION, &patch.original, |o| {
                serde_json::to_string(o).expect("an annotation")
            });
            annotate(annotations, ROLLOUT_ANNOTATION, &patch.rollout, Clone::clone);
        });
        self.world.form = Some(self.world.deployment().strategy.clone());
        let fresh = self.world.gray.as_ref().is_none_or(|gray| gray.status.rollout.is_none());
        if fresh && matches!(patch.original, AnnotationChange::Remove) {
            // Nothing speaks of earlier rollouts any more: a GrayRollout that comes starts anew.
            self.world.highest = 0;
        }
        let line = format!("operator: patches to {}", self.world.summary());
        self.world.say(&line);
        true
    }

    fn create(
        &mut self,
        operator: &Operator,
        hash: String,
        (replicas, desired, max): (i32, Option<i32>, Option<i32>),
        is_template: impl Fn(u32) -> bool,
    ) -> bool {
        let Some(deployment) = self.world.cluster.deployment.clone() else {
            return false;
        };
        let Some(planned) = &operator.deployment else {
            return false;
        };
        // The real one reads the Deployment for its template, and looks at its generation as well;
        // one that is stopped right after that comes late all the same, unless it still leads.
        let unseen = [Guard::Creation, Guard::Lease].map(Some).contains(&self.world.without);
        let moved = planned.generation != deployment.generation && !unseen;
        if planned.uid != deployment.uid || moved || !is_template(deployment.template) {
            return false;
        }
        let name = name_of(&hash);
        let cluster = &mut self.world.cluster;
        if let Some(there) = cluster.replica_sets.iter().find(|set| set.name == name) {
            return there.owner_uid == deployment.uid && there.template == deployment.template;
        }
        let uid = cluster.uid("rs");
        let mut set = ReplicaSet::of(&name, &deployment.uid, deployment.template);
        set.uid = uid;
        set.resource_version = cluster.bump();
        set.created = cluster.now.div_euclid(1000);
        set.hash = hash;
        set.replicas = replicas;
        set.desired = desired;
        set.max = max;
        cluster.replica_sets.push(set);
        let line = format!("operator: creates {name} (v{}) with {replicas}", deployment.template);
        self.world.say(&line);
        true
    }
}

/// What was written.
enum Object<'a> {
    Gray,
    Deployment,
    /// A ReplicaSet by name.
    Set(&'a str),
}

/// The name of a ReplicaSet of ours.
fn name_of(hash: &str) -> String {
    format!("{NAME}-{hash}")
}

/// The fields of a status that a write changes.
fn changed_fields(before: &GrayRolloutStatus, after: &GrayRolloutStatus) -> String {
    let fields = |status| serde_json::to_value(status).expect("a status");
    let (before, after) = (fields(before), fields(after));
    let names = after.as_object().into_iter().flat_map(|map| map.keys());
    let changed: Vec<_> =
        names.filter(|name| before.get(name) != after.get(name)).cloned().collect();
    changed.join(" ")
}

fn annotate<T>(
    annotations: &mut std::collections::BTreeMap<String, String>,
    name: &str,
    change: &AnnotationChange<T>,
    text: impl Fn(&T) -> String,
) {
    match change {
        AnnotationChange::Keep => {}
        AnnotationChange::Set(value) => {
            annotations.insert(name.into(), text(value));
        }
        AnnotationChange::Remove => {
            annotations.remove(name);
        }
    }
}
