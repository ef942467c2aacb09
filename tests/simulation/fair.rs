//! Running the cluster: everyone gets their turn, the clock jumps to the next thing that happens.

use grayrollout::{
    api::{GrayRolloutSpec, HookEvent, Phase, ROLLOUT_ANNOTATION},
    plan::Strategy,
};

use crate::{
    actors::{Act, act},
    checks::{Budget, budget, cap, ensure, own_strategy},
    guards::{Guard, native_follows},
    native::{self, kubelet, next_pod_event, sync_deployment, sync_replica_set},
    operator::{End, Kind, Mishap, Operator},
    world::{Checked, Setup, World, replica_set, target},
};

/// How long one round of everyone acting takes.
const ROUND_MS: i64 = 10;
/// Another writer's fault is to be put right within this time.
const DRIFT_MS: i64 = 2000;
/// The operator looks again after this time though nothing happened.
const RESYNC_MS: i64 = 600_000;

/// A simulated cluster with one operator, and a second one where a test asks for it.
#[derive(Debug, Clone)]
pub struct Sim {
    pub world: World,
    pub operators: [Operator; 2],
    /// Whether the operator runs.
    pub up: bool,
    /// Pods and sizes are held to the budget at every moment, not only at our writes.
    pub strict: bool,
    /// Other writers bump every object's version on each such round.
    pub busy_every: Option<u64>,
    rounds: u64,
    next_pass: Option<i64>,
    last_pass: i64,
    faulty_since: Option<(i64, String)>,
    order: u64,
    /// The Deployment as the native controller saw it last.
    native_saw: Option<native::Deployment>,
}

impl Sim {
    /// A Deployment with all its pods available, its GrayRollout Completed.
    pub fn new(setup: &Setup) -> Self {
        let mut sim = Self::without_rollout(setup);
        sim.world.create_gray(setup.spec.clone());
        let start = sim.fair(3000);
        sim.tell(start);
        // A process plans once every watch has listed.
        sim.operators[1].observe_all(&sim.world);
        sim.world.writes = crate::world::Writes::default();
        sim
    }

    /// The same without a GrayRollout.
    pub fn without_rollout(setup: &Setup) -> Self {
        let mut sim = Self {
            world: World::new(setup),
            operators: <[Operator; 2]>::default(),
            up: true,
            strict: false,
            busy_every: None,
            rounds: 0,
            next_pass: None,
            last_pass: 0,
            faulty_since: None,
            order: 1,
            native_saw: None,
        };
        let start = sim.fair(setup.start_ms + 3000);
        sim.tell(start);
        sim
    }

    /// Lets someone do something.
    pub fn act(&mut self, what: &Act) {
        act(&mut self.world, what);
        self.faulty_since = None;
    }

    /// Runs everyone for so many milliseconds.
    pub fn fair(&mut self, ms: i64) -> Checked {
        let end = self.world.cluster.now + ms;
        self.run(end, &|_| false).map(|_| ())
    }

    /// Runs everyone until something holds; fails after so many milliseconds.
    pub fn until(&mut self, ms: i64, what: &str, goal: impl Fn(&World) -> bool) -> Checked {
        let end = self.world.cluster.now + ms;
        let reached = self.run(end, &goal)?;
        ensure(reached, || format!("not within {ms} ms: {what}; {}", self.world.summary()))
    }

    fn run(&mut self, end: i64, goal: &dyn Fn(&World) -> bool) -> Checked<bool> {
        let mut busy = 0_u32;
        self.faulty_since = None;
        loop {
            if goal(&self.world) {
                return Ok(true);
            }
            let active = self.round()?;
            self.watch()?;
            let now = self.world.cluster.now;
            if now >= end {
                return Ok(goal(&self.world));
            }
            let next = if active {
                busy += 1;
                now + ROUND_MS
            } else {
                busy = 0;
                self.next_event(now).min(end).max(now + 1)
            };
            // A minute without a quiet moment is a hot loop.
            ensure(busy < 6000 || self.busy_every.is_some(), || {
                format!("S18: never comes to rest: {}", self.world.summary())
            })?;
            self.world.cluster.now = next;
        }
    }

    fn next_event(&self, now: i64) -> i64 {
        let mut next = next_pod_event(&self.world.cluster).unwrap_or(i64::MAX);
        if self.up {
            next = next.min(self.next_pass.unwrap_or(i64::MAX));
            next = next.min(self.last_pass + RESYNC_MS);
        }
        if let Some((since, _)) = &self.faulty_since {
            next = next.min(since + DRIFT_MS + 1);
        }
        if self.busy_every.is_some() {
            next = next.min(now + ROUND_MS);
        }
        next
    }

    /// One turn of everyone, in an order that varies. Returns whether anything happened.
    fn round(&mut self) -> Checked<bool> {
        self.rounds += 1;
        self.order = self.order.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040);
        let mut turns = [0, 1, 2, 3];
        turns.rotate_left(usize::try_from((self.order >> 33) % 4).unwrap_or(0));
        if let Some(every) = self.busy_every
            && self.rounds.is_multiple_of(every)
        {
            self.world.bump_versions();
        }
        let mut active = false;
        for turn in turns {
            active |= match turn {
                0 => kubelet(&mut self.world.cluster),
                1 => self.replica_sets(),
                2 => self.native()?,
                _ => self.up && self.operate(self.world.leader.unwrap_or(0))?,
            };
        }
        Ok(active)
    }

    pub fn replica_sets(&mut self) -> bool {
        let cluster = &mut self.world.cluster;
        let uids: Vec<_> = cluster.replica_sets.iter().map(|set| set.uid.clone()).collect();
        let mut active = false;
        for uid in uids {
            active |= sync_replica_set(cluster, &uid);
        }
        active
    }

    pub fn native(&mut self) -> Checked<bool> {
        let Some(seen) = self.world.cluster.deployment.clone() else {
            return Ok(false);
        };
        self.native_saw = Some(seen.clone());
        self.native_on(&seen)
    }

    /// The native controller acts before it sees what changed last.
    pub fn native_stale(&mut self) -> Checked<bool> {
        let exists = self.world.cluster.deployment.as_ref().map(|deployment| &deployment.uid);
        match self.native_saw.clone().filter(|seen| Some(&seen.uid) == exists) {
            Some(seen) => self.native_on(&seen),
            None => Ok(false),
        }
    }

    /// The Deployment as the native controller saw it last.
    pub fn native_saw(&self) -> Option<&native::Deployment> {
        self.native_saw.as_ref()
    }

    fn native_on(&mut self, seen: &native::Deployment) -> Checked<bool> {
        let before = self.world.undisturbed.then(|| self.world.cluster.clone());
        let wrote = sync_deployment(&mut self.world.cluster, seen);
        match before {
            Some(before) => native_follows(&self.world, &before).map(|()| wrote),
            None => Ok(wrote),
        }
    }

    /// The lease goes to an operator whose watches have listed anew.
    pub fn lead(&mut self, index: usize) {
        self.world.leader = Some(index);
        self.operators[index].observe_all(&self.world);
    }

    /// Time goes on for pods alone.
    pub fn pods(&mut self, ms: i64) {
        self.world.cluster.now += ms;
        kubelet(&mut self.world.cluster);
        self.replica_sets();
    }

    /// The first operator plans if anything changed since, or its time has come.
    fn operate(&mut self, index: usize) -> Checked<bool> {
        let now = self.world.cluster.now;
        let due = self.next_pass.is_some_and(|at| at <= now) || now - self.last_pass >= RESYNC_MS;
        let operator = &mut self.operators[index];
        if operator.is_current(&self.world) && !due {
            return Ok(false);
        }
        operator.observe_all(&self.world);
        let outcome = operator.pass(&mut self.world, Mishap::default())?;
        self.last_pass = now;
        let after = outcome.requeue_after.and_then(|after| i64::try_from(after.as_millis()).ok());
        self.next_pass = match outcome.end {
            // Its own writes come back as events.
            End::Done if outcome.writes > 0 => Some(now + ROUND_MS),
            End::Done => after.map(|after| now + after),
            End::Conflict | End::Crashed => Some(now + 50),
        };
        if outcome.end == End::Conflict {
            self.operators[index].observe_all(&self.world);
        }
        Ok(outcome.writes > 0)
    }

    /// One watch of an operator catches up; what it saw is planned for in the next fair round.
    pub fn observe(&mut self, index: usize, kind: Kind) {
        self.operators[index].observe(&self.world, kind);
        self.next_pass = Some(self.world.cluster.now);
    }

    /// One pass of an operator on what it has seen so far.
    pub fn pass(&mut self, index: usize, mishap: Mishap) -> Checked {
        let leads = self.world.leader.is_none_or(|leader| leader == index);
        if !leads && self.world.without != Some(Guard::Lease) {
            return Ok(());
        }
        self.operators[index].pass(&mut self.world, mishap)?;
        // Whatever it asked for is forgotten with its next sight of a change.
        self.next_pass = Some(self.world.cluster.now);
        Ok(())
    }

    /// S1 and S10 for what others do: put right within two seconds while the operator is up.
    fn watch(&mut self) -> Checked {
        if self.strict {
            self.pods_within_budget()?;
        }
        let now = self.world.cluster.now;
        let fault = if self.up { self.fault() } else { None };
        self.faulty_since = match (fault, self.faulty_since.take()) {
            (None, _) => None,
            (Some(what), Some((since, earlier))) if what == earlier => {
                ensure(now - since <= DRIFT_MS, || {
                    format!("not put right within 2 s: {what}; {}", self.world.summary())
                })?;
                Some((since, earlier))
            }
            (Some(what), _) => Some((now, what)),
        };
        Ok(())
    }

    fn budget(&self) -> Option<(Budget, &native::Deployment, &GrayRolloutSpec)> {
        let gray = self.world.gray.as_ref()?;
        let deployment = self.world.cluster.deployment.as_ref()?;
        let spec = gray.spec.as_ref().ok()?;
        let budget = budget(spec, own_strategy(&target(deployment)), deployment.replicas)?;
        Some((budget, deployment, spec))
    }

    /// What is wrong now and could be put right.
    fn fault(&self) -> Option<String> {
        let (budget, deployment, spec) = self.budget()?;
        let status = &self.world.gray.as_ref()?.status;
        let under_way =
            deployment.annotations.contains_key(ROLLOUT_ANNOTATION) || status.stage.is_some();
        if under_way && !deployment.paused {
            return Some("S10: unpaused in the middle of a rollout".into());
        }
        let owned = self.world.cluster.owned(deployment);
        let active = owned.iter().filter(|set| set.replicas > 0).count();
        if deployment.paused && active == 1 && status.phase == Some(Phase::RolledBack) {
            let own = own_strategy(&target(deployment)).clone();
            if deployment.strategy != own {
                return Some("RolledBack without the user's own strategy".into());
            }
        }
        let new = owned.iter().find(|set| set.template == deployment.template)?;
        let cap = cap(status, deployment.replicas, budget.surge, &replica_set(new));
        let available: i32 = owned.iter().map(|set| set.status.available.min(set.replicas)).sum();
        // Pods that are still going take the room that the stable revision needs.
        let waits = self.world.cluster.pods.iter().any(|pod| pod.gone_at.is_some());
        let waits = waits && spec.wait_for_termination;
        // Added pods that a hook has not taken note of count as not available.
        let mut steps = status.hook_ledger.iter().flat_map(|ledger| &ledger.steps);
        let waits = waits || steps.any(|step| step.event == HookEvent::PodsAdded);
        // Where no pod more may go, the stable revision must come up first.
        let spare = new.replicas > new.status.available
            || available > deployment.replicas - budget.unavailable;
        let template_recorded = status.template_hash.as_ref()
            == Some(&crate::world::hash(deployment.template).to_string());
        // With the stable revision lost capacity is left alone.
        let lost = !owned.iter().any(|set| Some(&set.hash) == status.stable_revision.as_ref());
        if new.replicas > cap && spare && template_recorded && !lost && !waits {
            return Some("S1: more new pods than the stage allows".into());
        }
        if !template_recorded && status.phase != Some(Phase::Stalled) {
            return Some("the template that the status speaks of is not the present one".into());
        }
        None
    }

    /// The budget at every moment of an undisturbed rollout, counted in pods.
    fn pods_within_budget(&self) -> Checked {
        let Some((Budget { surge, unavailable }, deployment, _)) = self.budget() else {
            return Ok(());
        };
        let pods = &self.world.cluster.pods;
        let pods: Vec<_> = pods.iter().filter(|pod| pod.gone_at.is_none()).collect();
        let total = i32::try_from(pods.len()).unwrap_or(i32::MAX);
        let ready = pods.iter().filter(|pod| pod.ready).count();
        let ready = i32::try_from(ready).unwrap_or(i32::MAX);
        let overlap = i32::from(surge == 0);
        let replicas = deployment.replicas;
        ensure(total <= replicas + surge + overlap, || {
            format!("S2: {total} pods of {replicas} + {surge}: {}", self.world.summary())
        })?;
        ensure(ready >= replicas - unavailable, || {
            format!("S3: {ready} available of {replicas} - {unavailable}: {}", self.world.summary())
        })?;
        ensure(!matches!(deployment.strategy, Strategy::Other), || "an odd strategy".into())
    }

    /// Fails with the story so far.
    pub fn tell<T>(&self, result: Checked<T>) -> T {
        result.unwrap_or_else(|why| {
            panic!("{why}\n\nwhat happened:\n{}\n", self.world.log.join("\n"))
        })
    }
}
