//! The operator under test: a cache that may lag, the real plan, and writes with preconditions.

use std::time::Duration;

use grayrollout::{
    api::{GrayRolloutStatus, ORIGINAL_ANNOTATION, ROLLOUT_ANNOTATION},
    plan::{
        Action, AnnotationChange, DeploymentPatch, Event, Orphan, Snapshot, StatusWrite, plan,
        release,
    },
};

use crate::{
    checks, describe,
    native::{Deployment, ReplicaSet, sync_deployment, sync_replica_set},
    status_checks,
    world::{Checked, Gray, NAME, World, hash, replica_set, rollout, target, time},
};

/// One operator process.
#[derive(Debug, Clone, Default)]
pub struct Operator {
    gray: Option<Gray>,
    deployment: Option<Deployment>,
    sets: Vec<ReplicaSet>,
    /// Since when a status that may wait a moment waits.
    soon_since: Option<i64>,
}

/// What is watched, each by a watch of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Gray,
    Deployment,
    Sets,
}

pub const KINDS: [Kind; 3] = [Kind::Gray, Kind::Deployment, Kind::Sets];

/// What befalls one pass.
#[derive(Debug, Clone, Copy, Default)]
pub struct Mishap {
    /// The process ends right after so many writes.
    pub crash_after: Option<u32>,
    /// The native controllers act after each write.
    pub native_between: bool,
}

/// How a pass ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Done,
    Conflict,
    Crashed,
}

/// What a pass did.
#[derive(Debug)]
pub struct Outcome {
    pub end: End,
    pub writes: u32,
    /// Whether there was anything to write at all.
    pub idle: bool,
    pub requeue_after: Option<Duration>,
}

/// A status that may wait is written after so long.
const SOON_MS: i64 = 1000;

struct Pass<'a> {
    world: &'a mut World,
    mishap: Mishap,
    writes: u32,
}

impl Operator {
    /// Brings one kind of the cache up to date.
    pub fn observe(&mut self, world: &World, kind: Kind) {
        match kind {
            Kind::Gray => self.gray.clone_from(&world.gray),
            Kind::Deployment => self.deployment.clone_from(&world.cluster.deployment),
            Kind::Sets => self.sets.clone_from(&world.cluster.replica_sets),
        }
    }

    pub fn observe_all(&mut self, world: &World) {
        for kind in KINDS {
            self.observe(world, kind);
        }
    }

    /// Whether the cache is what there is.
    pub fn is_current(&self, world: &World) -> bool {
        self.gray == world.gray
            && self.deployment == world.cluster.deployment
            && self.sets == world.cluster.replica_sets
    }

    pub fn snapshot(&self, now: i64) -> Option<Snapshot> {
        let gray = self.gray.as_ref()?;
        Some(Snapshot {
            now: time(now),
            rollout: rollout(gray),
            target: self.deployment.as_ref().map(target),
            replica_sets: self.controlled(),
            older_twin: None,
        })
    }

    fn controlled(&self) -> Vec<grayrollout::plan::ReplicaSet> {
        let uid = self.deployment.as_ref().map(|deployment| &deployment.uid);
        self.sets.iter().filter(|set| Some(&set.owner_uid) == uid).map(replica_set).collect()
    }

    fn orphan(&self, now: i64) -> Option<Orphan> {
        let deployment = self.deployment.as_ref()?;
        let target = target(deployment);
        target.original.as_ref()?;
        Some(Orphan { now: time(now), target, replica_sets: self.controlled() })
    }

    /// One pass on what the cache holds.
    pub fn pass(&mut self, world: &mut World, mishap: Mishap) -> Checked<Outcome> {
        let now = world.cluster.now;
        let outcome = if let Some(snapshot) = self.snapshot(now) {
            self.planned(world, &snapshot, mishap)?
        } else if let Some(orphan) = self.orphan(now) {
            let plan = release(&orphan);
            checks::release(&orphan, &plan)?;
            let mut pass = Pass::new(world, mishap);
            let end = pass.actions(self, &plan.actions);
            if end == End::Done {
                pass.events(&plan.events);
            }
            Outcome {
                end,
                writes: pass.writes,
                idle: plan.actions.is_empty(),
                requeue_after: plan.requeue_after,
            }
        } else {
            Outcome { end: End::Done, writes: 0, idle: true, requeue_after: None }
        };
        if outcome.end == End::Crashed {
            world.say("operator: crashes");
            *self = Self::default();
            self.observe_all(world);
        }
        Ok(outcome)
    }

    fn planned(
        &mut self,
        world: &mut World,
        snapshot: &Snapshot,
        mishap: Mishap,
    ) -> Checked<Outcome> {
        let plan = plan(snapshot);
        let fail = |e: String| {
            let (seen, answer) = (describe::snapshot(snapshot), describe::plan(&plan));
            format!("{e}\nseen:\n{seen}answered:\n{answer}")
        };
        checks::plan(snapshot, &plan).map_err(fail)?;
        status_checks::transition(snapshot, &plan).map_err(fail)?;
        if self.gray == world.gray && self.deployment == world.cluster.deployment {
            status_checks::forget_deleted(world);
            status_checks::known(world, snapshot, &plan).map_err(fail)?;
        }
        checks::idempotent(snapshot, &plan).map_err(fail)?;
        // What someone else unpaused a moment ago may take a few passes to be put right.
        let paused = snapshot.target.as_ref().is_none_or(|target| target.paused);
        let calm = paused && self.is_current(world) && checks::native_is_settled(world);
        let mut requeue_after = plan.requeue_after;
        let mut write = plan.write;
        if write == StatusWrite::Soon {
            let since = *self.soon_since.get_or_insert(world.cluster.now);
            let left = since + SOON_MS - world.cluster.now;
            if let Ok(left @ 1..) = u64::try_from(left) {
                write = StatusWrite::None;
                let left = Duration::from_millis(left);
                requeue_after = Some(requeue_after.map_or(left, |after| after.min(left)));
            }
        }
        if write != StatusWrite::None {
            self.soon_since = None;
        }
        let mut pass = Pass::new(world, mishap);
        let mut end = End::Done;
        if write == StatusWrite::First {
            end = pass.status(self, &plan.status, &plan.recorded);
        }
        if end == End::Done {
            end = pass.actions(self, &plan.actions);
        }
        if end == End::Done {
            pass.events(&plan.acted);
            if matches!(write, StatusWrite::Now | StatusWrite::Soon) {
                end = pass.status(self, &plan.status, &plan.recorded);
            }
        }
        let writes = pass.writes;
        if end == End::Done && calm && !mishap.native_between {
            checks::native_stays_put(world).map_err(fail)?;
        }
        Ok(Outcome {
            end,
            writes,
            idle: plan.actions.is_empty() && plan.write == StatusWrite::None,
            requeue_after,
        })
    }
}

impl<'a> Pass<'a> {
    fn new(world: &'a mut World, mishap: Mishap) -> Self {
        Self { world, mishap, writes: 0 }
    }

    fn events(&mut self, events: &[Event]) {
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

    fn status(
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

    fn actions(&mut self, operator: &mut Operator, actions: &[Action]) -> End {
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
