//! Which way: what the record, the template and people's requests make of a rollout.
//!
//! A decision is a change of the status here. It is written before anything rests on it, so a
//! crash at any point leaves either the old or the new decision, and the same sizes follow.

use super::{Event, EventKind, EventOn, ReplicaSet, checks, facts::Facts, hooks, share, stages};
use crate::api::{GrayRolloutStatus, HistoryEntry, HistoryResult, MAX_HISTORY, Phase, Split};

/// Where a rollout goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Course {
    /// Nothing is rolling out.
    Resting,
    /// The Deployment's first pods; nothing older exists.
    FirstDeploy,
    /// On to the stage in the status.
    Forward,
    /// Back to the stable revision.
    Back,
    /// Back, until the template changes or a retry.
    RolledBack,
}

/// The status being decided, and what is told about it.
#[derive(Debug, Clone)]
pub struct Draft {
    /// The status.
    pub status: GrayRolloutStatus,
    /// The course.
    pub course: Course,
    /// What was decided.
    pub events: Vec<Event>,
}

impl Draft {
    /// Adds an event about the `GrayRollout`.
    pub fn tell(&mut self, kind: EventKind, message: String) {
        self.events.push(Event { kind, message, on: EventOn::Rollout });
    }

    fn keep(mut self, course: Course) -> Self {
        self.course = course;
        self
    }
}

/// The highest number of a stage; a status can be written by hand.
const MOST: i32 = 20;

/// Decides the course.
pub fn decide(facts: &Facts<'_>) -> Draft {
    let mut status = facts.rollout.status.clone();
    status.stage = status.stage.map(|stage| stage.clamp(0, MOST));
    let known = status.target_uid.as_deref() == Some(&facts.target.uid);
    let mut draft = Draft { status, course: Course::Resting, events: Vec::new() };
    if !known || draft.status.stable_revision.is_none() {
        return first_sight(facts, draft);
    }
    checks::take(facts, &mut draft);
    hooks::take(facts, &mut draft);
    match recorded_course(&draft.status) {
        Course::Forward => {
            draft.course = Course::Forward;
            forward(facts, draft)
        }
        Course::Back => back(facts, draft),
        Course::RolledBack => rolled_back(facts, draft),
        Course::Resting | Course::FirstDeploy => resting(facts, draft),
    }
}

/// The course that a status speaks of.
pub fn recorded_course(status: &GrayRolloutStatus) -> Course {
    match (status.stage, status.phase) {
        (Some(_), Some(Phase::RollingBack)) => Course::Back,
        (Some(_), _) => Course::Forward,
        // Once the stable template is set again, or another is all there is, nothing is given up.
        (None, _)
            if gave_up(status).is_some() && status.update_revision != status.stable_revision =>
        {
            Course::RolledBack
        }
        (None, _) => Course::Resting,
    }
}

/// How the rollout at hand was given up, if it was.
pub fn gave_up(status: &GrayRolloutStatus) -> Option<HistoryResult> {
    let last = status.history.first()?;
    let given_up = matches!(last.result, HistoryResult::Aborted | HistoryResult::Failed);
    (given_up && Some(last.rollout) == status.rollout).then_some(last.result)
}

/// A Deployment without a record: what is running decides.
fn first_sight(facts: &Facts<'_>, mut draft: Draft) -> Draft {
    forget(&mut draft.status, facts);
    let new = facts.new_replica_set();
    let others: Vec<_> = facts.active_besides(new).collect();
    let has_new_pods = new.is_some_and(|rs| rs.replicas > 0);
    let recorded = facts.original().and_then(|original| original.stable.as_deref());
    let older = facts
        .of_revision(recorded)
        .filter(|rs| Some(&rs.uid) != new.map(|rs| &rs.uid))
        .or_else(|| others.iter().copied().max_by_key(|rs| (rs.available, rs.replicas)))
        .or_else(|| newest_besides(facts, new).filter(|_| new.is_none()));
    match older {
        Some(stable)
            if !others.is_empty() || new.is_none() || facts.of_revision(recorded).is_some() =>
        {
            draft.status.stable_revision = Some(stable.revision.clone());
            // With the one annotation alone it was held by admission, and nothing has begun.
            let begun = facts.target.original.is_some();
            let taken_over = has_new_pods || begun && facts.target.rollout_annotation.is_some();
            start(facts, &mut draft);
            if taken_over {
                take_over(facts, &mut draft, new);
            }
            draft.course = Course::Forward;
            under_way(facts, draft)
        }
        _ => {
            let only = facts.replica_sets.len() <= 1;
            settle(facts, &mut draft);
            let available = new.map_or(0, ReplicaSet::usable);
            let first = new.is_none() || only && available < facts.replicas();
            draft.keep(if first { Course::FirstDeploy } else { Course::Resting })
        }
    }
}

fn newest_besides<'a>(facts: &Facts<'a>, new: Option<&ReplicaSet>) -> Option<&'a ReplicaSet> {
    let uid = new.map(|rs| rs.uid.as_str());
    facts.replica_sets.iter().rev().find(|rs| Some(rs.uid.as_str()) != uid).copied()
}

/// Another target, or none known: everything but the number and the history starts afresh.
fn forget(status: &mut GrayRolloutStatus, facts: &Facts<'_>) {
    *status = GrayRolloutStatus {
        target_uid: Some(facts.target.uid.clone()),
        target_generation: Some(facts.target.generation),
        rollout: status.rollout,
        history: std::mem::take(&mut status.history),
        conditions: std::mem::take(&mut status.conditions),
        approval: status.approval.take(),
        abort: status.abort.take(),
        retry: status.retry.take(),
        ..GrayRolloutStatus::default()
    };
}

/// Keeps a split that was there before: never fewer new pods, at the last stage that holds at
/// most as many, going on by approval. The last old pods are nobody's to take without one, so it
/// is never the stage of 100%.
fn take_over(facts: &Facts<'_>, draft: &mut Draft, new: Option<&ReplicaSet>) {
    let replicas = facts.replicas();
    let update = new.map_or(0, |rs| rs.replicas.clamp(0, replicas));
    let stage = (1..facts.last_stage())
        .rev()
        .find(|stage| {
            let pods = share::new_pods(replicas, facts.percent(*stage), facts.bounds.surge);
            update > 0 && pods <= update
        })
        .unwrap_or(0);
    draft.status.stage = Some(stage);
    draft.status.split = Some(Split { replicas, update });
}

fn resting(facts: &Facts<'_>, mut draft: Draft) -> Draft {
    let first = !matches!(draft.status.phase, Some(Phase::Completed | Phase::RollingBack));
    let new = facts.new_replica_set();
    let stable = facts.of_revision(draft.status.stable_revision.as_deref());
    if facts.is_recorded_template(&draft.status) {
        refresh(facts, &mut draft);
        let available = new.map_or(0, ReplicaSet::usable);
        let first = new.is_none() || first && available < facts.replicas();
        return draft.keep(if first { Course::FirstDeploy } else { Course::Resting });
    }
    let rolled_out_natively = facts.replicas() > 0
        && new.is_some_and(|rs| rs.replicas == facts.replicas() && rs.usable() == rs.replicas)
        && facts.active_besides(new).next().is_none();
    if stable.is_none() || rolled_out_natively {
        return first_sight(facts, draft);
    }
    start(facts, &mut draft);
    draft.course = Course::Forward;
    under_way(facts, draft)
}

/// Same template, perhaps under another ReplicaSet name or with new defaults filled in.
fn refresh(facts: &Facts<'_>, draft: &mut Draft) {
    draft.status.template_hash = Some(facts.target.template.to_string());
    let revision = facts.template_revision();
    if draft.status.stable_revision == draft.status.update_revision {
        draft.status.stable_revision = Some(revision.clone());
    }
    draft.status.update_revision = Some(revision);
}

fn forward(facts: &Facts<'_>, draft: Draft) -> Draft {
    let stable = facts.of_revision(draft.status.stable_revision.as_deref());
    if facts.is_recorded_template(&draft.status) {
        under_way(facts, draft)
    } else {
        redirected(facts, draft, stable)
    }
}

/// On with the rollout of the present template.
fn under_way(facts: &Facts<'_>, mut draft: Draft) -> Draft {
    let stable = facts.of_revision(draft.status.stable_revision.as_deref());
    refresh(facts, &mut draft);
    if stable.is_some_and(|rs| rs.template == facts.target.template) {
        return revert(facts, draft);
    }
    let number = draft.status.rollout;
    let aborted = draft.status.abort.as_ref().is_some_and(|abort| Some(abort.rollout) == number);
    if aborted && stable.is_some() {
        let draft = give_up(facts, draft, HistoryResult::Aborted);
        return if wants_retry(&draft.status) { again(facts, draft) } else { draft };
    }
    if wants_retry(&draft.status) && draft.status.phase == Some(Phase::Stalled) {
        close(facts, &mut draft.status, HistoryResult::Failed, true);
        start(facts, &mut draft);
    }
    if draft.status.stage_percents != facts.percents() {
        stages::edited(facts, &mut draft);
    }
    stages::advance(facts, &mut draft, stable.is_some());
    draft
}

/// The template changed in the middle of a rollout.
fn redirected(facts: &Facts<'_>, mut draft: Draft, stable: Option<&ReplicaSet>) -> Draft {
    if stages::is_finished(facts, &draft.status) {
        draft.status.stable_revision.clone_from(&draft.status.update_revision);
        complete(facts, &mut draft, HistoryResult::Completed);
        start(facts, &mut draft);
        return under_way(facts, draft.keep(Course::Forward));
    }
    let (number, stage) = (draft.status.rollout.unwrap_or(0), draft.status.stage.unwrap_or(0));
    if stable.is_some_and(|rs| rs.template == facts.target.template) {
        return revert(facts, draft);
    }
    if stable.is_none() {
        close(facts, &mut draft.status, HistoryResult::Superseded, true);
        return first_sight(facts, draft);
    }
    close(facts, &mut draft.status, HistoryResult::Superseded, true);
    start(facts, &mut draft);
    let text = format!(
        "rollout {number} was superseded at stage {stage} by rollout {}: the template changed",
        draft.status.rollout.unwrap_or(0)
    );
    draft.tell(EventKind::RolloutSuperseded, text);
    under_way(facts, draft.keep(Course::Forward))
}

/// The template was set back to the stable revision's.
fn revert(facts: &Facts<'_>, mut draft: Draft) -> Draft {
    if gave_up(&draft.status).is_none() {
        close(facts, &mut draft.status, HistoryResult::RevertedByTemplate, false);
    }
    let text = format!(
        "rollout {}: the template is the stable revision's again; going back to it",
        draft.status.rollout.unwrap_or(0)
    );
    draft.status.update_revision.clone_from(&draft.status.stable_revision);
    draft.status.template_hash = Some(facts.target.template.to_string());
    go_back(&mut draft);
    draft.tell(EventKind::RollbackStarted, text);
    draft.keep(Course::Back)
}

/// Someone aborted, or the rollout failed.
pub fn give_up(facts: &Facts<'_>, mut draft: Draft, result: HistoryResult) -> Draft {
    let number = draft.status.rollout.unwrap_or(0);
    let stable = draft.status.stable_revision.clone().unwrap_or_default();
    close(facts, &mut draft.status, result, false);
    go_back(&mut draft);
    if result == HistoryResult::Aborted {
        draft.tell(EventKind::RolloutAborted, format!("rollout {number} was aborted"));
    }
    let text = format!("rollout {number}: going back to the stable revision {stable}");
    draft.tell(EventKind::RollbackStarted, text);
    draft.keep(Course::Back)
}

fn go_back(draft: &mut Draft) {
    draft.status.phase = Some(Phase::RollingBack);
    draft.status.split = None;
    draft.status.stage_reached_at = None;
    draft.status.last_progress = None;
}

fn back(facts: &Facts<'_>, mut draft: Draft) -> Draft {
    let stable = facts.of_revision(draft.status.stable_revision.as_deref());
    let Some(stable) = stable else {
        draft.status.phase = Some(Phase::Stalled);
        return forward(facts, draft.keep(Course::Forward));
    };
    let reverting = draft.status.update_revision == draft.status.stable_revision;
    if stable.template == facts.target.template {
        if !reverting {
            return revert(facts, draft);
        }
        refresh(facts, &mut draft);
    } else if reverting || !facts.is_recorded_template(&draft.status) {
        if facts.target.template_labelled {
            return draft.keep(Course::Back);
        }
        return again(facts, draft);
    } else if wants_retry(&draft.status) {
        return again(facts, draft);
    }
    draft.keep(Course::Back)
}

/// A rollout that was given up starts anew.
fn again(facts: &Facts<'_>, mut draft: Draft) -> Draft {
    finish_history(facts, &mut draft.status);
    start(facts, &mut draft);
    under_way(facts, draft.keep(Course::Forward))
}

fn rolled_back(facts: &Facts<'_>, mut draft: Draft) -> Draft {
    let stable = facts.of_revision(draft.status.stable_revision.as_deref());
    let asked = !facts.is_recorded_template(&draft.status) || wants_retry(&draft.status);
    let Some(stable) = stable else {
        return if asked { first_sight(facts, draft) } else { draft.keep(Course::RolledBack) };
    };
    if stable.template == facts.target.template {
        settle(facts, &mut draft);
        draft.status.phase = Some(Phase::Completed);
        return draft.keep(Course::Resting);
    }
    if asked {
        start(facts, &mut draft);
        return under_way(facts, draft.keep(Course::Forward));
    }
    refresh(facts, &mut draft);
    draft.keep(Course::RolledBack)
}

fn wants_retry(status: &GrayRolloutStatus) -> bool {
    status.retry.as_ref().is_some_and(|retry| Some(retry.rollout) == status.rollout)
}

/// The next rollout number, before its first stage.
fn start(facts: &Facts<'_>, draft: &mut Draft) {
    let number = facts.next_number(&draft.status);
    let status = &mut draft.status;
    status.rollout = Some(number);
    status.stage = Some(0);
    status.stage_percents = facts.percents();
    status.split = None;
    status.started_at = Some(facts.now);
    status.stage_started_at = Some(facts.now);
    status.stage_reached_at = None;
    status.phase = Some(Phase::Progressing);
    status.template_hash = Some(facts.target.template.to_string());
    status.update_revision = Some(facts.template_revision());
    status.last_progress = None;
    status.last_step = None;
    status.checks.clear();
    let text = format!(
        "rollout {number}: revision {} in {} stages, stable revision {}",
        facts.template_revision(),
        facts.spec.stages.len(),
        status.stable_revision.as_deref().unwrap_or("unknown"),
    );
    draft.tell(EventKind::RolloutStarted, text);
}

/// Nothing is rolling out: what the template says is the stable revision.
fn settle(facts: &Facts<'_>, draft: &mut Draft) {
    let revision = facts.template_revision();
    let status = &mut draft.status;
    let saved = facts.original().map_or(0, |original| original.rollout);
    status.rollout = Some(status.rollout.unwrap_or(0).max(saved));
    status.stable_revision = Some(revision.clone());
    status.update_revision = Some(revision);
    status.template_hash = Some(facts.target.template.to_string());
    status.stage = None;
    status.stage_percents = Vec::new();
    status.split = None;
    status.started_at = None;
    status.stage_started_at = None;
    status.stage_reached_at = None;
    status.last_progress = None;
}

/// The rollout at hand ended well, and what it rolled out is the stable revision now.
pub fn complete(facts: &Facts<'_>, draft: &mut Draft, result: HistoryResult) {
    let number = draft.status.rollout.unwrap_or(0);
    let after_seconds = draft.status.started_at.map_or(0.0, |at| seconds_since(facts, at));
    if result == HistoryResult::Completed {
        close(facts, &mut draft.status, result, true);
    } else {
        finish_history(facts, &mut draft.status);
    }
    let revision = draft.status.update_revision.clone();
    settle(facts, draft);
    draft.status.stable_revision.clone_from(&revision);
    draft.status.update_revision = revision;
    draft.status.phase = Some(Phase::Completed);
    let what =
        if result == HistoryResult::Completed { "completed" } else { "reverted by its template" };
    draft.tell(
        EventKind::RolloutCompleted { result, after_seconds },
        format!("rollout {number} {what}: the Deployment is given back"),
    );
}

/// The way back ended: the failed template stays where it is, without pods.
pub fn rest_rolled_back(facts: &Facts<'_>, draft: &mut Draft) {
    let number = draft.status.rollout.unwrap_or(0);
    let after_seconds = draft.status.started_at.map_or(0.0, |at| seconds_since(facts, at));
    let result = gave_up(&draft.status).unwrap_or(HistoryResult::Aborted);
    finish_history(facts, &mut draft.status);
    let status = &mut draft.status;
    status.phase = Some(Phase::RolledBack);
    status.stage = None;
    status.stage_percents = Vec::new();
    status.stage_started_at = None;
    status.stage_reached_at = None;
    status.last_progress = None;
    draft.tell(
        EventKind::RolledBack { result, after_seconds },
        format!("rollout {number}: every pod runs the stable revision again"),
    );
    draft.course = Course::RolledBack;
}

/// Writes the rollout at hand into the history.
fn close(facts: &Facts<'_>, status: &mut GrayRolloutStatus, result: HistoryResult, finished: bool) {
    let entry = HistoryEntry {
        rollout: status.rollout.unwrap_or(0),
        revision: status.update_revision.clone(),
        result,
        started_at: status.started_at,
        finished_at: finished.then_some(facts.now),
    };
    status.history.insert(0, entry);
    status.history.truncate(MAX_HISTORY);
}

fn finish_history(facts: &Facts<'_>, status: &mut GrayRolloutStatus) {
    if let Some(last) = status.history.first_mut() {
        last.finished_at.get_or_insert(facts.now);
    }
}

/// Seconds since a moment, at least 0.
pub fn seconds_since(facts: &Facts<'_>, at: jiff::Timestamp) -> f64 {
    facts.now.duration_since(at).as_secs_f64().max(0.0)
}
