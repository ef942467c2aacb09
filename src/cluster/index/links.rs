//! Who belongs to whom, and which decisions a change touches.

use std::{collections::HashMap, hash::Hash, time::Instant};

use super::{
    Indexed, State, Touched, WorkKey,
    store::{Change, Store},
    target_key,
};
use crate::{
    cluster::slim::{Deployments, ObjectKey, ReplicaSets, Rollouts},
    plan::{ReplicaSet, Rollout, Target},
};

/// The ways from one object to others.
#[derive(Default)]
pub(super) struct Links {
    /// GrayRollouts by their target.
    rollouts: Groups<ObjectKey>,
    /// ReplicaSets by the UID of the Deployment that controls them.
    replica_sets: Groups<Box<str>>,
    /// Deployments by UID.
    deployments: HashMap<Box<str>, ObjectKey>,
}

/// Most groups have one member, so lists serve better than sets.
struct Groups<G>(HashMap<G, Vec<ObjectKey>>);

impl<G> Default for Groups<G> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<G: Hash + Eq> Groups<G> {
    fn add(&mut self, group: G, key: &ObjectKey) {
        let members = self.0.entry(group).or_default();
        if !members.contains(key) {
            members.reserve_exact(1);
            members.push(key.clone());
        }
    }

    fn take(&mut self, group: &G, key: &ObjectKey) {
        if let Some(members) = self.0.get_mut(group) {
            members.retain(|member| member != key);
            if members.is_empty() {
                self.0.remove(group);
            }
        }
    }
}

impl Links {
    pub fn replica_sets_of(&self, uid: &str) -> impl Iterator<Item = &ObjectKey> {
        self.replica_sets.0.get(uid).into_iter().flatten()
    }

    pub fn rollouts_of(&self, target: &ObjectKey) -> impl Iterator<Item = &ObjectKey> {
        self.rollouts.0.get(target).into_iter().flatten()
    }
}

impl State {
    fn touch_target(&self, key: &ObjectKey, touched: &mut Touched) {
        touched.extend(self.links.rollouts_of(key).cloned().map(WorkKey::Rollout));
        if self.deployments.get(key).is_some_and(|t| self.is_orphan(t)) {
            touched.insert(WorkKey::Orphan(key.clone()));
        }
    }

    fn touch_owner(&self, uid: &str, touched: &mut Touched) {
        if let Some(key) = self.links.deployments.get(uid) {
            self.touch_target(key, touched);
        }
    }
}

impl Indexed for Rollouts {
    #[allow(private_interfaces)]
    fn store(state: &mut State) -> &mut Store<Self> {
        &mut state.rollouts
    }

    #[allow(private_interfaces)]
    fn link(state: &mut State, key: &ObjectKey, change: Change<Rollout>, touched: &mut Touched) {
        let before = match change {
            Change::None => return,
            Change::New { replaced } => replaced,
            Change::Updated { before } | Change::Removed { before } => Some(before),
        };
        let after = state.rollouts.get(key).cloned();
        let target = |rollout: &Option<Rollout>| rollout.as_ref().map(|r| target_key(key, r));
        let (old, new) = (target(&before), target(&after));
        let same = before.as_ref().map(|r| &r.uid) == after.as_ref().map(|r| &r.uid);
        if asks(before.as_ref()) != asks(after.as_ref()) && after.is_some() {
            state.approved.insert(key.clone(), Instant::now());
        }
        if after.is_none() {
            state.approved.remove(key);
            state.proofs.forget(key);
        }
        let asks_the_same = match (&before, &after) {
            (Some(before), Some(after)) => {
                before.spec == after.spec && before.made_for == after.made_for
            }
            _ => false,
        };
        if !same || old != new || !asks_the_same {
            for target in [Some(key), old.as_ref(), new.as_ref()].into_iter().flatten() {
                state.touch_adoption(target, touched);
            }
        }
        if same && old == new {
            let mut before = before;
            if let (Some(before), Some(after)) = (&mut before, &after) {
                before.resource_version.clone_from(&after.resource_version);
            }
            if before != after {
                touched.insert(WorkKey::Rollout(key.clone()));
            }
            return;
        }
        if let Some(old) = &old {
            state.links.rollouts.take(old, key);
        }
        if let Some(new) = &new {
            state.links.rollouts.add(new.clone(), key);
        }
        // Twins may have become the oldest, and a Deployment an orphan.
        touched.insert(WorkKey::Rollout(key.clone()));
        for target in [old, new].into_iter().flatten() {
            state.touch_target(&target, touched);
        }
    }
}

/// The approvals that people have written.
fn asks(rollout: Option<&Rollout>) -> [Option<(i64, i32)>; 2] {
    let status = rollout.and_then(|r| r.status.approval.as_ref());
    let spec = rollout.and_then(|r| r.spec.as_ref().ok()).and_then(|spec| spec.approval.as_ref());
    [
        status.map(|approval| (approval.rollout, approval.stage)),
        spec.map(|approval| (approval.rollout, approval.stage)),
    ]
}

impl Indexed for Deployments {
    #[allow(private_interfaces)]
    fn store(state: &mut State) -> &mut Store<Self> {
        &mut state.deployments
    }

    #[allow(private_interfaces)]
    fn link(state: &mut State, key: &ObjectKey, change: Change<Target>, touched: &mut Touched) {
        match change {
            Change::None => return,
            Change::Updated { mut before } => {
                let Some(after) = state.deployments.get(key) else {
                    return;
                };
                before.resource_version.clone_from(&after.resource_version);
                if before == *after {
                    return;
                }
            }
            Change::New { replaced } => {
                if let Some(before) = replaced {
                    state.links.deployments.remove(before.uid.as_str());
                }
                if let Some(after) = state.deployments.get(key) {
                    let uid = after.uid.as_str().into();
                    state.links.deployments.insert(uid, key.clone());
                }
            }
            Change::Removed { before } => {
                state.links.deployments.remove(before.uid.as_str());
            }
        }
        state.touch_target(key, touched);
    }
}

impl Indexed for ReplicaSets {
    #[allow(private_interfaces)]
    fn store(state: &mut State) -> &mut Store<Self> {
        &mut state.replica_sets
    }

    #[allow(private_interfaces)]
    fn link(state: &mut State, key: &ObjectKey, change: Change<ReplicaSet>, touched: &mut Touched) {
        let mut before = match change {
            Change::None => return,
            Change::New { replaced } => replaced,
            Change::Updated { before } | Change::Removed { before } => Some(before),
        };
        let after = state.replica_sets.get(key);
        if let (Some(before), Some(after)) = (&mut before, after) {
            before.resource_version.clone_from(&after.resource_version);
            if before == after {
                return;
            }
        }
        let old = before.map(|rs| rs.owner_uid);
        let new = after.map(|rs| rs.owner_uid.clone());
        if old != new {
            if let Some(old) = &old {
                state.links.replica_sets.take(&old.as_str().into(), key);
            }
            if let Some(new) = &new {
                state.links.replica_sets.add(new.as_str().into(), key);
            }
        }
        for uid in [old, new].into_iter().flatten() {
            state.touch_owner(&uid, touched);
        }
    }
}
