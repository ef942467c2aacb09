//! Carrying a plan out: each write with its precondition, in order, until one fails.

use grayrollout::{
    api::{GrayRolloutStatus, ORIGINAL_ANNOTATION, ROLLOUT_ANNOTATION},
    plan::{Action, AnnotationChange, DeploymentPatch, Event},
};

use crate::{
    native::{ReplicaSet, sync_deployment, sync_replica_set},
    operator::{End, Kind, Mishap, Operator},
    status_checks,
    world::{NAME, World, hash},
};

/// One pass that is being carried out.
pub struct Pass<'a> {
    world: &'a mut World,
    mishap: Mishap,
    pub writes: u32,
}

impl<'a> Pass<'a> {
    pub fn new(world: &'a mut World, mishap: Mishap) -> Self {
        Self { world, mishap, writes: 0 }
    }

    pub fn events(&mut self, events: &[Event]) {
        for event in events {
            self.world.writes.events += 1 + u32::from(event.on_target);
            let line = format!("event {}: {}", event.kind.reason(), event.message);
            self.world.say(&line);
        }
    }

    /// Counts a write that went through, lets the operator see it, and lets mishaps happen.
    fn written(&mut self, operator: &mut Operator, kind: Kind) -> End {
        self.writes += 1;
        operator.observe(self.world, kind);
        if self.mishap.crash_after == Some(self.writes) {
            return End::Crashed;
        }
        if self.mishap.native_between {
            let cluster = &mut self.world.cluster;
            if let Some(seen) = cluster.deployment.clone() {
                sync_deployment(cluster, &seen);
            }
            let uids: Vec<_> = cluster.replica_sets.iter().map(|set| set.uid.clone()).collect();
            for uid in uids {
                sync_replica_set(cluster, &uid);
            }
        }
        End::Done
    }

    pub fn status(
        &mut self,
        operator: &mut Operator,
        status: &GrayRolloutStatus,
        events: &[Event],
    ) -> End {
        let seen = operator.gray.as_ref().map(|gray| gray.resource_version);
        if self.world.gray.as_ref().map(|gray| gray.resource_version) != seen {
            self.world.say("operator: conflict on the status");
            return End::Conflict;
        }
        let text = serde_json::to_string(status).expect("a status");
        let written: GrayRolloutStatus = serde_json::from_str(&text).expect("a status");
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
        self.written(operator, Kind::Gray)
    }

    pub fn actions(&mut self, operator: &mut Operator, actions: &[Action]) -> End {
        for action in actions {
            let end = self.action(operator, action);
            if end != End::Done {
                return end;
            }
        }
        End::Done
    }

    fn action(&mut self, operator: &mut Operator, action: &Action) -> End {
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
                        set.desired = *desired;
                        set.max = *max;
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
            return End::Conflict;
        }
        let kind = if matches!(action, Action::PatchDeployment(_)) {
            self.world.writes.deployment += 1;
            Kind::Deployment
        } else {
            self.world.writes.sets += 1;
            Kind::Sets
        };
        self.written(operator, kind)
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
        let fits = self.world.cluster.replica_sets.iter().any(|set| {
            set.name == name && set.uid == uid && set.resource_version.to_string() == version
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
        if deployment.uid != patch.uid
            || deployment.resource_version.to_string() != patch.resource_version
        {
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
        let planned = operator.deployment.as_ref().map(|seen| &seen.uid);
        if Some(&deployment.uid) != planned || !is_template(deployment.template) {
            return false;
        }
        let name = format!("{NAME}-{hash}");
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
