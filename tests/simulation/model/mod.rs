//! Model checking: within bounds every order in which two operators, the native controllers, the
//! kubelet, people, an HPA and GitOps can act, with crashes, conflicts and stale reads in between.
//!
//! `MODEL_STATES` says how many steps each model is followed.

mod view;

use std::{
    hash::{Hash, Hasher},
    time::Instant,
};

use grayrollout::{api::Phase, plan::Strategy};
use stateright::{Checker, Model, Property};

use crate::{
    actors::Act,
    fair::Sim,
    histories::finish,
    operator::{KINDS, Mishap},
    world::{Checked, Setup, World},
};

const SAFETY: &str = "S1 to S17";
const LIVENESS: &str = "L1 to L7";

/// How often each thing may still happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Left {
    /// Things that people, the HPA and GitOps do.
    acts: u8,
    crashes: u8,
    conflicts: u8,
    /// Reads that lag behind, of either operator or of the Deployment controller.
    stale: u8,
    /// Passes of the second operator.
    other: u8,
}

/// What a model begins with, and who may do what.
#[derive(Debug, Clone)]
struct Bounds {
    setup: Setup,
    acts: Vec<Act>,
    left: Left,
    /// One of so many states is also run on to its end.
    ends_every: u64,
}

#[derive(Debug, Clone)]
struct State {
    sim: Sim,
    left: Left,
    /// The watches of each operator that stand still.
    frozen: [[bool; 3]; 2],
    /// What was violated on the way here.
    wrong: Option<String>,
    view: String,
}

impl PartialEq for State {
    fn eq(&self, other: &Self) -> bool {
        (self.left, self.frozen) == (other.left, other.frozen)
            && self.wrong == other.wrong
            && self.view == other.view
    }
}

impl Hash for State {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.left.hash(state);
        self.frozen.hash(state);
        self.wrong.hash(state);
        self.view.hash(state);
    }
}

#[derive(Debug, Clone, PartialEq)]
enum Move {
    Act(Act),
    Native,
    NativeStale,
    ReplicaSets,
    /// The starting pods of a ReplicaSet get ready.
    Ready(String),
    /// Terminating pods are gone.
    Gone,
    /// An operator's watch of a kind stands still.
    Freeze(usize, usize),
    /// It goes on.
    Thaw(usize, usize),
    /// An operator plans on what it sees, and writes.
    Pass(usize),
    /// The same, the native controllers acting after each write.
    PassSlowly(usize),
    /// The same, ending after so many writes.
    Crash(u32),
    /// The same, another writer changing every object after so many writes.
    Conflict(u32),
    /// A second goes by.
    Tick,
}

impl Bounds {
    fn state(
        &self,
        mut sim: Sim,
        left: Left,
        frozen: [[bool; 3]; 2],
        wrong: Option<String>,
    ) -> State {
        sim.world.log.clear();
        sim.world.cluster.log.clear();
        // A watch that goes on has seen what there is by the time of the next plan.
        let operators = 1 + usize::from(self.left.other > 0);
        for (which, frozen) in frozen.iter().enumerate().take(operators) {
            for (kind, frozen) in KINDS.into_iter().zip(frozen) {
                if !frozen {
                    sim.observe(which, kind);
                }
            }
        }
        let view = view::view(&sim, operators, left.stale > 0);
        State { sim, left, frozen, wrong, view }
    }

    fn go(sim: &mut Sim, step: &Move) -> Checked {
        let cluster = &mut sim.world.cluster;
        match step {
            Move::Freeze(..) | Move::Thaw(..) => {}
            Move::Act(act) => sim.act(act),
            Move::Native => return sim.native().map(|_| ()),
            Move::NativeStale => return sim.native_stale().map(|_| ()),
            Move::ReplicaSets => {
                sim.replica_sets();
            }
            Move::Ready(uid) => {
                let pods = cluster.pods.iter_mut().filter(|pod| pod.owner == *uid);
                for pod in pods.filter(|pod| pod.ready_at.is_some()) {
                    (pod.ready, pod.ready_at) = (true, None);
                }
            }
            Move::Gone => cluster.pods.retain(|pod| pod.gone_at.is_none()),
            Move::Pass(which) => return sim.pass(*which, Mishap::default()),
            Move::PassSlowly(which) => {
                return sim.pass(*which, Mishap { native_between: true, ..Mishap::default() });
            }
            Move::Crash(after) => {
                return sim.pass(0, Mishap { crash_after: Some(*after), ..Mishap::default() });
            }
            Move::Conflict(after) => {
                return sim.pass(0, Mishap { conflict_after: Some(*after), ..Mishap::default() });
            }
            Move::Tick => cluster.now += 1000,
        }
        Ok(())
    }
}

impl Model for Bounds {
    type State = State;
    type Action = Move;

    fn init_states(&self) -> Vec<State> {
        vec![self.state(Sim::new(&self.setup), self.left, [[false; 3]; 2], None)]
    }

    fn actions(&self, state: &State, moves: &mut Vec<Move>) {
        if state.wrong.is_some() {
            return;
        }
        let (world, left) = (&state.sim.world, state.left);
        if left.acts > 0 {
            moves.extend(self.acts.iter().cloned().map(Move::Act));
        }
        moves.extend([Move::Native, Move::ReplicaSets, Move::Tick]);
        let sets = world.cluster.replica_sets.iter();
        moves.extend(sets.map(|set| Move::Ready(set.uid.clone())));
        if world.cluster.pods.iter().any(|pod| pod.gone_at.is_some()) {
            moves.push(Move::Gone);
        }
        let operators = 1 + usize::from(left.other > 0);
        for (which, watches) in state.frozen.iter().enumerate().take(operators) {
            for (kind, frozen) in watches.iter().enumerate() {
                if *frozen {
                    moves.push(Move::Thaw(which, kind));
                } else if left.stale > 0 {
                    moves.push(Move::Freeze(which, kind));
                }
            }
            moves.extend([Move::Pass(which), Move::PassSlowly(which)]);
        }
        if left.stale > 0 {
            moves.push(Move::NativeStale);
        }
        if left.crashes > 0 {
            moves.extend([1, 2, 3].map(Move::Crash));
        }
        if left.conflicts > 0 {
            moves.extend([0, 1, 2].map(Move::Conflict));
        }
    }

    fn next_state(&self, last: &State, step: Move) -> Option<State> {
        let (mut sim, mut left, mut frozen) = (last.sim.clone(), last.left, last.frozen);
        match step {
            Move::Freeze(which, kind) => {
                left.stale -= 1;
                frozen[which][kind] = true;
            }
            Move::Thaw(which, kind) => frozen[which][kind] = false,
            Move::NativeStale => left.stale -= 1,
            Move::Act(_) => left.acts -= 1,
            Move::Conflict(_) => left.conflicts -= 1,
            Move::Pass(1) | Move::PassSlowly(1) => left.other -= 1,
            Move::Crash(_) => {
                left.crashes -= 1;
                frozen[0] = [false; 3];
            }
            _ => {}
        }
        let wrong = Self::go(&mut sim, &step).err();
        let next = self.state(sim, left, frozen, wrong);
        // What changes nothing costs nothing.
        let changed = next.view != last.view || next.frozen != last.frozen;
        (changed || next.wrong.is_some()).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(SAFETY, |_, state: &State| state.wrong.is_none()),
            Property::always(LIVENESS, |bounds: &Self, state: &State| {
                ends_well(bounds, state).is_ok()
            }),
            Property::sometimes("a rollout completes", |_, state: &State| {
                completed(&state.sim.world, 2)
            }),
            Property::sometimes("a stage is held", |bounds: &Self, state: &State| {
                let status = state.sim.world.status();
                // A single pod of each is kept in the moving form.
                let form = bounds.setup.replicas == 1
                    || state.sim.world.deployment().strategy != Strategy::Recreate;
                status.phase == Some(Phase::AwaitingApproval) && status.stage > Some(0) && form
            }),
            Property::sometimes("old and new pods at once", |_, state: &State| {
                state.sim.world.ready(1) > 0 && state.sim.world.ready(2) > 0
            }),
            Property::sometimes("an operator is behind", |bounds: &Self, state: &State| {
                bounds.left.stale == 0 || !state.sim.operators[0].is_current(&state.sim.world)
            }),
        ]
    }
}

fn completed(world: &World, template: u32) -> bool {
    let status = world.status();
    let hash = crate::world::hash(template).to_string();
    status.phase == Some(Phase::Completed) && status.template_hash == Some(hash)
}

/// From here, run fairly and without faults, it ends well.
fn ends_well(bounds: &Bounds, state: &State) -> Checked {
    let mut hasher = std::hash::DefaultHasher::new();
    state.hash(&mut hasher);
    if state.wrong.is_some() || !hasher.finish().is_multiple_of(bounds.ends_every) {
        return Ok(());
    }
    let mut sim = state.sim.clone();
    finish(&mut sim)
}

/// Looks at every state, or at so many. Returns whether it was every one.
fn check(name: &str, bounds: &Bounds, most: usize) -> bool {
    let began = Instant::now();
    let checker = bounds.clone().checker().threads(2).target_state_count(most).spawn_bfs().join();
    let all = checker.state_count() < most;
    println!(
        "{name}: {} steps to {} different states, {} deep, {} in {:.0} s",
        checker.state_count(),
        checker.unique_state_count(),
        checker.max_depth(),
        if all { "all there are" } else { "the first of them" },
        began.elapsed().as_secs_f64(),
    );
    for property in [SAFETY, LIVENESS] {
        let Some(path) = checker.discovery(property) else {
            continue;
        };
        let last = path.last_state().clone();
        let why = last.wrong.clone().or_else(|| ends_well(bounds, &last).err());
        let steps: Vec<_> = path.into_actions().iter().map(|step| format!("{step:?}")).collect();
        panic!("{name}, {property}: {}\nafter\n{}", why.unwrap_or_default(), steps.join("\n"));
    }
    if all {
        checker.assert_properties();
    }
    all
}

fn setup(replicas: i32, surge: &str, unavailable: &str) -> Setup {
    let mut setup = Setup::new(&[50, 100]).replicas(replicas).surge(surge, unavailable);
    (setup.start_ms, setup.stop_ms) = (0, 0);
    setup.spec.progress_deadline_seconds = Some(i32::MAX);
    setup
}

const NOTHING: Left = Left { acts: 0, crashes: 0, conflicts: 0, stale: 0, other: 0 };

/// Two pods with room for a third, one rollout, and what else may happen.
fn rollout(left: Left) -> Bounds {
    Bounds {
        setup: setup(2, "1", "0"),
        acts: vec![Act::Template(2), Act::ApproveNext],
        left: Left { acts: 2, ..left },
        ends_every: 50,
    }
}

/// The same with other acts, so many of them.
fn with(acts: u8, others: &[Act]) -> Bounds {
    let mut bounds = rollout(NOTHING);
    bounds.acts.extend_from_slice(others);
    bounds.left.acts = acts;
    bounds
}

fn models() -> Vec<(&'static str, Bounds)> {
    let people = [Act::Template(3), Act::Template(1), Act::Abort, Act::Retry];
    let hpa = [0, 1, 3, 4].map(Act::Replicas);
    let git = [Act::GitOps, Act::Resume];
    let mut no_surge = rollout(Left { crashes: 1, ..NOTHING });
    no_surge.setup = setup(2, "0", "1");
    let everything: Vec<Act> = people.iter().chain(&hpa).chain(&git).cloned().collect();
    let mut all = with(5, &everything);
    all.setup = setup(4, "25%", "25%");
    all.left = Left { acts: 5, crashes: 2, conflicts: 2, stale: 2, other: 2 };
    vec![
        ("two crashes", rollout(Left { crashes: 2, ..NOTHING })),
        ("two conflicts", rollout(Left { conflicts: 2, ..NOTHING })),
        ("two reads that lag", rollout(Left { stale: 2, ..NOTHING })),
        ("a second operator that lags", rollout(Left { stale: 1, other: 2, ..NOTHING })),
        ("no surge and a crash", no_surge),
        ("three templates and an abort", with(3, &people)),
        ("an HPA", with(3, &hpa)),
        ("GitOps", with(3, &git)),
        ("all at once, four pods", all),
    ]
}

/// The smallest model, to its end.
#[test]
fn a_rollout_of_one_pod_in_every_order() {
    let mut bounds = rollout(NOTHING);
    bounds.setup = setup(1, "1", "0");
    assert!(check("a rollout of one pod", &bounds, usize::MAX), "every state was looked at");
}

#[test]
fn faults_and_people_in_every_order() {
    let given = std::env::var("MODEL_STATES").ok().and_then(|text| text.parse().ok());
    for (name, bounds) in models() {
        check(name, &bounds, given.unwrap_or(10_000));
    }
}
