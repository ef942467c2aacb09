//! The invariants of what is recorded: numbers, stages, approvals, phases, conditions.

use grayrollout::{
    api::{
        Approval, ConditionStatus, ConditionType, GrayRolloutSpec, GrayRolloutStatus,
        HistoryResult, MAX_HISTORY, Phase,
    },
    plan::{Action, AnnotationChange, Plan, ReplicaSet, Snapshot, StatusWrite, Target},
};

use crate::{
    checks::{budget, count, ensure, kept_share, remembered_strategy},
    effect,
    world::{Checked, World, hash},
};

/// S4, S5, S17 and the table of phases, for the status that a plan writes.
pub fn transition(snapshot: &Snapshot, plan: &Plan) -> Checked {
    if plan.write == StatusWrite::None {
        return Ok(());
    }
    let (before, after) = (&snapshot.rollout.status, &plan.status);
    conditions(before, after)?;
    ensure(after.history.len() <= MAX_HISTORY, || "a history too long".into())?;
    ensure(after.message.as_ref().is_some_and(|text| !text.is_empty()), || {
        "a status without a message".into()
    })?;
    ensure(after.observed_generation == Some(snapshot.rollout.generation), || {
        "observedGeneration is not the generation seen".into()
    })?;
    let (Ok(spec), Some(target)) = (&snapshot.rollout.spec, &snapshot.target) else {
        return Ok(());
    };
    let same_target = before.target_uid.as_ref() == Some(&target.uid);
    let (old, new) = (before.rollout.unwrap_or(0), after.rollout.unwrap_or(0));
    ensure(new >= old, || format!("S4: rollout number {old} becomes {new}"))?;
    if new == old && same_target {
        let (from, to) = (before.stage.unwrap_or(0), after.stage.unwrap_or(0));
        ensure(to >= from || after.stage.is_none(), || {
            format!("S4: stage {from} becomes {to} within rollout {new}")
        })?;
        let forward = after.phase != Some(Phase::RollingBack);
        let under_way = before.stage.is_some() && after.stage.is_some() && forward;
        ensure(!under_way || before.template_hash == after.template_hash, || {
            format!("S5: rollout {new} goes on with another template, and its approvals with it")
        })?;
    }
    entered(snapshot, spec, target, after)?;
    ended(snapshot, target, after)?;
    if after.phase == Some(Phase::Completed) && before.phase != Some(Phase::Completed) {
        // Where nothing was rolling out there is nothing to give back: it is taken for what it is.
        let first_sight = !same_target || before.stage.is_none();
        let actions_first = plan.write != StatusWrite::First || plan.actions.is_empty();
        ensure(actions_first || first_sight, || {
            "S17: Completed before the writes that complete it".into()
        })?;
        completed(&effect::apply(snapshot, plan), first_sight)?;
    }
    Ok(())
}

/// The Ready, Progressing, AwaitingApproval and Stalled that a phase goes with; `None` where it is
/// either.
fn table(phase: Phase) -> [Option<bool>; 4] {
    let only = |index: usize| {
        let mut row = [Some(false); 4];
        if let Some(cell) = row.get_mut(index) {
            *cell = Some(true);
        }
        row
    };
    match phase {
        Phase::Pending | Phase::Paused | Phase::RolledBack => [Some(false); 4],
        Phase::Progressing | Phase::RollingBack => only(1),
        Phase::AwaitingApproval => only(2),
        Phase::Stalled => only(3),
        Phase::Completed => [None, Some(false), Some(false), Some(false)],
    }
}

const TYPES: [ConditionType; 4] = [
    ConditionType::Ready,
    ConditionType::Progressing,
    ConditionType::AwaitingApproval,
    ConditionType::Stalled,
];

fn conditions(before: &GrayRolloutStatus, after: &GrayRolloutStatus) -> Checked {
    let phase = after.phase.ok_or("a status without a phase")?;
    for (type_, wanted) in TYPES.into_iter().zip(table(phase)) {
        let is = |status: &GrayRolloutStatus| {
            let mut all = status.conditions.iter();
            all.find(|condition| condition.type_ == type_).cloned()
        };
        let Some(condition) = is(after) else {
            // A target that is not there may leave the other conditions unsaid.
            ensure(phase == Phase::Pending, || format!("no condition {type_:?}"))?;
            continue;
        };
        ensure(
            wanted.is_none_or(|wanted| (condition.status == ConditionStatus::True) == wanted),
            || format!("{type_:?} is {:?} in phase {phase:?}", condition.status),
        )?;
        if let Some(earlier) = is(before)
            && earlier.status == condition.status
        {
            ensure(earlier.last_transition_time == condition.last_transition_time, || {
                format!("lastTransitionTime of {type_:?} moved without its status")
            })?;
        }
    }
    Ok(())
}

fn new_set<'a>(snapshot: &'a Snapshot, target: &Target) -> Option<&'a ReplicaSet> {
    let sets = snapshot.replica_sets.iter();
    sets.filter(|set| set.template == target.template && !set.deleting)
        .min_by_key(|set| (set.created, &set.name))
}

fn available(set: Option<&ReplicaSet>) -> i32 {
    set.filter(|set| set.observed_generation >= set.generation)
        .map_or(0, |set| set.available.min(set.replicas))
}

/// Every stage that is newly entered was approved, and the one before it could be left.
fn entered(
    snapshot: &Snapshot,
    spec: &GrayRolloutSpec,
    target: &Target,
    after: &GrayRolloutStatus,
) -> Checked {
    let before = &snapshot.rollout.status;
    let same = before.rollout == after.rollout
        && before.target_uid == after.target_uid
        && before.stage.is_some();
    let Some(to) = after.stage else {
        return Ok(());
    };
    if matches!(after.phase, Some(Phase::RollingBack | Phase::RolledBack)) {
        return Ok(());
    }
    if !same {
        return begun(snapshot, spec, target, after, to);
    }
    each(snapshot, spec, target, after, before.stage.unwrap_or(0))
}

/// S5: an approval names this very rollout and at least this stage.
fn given(spec: &GrayRolloutSpec, status: &GrayRolloutStatus, stage: i32) -> bool {
    let by_status = status
        .approval
        .as_ref()
        .is_some_and(|given| Some(given.rollout) == status.rollout && given.stage >= stage);
    let by_spec = spec.approval.as_ref().is_some_and(|given| {
        Some(given.rollout) == status.rollout
            && Some(&given.revision) == status.update_revision.as_ref()
            && given.stage >= stage
    });
    by_status || by_spec
}

fn automatic(spec: &GrayRolloutSpec, stage: i32) -> bool {
    let number = usize::try_from(stage).unwrap_or(0);
    spec.approval_of(number) == Approval::Automatic
}

fn left(
    snapshot: &Snapshot,
    spec: &GrayRolloutSpec,
    target: &Target,
    after: &GrayRolloutStatus,
    stage: i32,
) -> Checked {
    let before = &snapshot.rollout.status;
    let mut sets = snapshot.replica_sets.iter();
    if !sets.any(|set| after.stable_revision.as_ref() == Some(&set.revision)) {
        // With the stable revision lost everything is new already.
        return Ok(());
    }
    let index = usize::try_from(stage - 1).unwrap_or(usize::MAX);
    let given = spec.stages.get(index).ok_or("a stage that does not exist is left")?;
    let surge =
        budget(spec, remembered_strategy(snapshot, target), target.replicas).map_or(0, |b| b.surge);
    let asked = count(target.replicas, given.percent, surge);
    // A split that was taken over is what the stage holds.
    let held = before.split.map(|split| split.update * target.replicas / split.replicas.max(1));
    let asked = held.map_or(asked, |held| held.min(asked));
    let is = available(new_set(snapshot, target));
    ensure(is >= asked, || format!("stage {stage} is left with {is} of {asked} pods available"))?;
    let soak = i64::from(given.soak_seconds.unwrap_or(0));
    let reached = if before.stage == Some(stage) { before.stage_reached_at } else { None };
    let reached = reached.or(after.stage_reached_at.filter(|_| soak == 0));
    let soaked = soak == 0
        || reached.is_some_and(|at| {
            snapshot.now.duration_since(at).as_millis() >= i128::from(soak) * 1000
        });
    ensure(soaked, || format!("stage {stage} is left before its soak of {soak} s was over"))
}

/// A rollout number that was not under way before.
fn begun(
    snapshot: &Snapshot,
    spec: &GrayRolloutSpec,
    target: &Target,
    after: &GrayRolloutStatus,
    to: i32,
) -> Checked {
    let before = &snapshot.rollout.status;
    let percents: Vec<i32> = spec.stages.iter().map(|stage| stage.percent).collect();
    ensure(after.stage_percents == percents, || {
        "a rollout that begins with other stages than the spec's".into()
    })?;
    let new_template = before.template_hash != Some(target.template.to_string());
    let stable = |set: &ReplicaSet| before.stable_revision.as_ref() == Some(&set.revision);
    let lost = !snapshot.replica_sets.iter().any(stable);
    // Without the stable revision there is no way back, and the stages count again.
    let edited = before.target_uid.as_ref() == Some(&target.uid)
        && before.stable_revision.is_some()
        && before.stage.is_some()
        && !new_template
        && before.stage_percents != percents
        && (lost || before.phase != Some(Phase::RollingBack));
    let surge =
        budget(spec, remembered_strategy(snapshot, target), target.replicas).map_or(0, |b| b.surge);
    if edited && before.retry.as_ref().map(|retry| retry.rollout) != before.rollout {
        let at = usize::try_from(before.stage.unwrap_or(0) - 1).ok();
        let share = at.and_then(|at| before.stage_percents.get(at)).copied().unwrap_or(0);
        let kept = percents.iter().filter(|percent| **percent <= share).count();
        let kept = i32::try_from(kept).unwrap_or(i32::MAX);
        ensure(to >= kept, || {
            format!("edited at {share}%: stage {to} of {percents:?} instead of {kept}")
        })?;
        // Where none matches, the split stays until someone approves the first stage.
        ensure(kept > 0 || to == 0, || format!("edited at {share}%: stage {to} at once"))?;
        let allowed = kept_share(before, target.replicas).max(count(target.replicas, share, surge));
        ensure(after.split.is_none_or(|split| split.update <= allowed), || {
            format!("edited at {share}%: {:?} is kept where {allowed} were allowed", after.split)
        })?;
        return each(snapshot, spec, target, after, kept);
    }
    if let Some(split) = after.split {
        // Taken over: what is there stays, at the last stage that holds at most as many.
        let is = new_set(snapshot, target).map_or(0, |set| set.replicas);
        ensure(split.replicas == target.replicas && split.update <= is.max(0), || {
            format!("a split of {split:?} is kept where {is} new pods are")
        })?;
        let index = usize::try_from(to).unwrap_or(0);
        let at_most = |percent: &i32| count(target.replicas, *percent, surge) <= is;
        return ensure(percents.iter().take(index).all(at_most), || {
            format!("taken over with {is} new pods at stage {to} of {percents:?}")
        });
    }
    if after.phase == Some(Phase::Completed) {
        return Ok(());
    }
    each(snapshot, spec, target, after, 0)
}

/// Stages beyond `from` whose pods are there already may be entered at once, each as it asks.
fn each(
    snapshot: &Snapshot,
    spec: &GrayRolloutSpec,
    target: &Target,
    after: &GrayRolloutStatus,
    from: i32,
) -> Checked {
    // A split that no stage matches waits for someone, whatever its next stage asks.
    let before = &snapshot.rollout.status;
    let matched = from > 0 || before.rollout != after.rollout || before.split.is_none();
    for stage in from + 1..=after.stage.unwrap_or(0) {
        ensure(
            given(spec, after, stage) || ((matched || stage > 1) && automatic(spec, stage)),
            || format!("S5: stage {stage} of rollout {:?} is entered unapproved", after.rollout),
        )?;
        ensure(!spec.paused && target.replicas > 0, || {
            format!("stage {stage} is entered while paused or at no replicas")
        })?;
        if stage > 1 {
            left(snapshot, spec, target, after, stage - 1)?;
        }
    }
    Ok(())
}

/// S5 for the way back: it needs an abort of this number, a failure, or the stable template.
fn ended(snapshot: &Snapshot, target: &Target, after: &GrayRolloutStatus) -> Checked {
    let before = &snapshot.rollout.status;
    let back = |status: &GrayRolloutStatus| {
        matches!(status.phase, Some(Phase::RollingBack | Phase::RolledBack))
    };
    if !back(after) || (back(before) && before.rollout == after.rollout) {
        return Ok(());
    }
    let aborted = after.abort.as_ref().map(|abort| abort.rollout) == after.rollout;
    let reverted = snapshot.replica_sets.iter().any(|set| {
        after.stable_revision.as_ref() == Some(&set.revision) && set.template == target.template
    });
    let failed = snapshot
        .rollout
        .spec
        .as_ref()
        .is_ok_and(|spec| spec.on_failure == grayrollout::api::OnFailure::Rollback);
    // A retry or another template while going back leads forward; a lost status may show an
    // abandoned rollout again.
    ensure(aborted || reverted || failed, || {
        format!("S5: rollout {:?} goes back without a reason", after.rollout)
    })
}

/// S17, on the state that the whole plan leads to.
fn completed(after: &Snapshot, first_sight: bool) -> Checked {
    let Some(target) = &after.target else {
        return Ok(());
    };
    let new = new_set(after, target);
    let (size, ready) = (new.map_or(0, |set| set.replicas), available(new));
    let old: i32 = after
        .replica_sets
        .iter()
        .filter(|set| Some(&set.uid) != new.map(|new| &new.uid))
        .map(|set| set.replicas)
        .sum();
    // At first sight rule 1 may still have to bring the only active one to spec.replicas.
    ensure((size == target.replicas || first_sight) && old == 0, || {
        format!("S17: Completed with {size} new and {old} old pods of {}", target.replicas)
    })?;
    ensure(ready == target.replicas || first_sight, || {
        format!("S17: Completed with {ready} of {} available", target.replicas)
    })?;
    ensure(target.observed_generation >= target.generation || first_sight, || {
        "S17: Completed before the native controller has seen the Deployment given back".into()
    })?;
    ensure(
        target.rollout_annotation.is_none()
            && target.strategy == *remembered_strategy(after, target),
        || "S17: Completed before the Deployment is given back".into(),
    )
}

/// What only the history knows: numbers are never used twice, stable is what was fully out.
pub fn known(world: &World, snapshot: &Snapshot, plan: &Plan) -> Checked {
    if plan.write == StatusWrite::None {
        return Ok(());
    }
    let (before, after) = (&snapshot.rollout.status, &plan.status);
    if after.rollout != before.rollout {
        let spec = snapshot.rollout.spec.as_ref().ok();
        let git = spec.and_then(|spec| spec.approval.as_ref()).map_or(0, |given| given.rollout);
        let (number, highest) = (after.rollout.unwrap_or(0), world.highest.max(git));
        ensure(number > highest || after.stage.is_none(), || {
            format!("S5: rollout number {number} was used before; the highest was {highest}")
        })?;
    }
    for action in &plan.actions {
        if let Action::PatchDeployment(patch) = action
            && let AnnotationChange::Set(kept) = &patch.original
            && let Some(kept) = &kept.strategy
        {
            let own = &world.user_strategy;
            ensure(kept == own, || format!("S10: keeps {kept:?} where the user's own is {own:?}"))?;
        }
    }
    let fully_out = just_completed(world, after).or(world.approved);
    if let (Some(approved), Some(stable), Some(_)) =
        (fully_out, &after.stable_revision, after.stage)
    {
        let mut sets = snapshot.replica_sets.iter();
        let set = sets.find(|set| set.revision == *stable);
        ensure(set.is_none_or(|set| set.template == hash(approved)), || {
            format!("the stable revision {stable} is not v{approved}, which was fully out last")
        })?;
    }
    Ok(())
}

/// The template that reached its last stage, once the history tells that its rollout completed: a
/// newer template may come before the Deployment is given back.
fn just_completed(world: &World, status: &GrayRolloutStatus) -> Option<u32> {
    let (number, template) = world.reached?;
    let mut history = status.history.iter();
    let entry = history.find(|entry| entry.rollout == number)?;
    (entry.result == HistoryResult::Completed).then_some(template)
}

/// Where the ReplicaSet of the approved template was deleted, whatever runs is as good.
pub fn forget_deleted(world: &mut World) {
    let sets = &world.cluster.replica_sets;
    world.approved = world.approved.filter(|of| sets.iter().any(|set| set.template == *of));
}

/// Remembers what a stored status means for later ones.
pub fn record(world: &mut World) {
    let status = world.status();
    world.highest = world.highest.max(status.rollout.unwrap_or(0));
    world.seen.extend(status.phase.map(Phase::as_str));
    let holds = |status| status == ConditionStatus::True;
    let conditions = status.conditions.iter().filter(|condition| holds(condition.status));
    world.seen.extend(conditions.map(|condition| condition.reason.as_str()));
    let template = world.cluster.deployment.as_ref().map(|deployment| deployment.template);
    world.approved = just_completed(world, &status).or(world.approved);
    if template.map(|template| hash(template).to_string()) != status.template_hash {
        return;
    }
    if status.stage.is_none() && status.stable_revision == status.update_revision {
        (world.approved, world.reached) = (template, None);
    }
    let last = i32::try_from(status.stage_percents.len()).ok();
    if status.stage.is_some() && status.stage == last && status.stage_reached_at.is_some() {
        world.reached = status.rollout.zip(template);
    }
}
