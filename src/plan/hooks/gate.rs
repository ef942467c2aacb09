//! Which sizes may be written now, and which wait until a hook has been called.

use super::{call_of, called_at, close, is_called, is_end, is_over, is_permission, new_step, told};
use crate::{
    api::{FailurePolicy, HookEvent, HookLedger, HookStep, ToldPods},
    plan::{
        ReplicaSet,
        course::{Course, Draft},
        drive::Sizes,
        facts::Facts,
        pace::{self, Resize, Role, Track},
    },
};

/// Steps at hand at once; more wait for their turn.
const MOST_STEPS: usize = 20;

/// What waits for a hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// What is waited for, in words.
    pub words: String,
    /// Whether it has failed, so that it may take long.
    pub failing: bool,
}

/// Brings the ledger up to date, and takes out of the batch what waits for a hook.
pub fn gate(facts: &Facts<'_>, draft: &mut Draft, sizes: &mut Sizes<'_>) {
    if facts.spec.hooks.is_empty() {
        return;
    }
    let moving = matches!(draft.course, Course::Forward | Course::Back);
    let back = draft.course == Course::Back;
    let Some(mut ledger) = draft.status.hook_ledger.take().or(moving.then(Box::default)) else {
        return;
    };
    if moving && Some(ledger.rollout) != draft.status.rollout {
        begin(facts, draft, &mut ledger);
    }
    drop_vain(facts, draft, &mut ledger);
    note_pods(facts, draft, &mut ledger);
    if moving {
        let mut gate = Gate { facts, draft, ledger: &mut ledger, back, wanted: Vec::new() };
        gate.stage();
        if gate.is_shut() {
            let mut batch = std::mem::take(&mut sizes.batch);
            batch.retain(|&(index, size)| !back && is_repair(sizes, index, size));
            sizes.batch = batch;
        }
        sizes.batch = gate.batch(sizes);
        let wanted = gate.wanted;
        ledger.steps.retain(|step| {
            let asked = wanted.iter().any(|wanted| *wanted == of(step));
            !is_permission(step) || asked || is_due(step, &sizes.tracks)
        });
        reached(facts, draft, &mut ledger);
    } else {
        ledger.steps.retain(|step| !is_permission(step));
    }
    close(facts.spec, &mut ledger, back);
    sizes.held = if moving { held(facts, draft, &ledger, back) } else { None };
    let blank = ledger.steps.is_empty() && ledger.told.iter().all(|told| told.pods == 0);
    draft.status.hook_ledger = (moving || !blank).then_some(ledger);
}

fn of(step: &HookStep) -> (HookEvent, String) {
    (step.event, step.revision.clone().unwrap_or_default())
}

/// A new number: pods that there are need no telling, and what ended before still does.
fn begin(facts: &Facts<'_>, draft: &Draft, ledger: &mut HookLedger) {
    let before = &facts.rollout.status;
    let number = draft.status.rollout.unwrap_or(0);
    // Hooks that come into the midst of a rollout are not told of what was before them.
    let joins = before.rollout == draft.status.rollout && before.stage.is_some();
    let stage = draft.status.stage.unwrap_or(0);
    let goes_on = before.stage.is_some() && ledger.rollout != 0;
    let told: Vec<_> = facts
        .replica_sets
        .iter()
        .filter_map(|rs| {
            let known = ledger.told.iter().find(|told| told.revision == rs.revision);
            let pods = match known {
                Some(known) if goes_on || rs.replicas <= 0 => known.pods,
                _ => rs.replicas.max(0),
            };
            (pods > 0).then(|| ToldPods { revision: rs.revision.clone(), pods })
        })
        .collect();
    let counts = [HookEvent::PodsAdded, HookEvent::PodsRemoved];
    *ledger = HookLedger {
        rollout: number,
        started: if joins { stage } else { 0 },
        reached: if joins && before.stage_reached_at.is_some() { stage } else { 0 },
        turned_back: joins && draft.course == Course::Back && ledger.rollout == 0,
        told: if counts.iter().any(|event| is_called(facts.spec, *event)) { told } else { vec![] },
        given_up: Vec::new(),
        steps: ledger.steps.drain(..).filter(is_end).collect(),
    };
}

/// Steps that have nothing to tell any more.
fn drop_vain(facts: &Facts<'_>, draft: &Draft, ledger: &mut HookLedger) {
    let (number, stage) = (draft.status.rollout.unwrap_or(0), draft.status.stage);
    let moving = matches!(draft.course, Course::Forward | Course::Back);
    let size = |step: &HookStep| {
        facts.of_revision(step.revision.as_deref()).map_or(0, |rs| rs.replicas.max(0))
    };
    // Whoever may have heard of pods is told once they are gone.
    let vain: Vec<_> = ledger
        .steps
        .iter()
        .filter(|step| step.event == HookEvent::PodsAdded)
        .filter(|step| !moving || size(step) <= step.from.unwrap_or(0))
        .cloned()
        .collect();
    for step in &vain {
        tell(ledger, step.revision.as_deref().unwrap_or_default(), step.to);
    }
    ledger.steps.retain(|step| {
        let present = step.rollout == number;
        is_called(facts.spec, step.event)
            && match step.event {
                HookEvent::StageStarting | HookEvent::StageReached => {
                    present && draft.course == Course::Forward && Some(step.stage) == stage
                }
                HookEvent::RollingBack => present && draft.course == Course::Back,
                HookEvent::PodsAdded => !vain.contains(step),
                HookEvent::PodsRemoved => size(step) < step.from.unwrap_or(0),
                _ => true,
            }
    });
}

/// Pods that became available and pods that are gone.
fn note_pods(facts: &Facts<'_>, draft: &Draft, ledger: &mut HookLedger) {
    let (added, removed) = (HookEvent::PodsAdded, HookEvent::PodsRemoved);
    if !is_called(facts.spec, added) && !is_called(facts.spec, removed) {
        ledger.told.clear();
        return;
    }
    let moving = matches!(draft.course, Course::Forward | Course::Back);
    for rs in facts.seen.iter().filter(|rs| !rs.deleting && rs.is_observed()) {
        let (before, size) = (told(ledger, &rs.revision), rs.replicas.max(0));
        let gone = rs.current <= size && rs.terminating <= 0;
        if rs.usable() > before && moving {
            note(facts, draft, ledger, (added, &rs.revision, rs.generation), (before, rs.usable()));
        } else if size < before && gone && (moving || size == 0) {
            note(facts, draft, ledger, (removed, &rs.revision, rs.generation), (before, size));
        }
    }
    let is_there = |revision: &str| facts.of_revision(Some(revision)).is_some();
    let vanished: Vec<_> =
        ledger.told.iter().filter(|told| !is_there(&told.revision)).cloned().collect();
    for ToldPods { revision, pods } in vanished {
        note(facts, draft, ledger, (removed, &revision, 0), (pods, 0));
    }
}

fn note(
    facts: &Facts<'_>,
    draft: &Draft,
    ledger: &mut HookLedger,
    (event, revision, generation): (HookEvent, &str, i64),
    (from, to): (i32, i32),
) {
    let tells = |step: &HookStep| {
        matches!(step.event, HookEvent::PodsAdded | HookEvent::PodsRemoved)
            && step.revision.as_deref() == Some(revision)
    };
    if ledger.steps.iter().any(tells) {
        return;
    }
    if !is_called(facts.spec, event) {
        tell(ledger, revision, Some(to));
        return;
    }
    let step = HookStep {
        revision: Some(revision.to_owned()),
        generation: Some(generation),
        from: Some(from),
        to: Some(to),
        ..step(facts, draft, event)
    };
    add(ledger, step);
}

/// Notes how many pods of a revision hooks know of.
pub fn tell(ledger: &mut HookLedger, revision: &str, pods: Option<i32>) {
    let pods = pods.unwrap_or(0);
    ledger.told.retain(|told| told.revision != revision);
    if pods > 0 {
        ledger.told.push(ToldPods { revision: revision.to_owned(), pods });
    }
}

fn step(facts: &Facts<'_>, draft: &Draft, event: HookEvent) -> HookStep {
    let status = &draft.status;
    new_step(facts, event, status.stage.unwrap_or(0), status.rollout.unwrap_or(0))
}

fn add(ledger: &mut HookLedger, step: HookStep) {
    if ledger.steps.len() < MOST_STEPS {
        ledger.steps.push(step);
    }
}

/// Every pod of the stage is available.
fn reached(facts: &Facts<'_>, draft: &Draft, ledger: &mut HookLedger) {
    let status = &draft.status;
    let stage = status.stage.unwrap_or(0);
    let due = draft.course == Course::Forward
        && stage > ledger.reached
        && status.split.is_none()
        && status.stage_reached_at.is_some()
        && is_called(facts.spec, HookEvent::StageReached)
        && (ledger.started >= stage || !is_called(facts.spec, HookEvent::StageStarting));
    if due && !ledger.steps.iter().any(|step| step.event == HookEvent::StageReached) {
        add(ledger, step(facts, draft, HookEvent::StageReached));
    }
}

struct Gate<'a, 'b> {
    facts: &'a Facts<'b>,
    draft: &'a Draft,
    ledger: &'a mut HookLedger,
    back: bool,
    /// The permissions that the batch asks for.
    wanted: Vec<(HookEvent, String)>,
}

impl Gate<'_, '_> {
    /// What is to be told before anything moves.
    fn first(&self) -> Option<HookEvent> {
        let status = &self.draft.status;
        let stage = status.stage.unwrap_or(0);
        let forward = !self.back && stage > 0 && status.split.is_none();
        let (event, due) = if self.back {
            (HookEvent::RollingBack, !self.ledger.turned_back)
        } else {
            (HookEvent::StageStarting, forward && self.ledger.started < stage)
        };
        (due && is_called(self.facts.spec, event)).then_some(event)
    }

    fn stage(&mut self) {
        let idle = !self.back && (self.facts.spec.paused || self.facts.replicas() == 0);
        if let Some(event) = self.first().filter(|_| !idle)
            && !self.ledger.steps.iter().any(|step| step.event == event)
        {
            add(self.ledger, step(self.facts, self.draft, event));
        }
    }

    fn is_shut(&self) -> bool {
        self.first().is_some() && self.facts.replicas() > 0
    }

    /// What of the batch may be written now.
    fn batch(&mut self, sizes: &Sizes<'_>) -> Vec<Resize> {
        let size_of = |index: usize| sizes.tracks.get(index).map_or(0, Track::size);
        let (shrinking, growing): (Vec<Resize>, Vec<Resize>) =
            sizes.batch.iter().partition(|(index, size)| *size < size_of(*index));
        let asks = is_called(self.facts.spec, HookEvent::PodsAdding);
        let (mut kept, mut natively) = (Vec::new(), None);
        for &(index, size) in &shrinking {
            let rest = self.native_rest(sizes, &shrinking, index, size).filter(|_| asks);
            // It is asked for one size at a time.
            natively = natively.or(rest);
            let free =
                rest.is_none_or(|(other, all)| self.permit(sizes, other, all, true).is_some());
            if let Some(size) = self.permit(sizes, index, size, false).filter(|_| free) {
                kept.push((index, size));
            }
        }
        let paced = if kept == shrinking { growing.clone() } else { room_without(sizes, &kept) };
        for &(index, size) in &growing {
            let after = |at: usize| {
                kept.iter().find(|(i, _)| *i == at).map_or_else(|| size_of(at), |(_, size)| *size)
            };
            let room = paced.iter().find(|(at, _)| *at == index).map_or(0, |(_, size)| *size);
            let most = size.min(room);
            // The native controller would give all to the only one itself.
            let alone = (0..sizes.tracks.len()).all(|at| at == index || after(at) == 0);
            let otherwise = natively.is_some_and(|(other, all)| other == index && all != most);
            if most > size_of(index)
                && !otherwise
                && let Some(size) = self.permit(sizes, index, most, alone)
            {
                kept.push((index, size));
            }
        }
        if self.leaves_one_to_shrink(sizes, &kept) {
            kept.retain(|(_, size)| *size > 0);
        }
        kept
    }

    /// Whether one revision alone would be left, with more pods than there are to be: the native
    /// controller takes them away without asking.
    fn leaves_one_to_shrink(&self, sizes: &Sizes<'_>, batch: &[Resize]) -> bool {
        let after = |(at, track): (usize, &Track<'_>)| {
            batch.iter().find(|(i, _)| *i == at).map_or_else(|| track.size(), |(_, size)| *size)
        };
        let mut active = sizes.tracks.iter().enumerate().map(after).filter(|size| *size > 0);
        let only = active.next().filter(|_| active.next().is_none());
        only.is_some_and(|size| size > self.facts.replicas())
    }

    /// The one that the native controller itself gives everything to, once this one is empty.
    fn native_rest(
        &self,
        sizes: &Sizes<'_>,
        shrinking: &[Resize],
        index: usize,
        size: i32,
    ) -> Option<(usize, i32)> {
        let replicas = self.facts.replicas();
        let after = |at: usize, now: i32| {
            shrinking.iter().find(|(i, _)| *i == at).map_or(now, |(_, size)| *size)
        };
        let mut left = sizes
            .tracks
            .iter()
            .enumerate()
            .filter(|(at, track)| *at != index && after(*at, track.size()) > 0);
        let (at, only) = left.next().filter(|_| size == 0 && left.next().is_none())?;
        (only.want == replicas && only.size() < replicas).then_some((at, replicas))
    }

    /// The size that may be written now: what hooks were called for, if that goes no further, or
    /// nothing but this very size.
    fn permit(&mut self, sizes: &Sizes<'_>, index: usize, size: i32, exactly: bool) -> Option<i32> {
        let track = sizes.tracks.get(index)?;
        let from = track.size();
        let event = if size > from { HookEvent::PodsAdding } else { HookEvent::PodsRemoving };
        if !is_called(self.facts.spec, event) {
            return Some(size);
        }
        // At no replicas the native controller would take the pods away without asking at all.
        let none = self.facts.replicas() == 0;
        let lenient = self.back || none || is_repair(sizes, index, size);
        let template = || self.facts.template_revision();
        let revision = track.replica_set.map_or_else(template, |rs| rs.revision.clone());
        let generation = track.replica_set.map_or(0, |rs: &ReplicaSet| rs.generation);
        self.wanted.push((event, revision.clone()));
        let asked = |step: &HookStep| of(step) == (event, revision.clone());
        if let Some(at) = self.ledger.steps.iter().position(asked) {
            let step = self.ledger.steps.get(at)?;
            let to = step.to.unwrap_or(from);
            let within =
                if size > from { from < to && to <= size } else { size <= to && to < from };
            let within = within && (to == size || !exactly);
            if step.from == Some(from) && within && step.generation == Some(generation) {
                return is_over(self.facts.spec, self.ledger, step, lenient).then_some(to);
            }
            self.ledger.steps.remove(at);
        }
        let step = HookStep {
            revision: Some(revision),
            generation: Some(generation),
            from: Some(from),
            to: Some(size),
            ..step(self.facts, self.draft, event)
        };
        let over = is_over(self.facts.spec, self.ledger, &step, lenient);
        add(self.ledger, step);
        over.then_some(size)
    }
}

/// What may be written where nothing shrinks but what is kept: what grows was reckoned with the
/// room that all others make.
fn room_without(sizes: &Sizes<'_>, kept: &[Resize]) -> Vec<Resize> {
    let mut tracks = sizes.tracks.clone();
    let least = |index: usize, track: &Track<'_>| {
        kept.iter().find(|(at, _)| *at == index).map_or(track.size(), |(_, to)| *to)
    };
    for (index, track) in tracks.iter_mut().enumerate() {
        track.want = track.want.max(least(index, track));
    }
    let batch = pace::pace(&tracks, sizes.room);
    // Broken pods may be given up for good ones all the same; that, too, is for the hook to permit.
    let within = |(at, to): &Resize| tracks.get(*at).is_some_and(|track| least(*at, track) <= *to);
    if batch.iter().all(within) { batch } else { Vec::new() }
}

/// Whether a change of pods is still to come though it is not its turn now, as while the status of
/// the ReplicaSet is old.
fn is_due(step: &HookStep, tracks: &[Track<'_>]) -> bool {
    let to = step.to.unwrap_or(0);
    tracks.iter().any(|track| {
        let changes = track.replica_set.is_some_and(|rs| {
            Some(&rs.revision) == step.revision.as_ref() && Some(rs.generation) == step.generation
        });
        let (from, want) = (track.size(), track.want);
        changes
            && step.from == Some(from)
            && if to < from { want <= to } else { from < to && to <= want }
    })
}

/// Whether it is for taking away new pods that no approval covers, which may take stable ones in
/// their place first, or follows a smaller number of replicas: that waits for one call at most.
fn is_repair(sizes: &Sizes<'_>, index: usize, size: i32) -> bool {
    let excess = |track: &Track<'_>| track.role == Role::Update && track.size() > track.want;
    sizes.tracks.get(index).is_some_and(|track| match track.role {
        Role::Update => size < track.size(),
        Role::Stable if size < track.size() => size >= sizes.room.replicas,
        Role::Stable => sizes.tracks.iter().any(excess),
        Role::Other => false,
    })
}

/// The first step that something waits for.
fn held(facts: &Facts<'_>, draft: &Draft, ledger: &HookLedger, back: bool) -> Option<Held> {
    ledger.steps.iter().filter(|step| !is_end(step)).find_map(|step| {
        let hook = called_at(facts.spec, step.event)
            .filter(|hook| !super::is_through(ledger, step, hook, back))
            .find(|hook| match step.event {
                HookEvent::PodsAdded => hook.failure_policy == FailurePolicy::Block,
                event => event != HookEvent::PodsRemoved,
            })?;
        let failures = call_of(step, hook).map_or(0, |call| call.failures);
        let mut words = format!("hook {} at {}", hook.name, title(step));
        let last = draft.status.hooks.iter().find(|last| last.name == hook.name);
        if let Some(last) = last.filter(|last| failures > 0 && last.event == step.event) {
            words = format!("{words}, called {failures} times: {}", last.message);
        }
        Some(Held { words, failing: failures > 0 })
    })
}

/// A step in words.
pub fn title(step: &HookStep) -> String {
    let event = step.event.as_str();
    match (&step.revision, step.from, step.to) {
        (Some(revision), Some(from), Some(to)) => {
            format!("{event} (revision {revision}, from {from} to {to} pods)")
        }
        _ => format!("{event} (stage {})", step.stage),
    }
}
