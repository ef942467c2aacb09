//! What someone else changed: told when it is put back.

use super::{
    Event, EventKind, EventOn,
    course::{Course, Draft},
    drive::Sizes,
    facts::Facts,
    form::Form,
    pace::Role,
};
use crate::api::{Hold, Phase};

/// What someone else changed in the Deployment, told when it is put back.
pub fn reformed(facts: &Facts<'_>, patched: bool, form: Form) -> Vec<Event> {
    let mut events = Vec::new();
    let ours = facts.original().is_some_and(|original| original.uid == facts.rollout.uid);
    let before = &facts.rollout.status;
    let by_admission = form == Form::Rest && before.hold == Some(Hold::Admission);
    let mut tell = |field: &'static str, message: String| {
        events.push(Event {
            kind: EventKind::DriftCorrected { field },
            message,
            on: EventOn::Both,
        });
    };
    let untouched = facts.target.original.is_none() && facts.target.rollout_annotation.is_none();
    if by_admission && untouched && facts.target.paused && facts.rests_unpaused() {
        let by = "someone paused the Deployment; it is unpaused again: to hold back what comes next, set spec.paused of the GrayRollout";
        tell("paused", by.into());
    }
    if !patched || !ours {
        return events;
    }
    if !facts.target.paused && !by_admission {
        let by = "someone unpaused the Deployment; it is paused again: this rollout decides when";
        tell("paused", by.into());
    }
    let replaced = facts.original().is_some_and(|original| original.strategy.is_some());
    if replaced
        && facts.target.strategy == facts.own
        && matches!(form, Form::Moving | Form::Held { .. })
    {
        let by = "someone set the Deployment's strategy; it is put back until the rollout is over";
        tell("strategy", by.into());
    }
    events
}

/// A ReplicaSet that someone else scaled, told when its size is put back.
pub fn resized(facts: &Facts<'_>, draft: &Draft, sizes: &Sizes<'_>) -> Option<Event> {
    let before = &facts.rollout.status;
    let undisturbed = before.rollout == draft.status.rollout
        && before.stage == draft.status.stage
        && before.split == draft.status.split
        && before.replicas == Some(facts.replicas());
    // What was superseded may go after a stage is reached, and the stable revision take its place.
    let going = sizes.tracks.iter().any(|track| track.role == Role::Other && track.size() > 0);
    let resting = match draft.course {
        Course::Forward => before.stage_reached_at.is_some() && !going,
        Course::Resting => before.phase == Some(Phase::Completed),
        Course::RolledBack => before.phase == Some(Phase::RolledBack),
        _ => false,
    };
    let above = sizes.tracks.iter().any(|track| {
        let recorded = before.update.as_ref();
        track.role == Role::Update
            && track.size() > track.want
            && recorded.is_some_and(|r| r.desired == track.want && r.current <= track.want)
    });
    let scaled: Vec<_> = sizes
        .batch
        .iter()
        .filter_map(|(index, size)| {
            let track = sizes.tracks.get(*index)?;
            let rs = track.replica_set?;
            (*size == track.want).then(|| format!("{} from {} to {size}", rs.name, rs.replicas))
        })
        .collect();
    (undisturbed && (resting || above) && !scaled.is_empty()).then(|| Event {
        kind: EventKind::DriftCorrected { field: "replicas" },
        message: format!("someone scaled a ReplicaSet; put back: {}", scaled.join(", ")),
        on: EventOn::Both,
    })
}
