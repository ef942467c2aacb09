//! Giving a Deployment back whose `GrayRollout` is gone: everything needed sits on the Deployment.

use super::{
    Action, AnnotationChange, DeploymentPatch, Event, EventKind, EventOn, Original, Orphan,
    ReleasePlan, Rollout, Target,
    course::{Course, Draft},
    drive,
    facts::{self, Facts},
    standing::Standing,
};
use crate::api::{
    GrayRolloutSpec, GrayRolloutStatus, OnDelete, OnFailure, Phase, Reason, Stage, TargetRef,
};

/// Decides what is to be done for a Deployment whose `GrayRollout` is gone.
#[must_use]
pub fn release(orphan: &Orphan) -> ReleasePlan {
    let target = &orphan.target;
    let Some(original) = &target.original else {
        // Held by admission, and let go before anything began.
        return match target.rollout_annotation {
            Some(_) => give_back(orphan, target.paused, false, None),
            None => ReleasePlan::default(),
        };
    };
    let Ok(original) = original else {
        return give_back(orphan, target.rollout_annotation.is_some(), false, None);
    };
    let rolling_out = target.rollout_annotation.is_some() || original.stable.is_some();
    match original.on_delete {
        _ if !rolling_out => give_back(orphan, original.paused, true, None),
        OnDelete::Hold => give_back(orphan, true, false, None),
        OnDelete::Promote => give_back(orphan, false, true, None),
        OnDelete::Rollback => roll_back(orphan, original),
    }
}

/// One patch: the user's own strategy, `paused`, no annotation of ours. Where the native
/// controller takes over, the size annotations are right before.
fn give_back(
    orphan: &Orphan,
    paused: bool,
    takes_over: bool,
    template_of: Option<String>,
) -> ReleasePlan {
    let target = &orphan.target;
    let own = facts::own_strategy(target, None);
    let patch = DeploymentPatch {
        uid: target.uid.clone(),
        resource_version: target.resource_version.clone(),
        paused: (target.paused != paused).then_some(paused),
        strategy: (target.strategy != own).then(|| own.clone()),
        original: match target.original {
            Some(_) => AnnotationChange::Remove,
            None => AnnotationChange::Keep,
        },
        rollout: match target.rollout_annotation {
            Some(_) => AnnotationChange::Remove,
            None => AnnotationChange::Keep,
        },
        template_of,
    };
    let (rollout, spec) = stand_in(target, None);
    let facts = Facts::new(orphan.now, &rollout, &spec, target, &orphan.replica_sets);
    let mut actions = Vec::new();
    if takes_over {
        actions.extend(drive::right_annotations(&facts));
    }
    actions.push(Action::PatchDeployment(patch));
    ReleasePlan { actions, events: Vec::new(), requeue_after: None }
}

/// Back to the stable revision, then its template put back and the Deployment given back.
fn roll_back(orphan: &Orphan, original: &Original) -> ReleasePlan {
    let target = &orphan.target;
    let (rollout, spec) = stand_in(target, Some(original));
    let facts = Facts::new(orphan.now, &rollout, &spec, target, &orphan.replica_sets);
    let draft = Draft { status: rollout.status.clone(), course: Course::Back, events: Vec::new() };
    let Some(stable) = facts.of_revision(original.stable.as_deref()) else {
        let mut plan = give_back(orphan, true, false, None);
        plan.events.push(Event {
            kind: EventKind::RolledBack {
                result: crate::api::HistoryResult::Failed,
                after_seconds: 0.0,
            },
            message: "the GrayRollout was deleted, and the ReplicaSet to go back to is gone; the Deployment stays paused as it is".into(),
            on: EventOn::Target,
        });
        return plan;
    };
    if drive::is_back(&facts, &draft.status) {
        let template_of = (stable.template != target.template).then(|| stable.name.clone());
        return give_back(orphan, original.paused, true, template_of);
    }
    let sizes = drive::sizes(&facts, &draft);
    let standing = Standing {
        phase: Phase::RollingBack,
        reason: Reason::RollingBack,
        detail: None,
        until: None,
    };
    let moves = drive::drive(&facts, &draft, &sizes, &standing);
    ReleasePlan { actions: moves.actions, events: moves.events, requeue_after: moves.until }
}

/// The deleted `GrayRollout`, as far as the annotation tells: enough to go back.
fn stand_in(target: &Target, original: Option<&Original>) -> (Rollout, GrayRolloutSpec) {
    let spec = GrayRolloutSpec {
        target_ref: TargetRef {
            api_version: "apps/v1".into(),
            kind: "Deployment".into(),
            name: target.name.clone(),
        },
        stages: vec![Stage { percent: 100, soak_seconds: None, approval: None }],
        paused: false,
        max_surge: None,
        max_unavailable: None,
        progress_deadline_seconds: None,
        step_interval_seconds: None,
        on_failure: OnFailure::Pause,
        on_delete: OnDelete::Rollback,
        wait_for_termination: false,
        checks: Vec::new(),
        hooks: Vec::new(),
        approval: None,
    };
    let status = GrayRolloutStatus {
        target_uid: Some(target.uid.clone()),
        phase: Some(Phase::RollingBack),
        rollout: original.map(|original| original.rollout),
        stage: Some(0),
        stable_revision: original.and_then(|original| original.stable.clone()),
        ..GrayRolloutStatus::default()
    };
    let rollout = Rollout {
        namespace: target.namespace.clone(),
        name: original.map_or_else(String::new, |original| original.name.clone()),
        uid: original.map_or_else(String::new, |original| original.uid.clone()),
        generation: 0,
        resource_version: String::new(),
        created: jiff::Timestamp::UNIX_EPOCH,
        target_name: target.name.clone(),
        made_for: None,
        spec: Ok(spec.clone()),
        status,
    };
    (rollout, spec)
}
