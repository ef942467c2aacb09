//! The operator under test: a cache that may lag, the real plan, and writes with preconditions.

use std::{collections::BTreeMap, time::Duration};

use grayrollout::plan::{Admission, Answer, Call, Orphan, Snapshot, StatusWrite, release};

use crate::{
    apply::Pass,
    checks, describe,
    guards::{self, Guard},
    native::{Deployment, ReplicaSet},
    rest_checks, status_checks,
    world::{Checked, Gray, World, replica_set, rollout, target, time},
};

/// One operator process.
#[derive(Debug, Clone, Default)]
pub struct Operator {
    pub gray: Option<Gray>,
    pub deployment: Option<Deployment>,
    sets: Vec<ReplicaSet>,
    /// Whether it has seen the admission policies work.
    policed: bool,
    /// Since when a status that may wait a moment waits.
    soon_since: Option<i64>,
    /// Calls to the world outside, and when they are answered.
    calls: BTreeMap<String, (i64, Answer)>,
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
    /// Another writer changes every object after so many writes.
    pub conflict_after: Option<u32>,
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
    pub requeue_after: Option<Duration>,
}

/// A status that may wait is written after so long.
const SOON_MS: i64 = 1000;

impl Operator {
    /// Brings one kind of the cache up to date.
    pub fn observe(&mut self, world: &World, kind: Kind) {
        self.policed = world.policed;
        match kind {
            Kind::Gray => self.gray.clone_from(&world.gray),
            Kind::Deployment => self.deployment.clone_from(&world.cluster.deployment),
            Kind::Sets => self.sets.clone_from(&world.cluster.replica_sets),
        }
    }

    /// The ReplicaSets as last seen.
    pub fn sets(&self) -> &[ReplicaSet] {
        &self.sets
    }

    /// Since when a status that may wait a moment waits.
    pub fn soon_since(&self) -> Option<i64> {
        self.soon_since
    }

    /// Sees one ReplicaSet as it is now.
    pub fn observe_set(&mut self, world: &World, name: &str) {
        let now = world.cluster.replica_sets.iter().find(|set| set.name == name);
        match (self.sets.iter().position(|set| set.name == name), now) {
            (Some(at), Some(now)) => self.sets[at].clone_from(now),
            (Some(at), None) => {
                self.sets.remove(at);
            }
            (None, now) => self.sets.extend(now.cloned()),
        }
    }

    pub fn observe_all(&mut self, world: &World) {
        for kind in KINDS {
            self.observe(world, kind);
        }
    }

    /// Whether the cache is what there is.
    pub fn is_current(&self, world: &World) -> bool {
        self.policed == world.policed
            && self.gray == world.gray
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
            begun: self.calls.keys().cloned().collect(),
            answers: self
                .calls
                .values()
                .filter(|(at, _)| *at <= now)
                .map(|(_, answer)| answer.clone())
                .collect(),
            admission: if self.policed {
                Admission::Holds { flaw: None }
            } else {
                Admission::Absent("nothing is installed".into())
            },
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
        // The real one, too, looks for the stable ReplicaSet that a status speaks of.
        let stable = self.gray.as_ref().and_then(|gray| gray.status.stable.clone());
        if let Some(name) = stable.and_then(|stable| stable.replica_set)
            && !self.sets.iter().any(|set| set.name == name)
            && world.without != Some(Guard::Look)
        {
            self.observe_set(world, &name);
        }
        let outcome = if let Some(snapshot) = self.snapshot(now) {
            self.planned(world, &snapshot, mishap)?
        } else if let Some(orphan) = self.orphan(now) {
            let plan = release(&orphan);
            checks::release(&orphan, &plan)?;
            let mut pass = Pass::new(world, mishap);
            let end = pass.actions(self, &plan.actions)?;
            if end == End::Done {
                pass.events(&plan.events);
            }
            Outcome { end, writes: pass.writes, requeue_after: plan.requeue_after }
        } else {
            Outcome { end: End::Done, writes: 0, requeue_after: None }
        };
        if outcome.end == End::Crashed {
            world.say("operator: crashes");
            *self = Self::default();
            self.observe_all(world);
        }
        Ok(outcome)
    }

    /// Makes the calls that are wanted and not under way, and forgets all others; how long until
    /// the next answer.
    fn outside(&mut self, world: &mut World, calls: &[Call]) -> Option<Duration> {
        let now = world.cluster.now;
        self.calls.retain(|id, _| calls.iter().any(|call| call.id == *id));
        for call in calls {
            if !self.calls.contains_key(&call.id) {
                let outcome = world.call(call);
                let late = now + world.endpoint.latency_ms;
                let (begun, ended) = (time(now), time(late));
                let answer = Answer { id: call.id.clone(), begun, ended, outcome };
                self.calls.insert(call.id.clone(), (late, answer));
            }
        }
        let next = self.calls.values().map(|(at, _)| *at).filter(|at| *at > now).min()?;
        u64::try_from(next - now).ok().map(Duration::from_millis)
    }

    fn planned(
        &mut self,
        world: &mut World,
        snapshot: &Snapshot,
        mishap: Mishap,
    ) -> Checked<Outcome> {
        let plan = guards::planned(world.without, snapshot);
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
        rest_checks::idempotent(snapshot, &plan).map_err(fail)?;
        // What someone else unpaused a moment ago may take a few passes to be put right.
        let paused = snapshot.target.as_ref().is_none_or(|target| target.paused);
        let calm = paused && self.is_current(world) && rest_checks::native_is_settled(world);
        let mut requeue_after = plan.requeue_after;
        if let Some(left) = self.outside(world, &plan.calls) {
            requeue_after = Some(requeue_after.map_or(left, |after| after.min(left)));
        }
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
        // Of two writes at once the actions come first here: the other way round is as with First.
        if write == StatusWrite::First {
            end = pass.status(self, &plan.status, &plan.recorded)?;
        }
        if end == End::Done {
            end = pass.actions(self, &plan.actions)?;
        }
        if end == End::Done {
            pass.events(&plan.acted);
            if matches!(write, StatusWrite::Now | StatusWrite::Soon | StatusWrite::Beside) {
                end = pass.status(self, &plan.status, &plan.recorded)?;
            }
        }
        let writes = pass.writes;
        if end == End::Done && calm && !mishap.native_between {
            rest_checks::native_stays_put(world).map_err(fail)?;
        }
        Ok(Outcome { end, writes, requeue_after })
    }
}
