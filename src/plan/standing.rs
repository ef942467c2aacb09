//! Where it stands: the phase, the reason, and how long until that may change by itself.

use std::time::Duration;

use jiff::Timestamp;

use super::{
    ReplicaSet, checks,
    course::{Course, Draft},
    facts::Facts,
    form::Form,
    hooks, interval, stages,
};
use crate::api::{GrayRolloutStatus, Phase, Progress, Reason};

/// Phase and reason, and when to look again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// The phase.
    pub phase: Phase,
    /// Why.
    pub reason: Reason,
    /// What the native or the ReplicaSet controller says is wrong.
    pub detail: Option<String>,
    /// When it may change by itself.
    pub until: Option<Duration>,
}

impl Standing {
    fn new(phase: Phase, reason: Reason) -> Self {
        Self { phase, reason, detail: None, until: None }
    }
}

/// Whether pods are expected to move, so that the deadline counts.
fn expects_movement(facts: &Facts<'_>, draft: &Draft) -> bool {
    facts.replicas() > 0
        && match draft.course {
            Course::Forward => {
                let status = &draft.status;
                let told = !stages::soaked(facts, status) || hooks::stage_is_told(facts, status);
                let waits = interval::waits(facts, status);
                !(checks::halted(facts, status)
                    || stages::is_reached(facts, status) && told
                    || waits)
            }
            Course::Back => true,
            Course::FirstDeploy => {
                facts.new_replica_set().map_or(0, ReplicaSet::usable) < facts.replicas()
            }
            Course::Resting | Course::RolledBack => false,
        }
}

/// Notes progress: sizes change, more pods of the growing side are available than ever since it
/// started to move, or replicas changed.
pub fn note_progress(facts: &Facts<'_>, draft: &mut Draft, moves: bool) {
    if !expects_movement(facts, draft) {
        // Reached may not be for long; the clock of a stage only stands still meanwhile.
        if draft.course != Course::Forward
            || facts.spec.paused
            || facts.replicas() == 0
            || interval::waits(facts, &draft.status)
        {
            draft.status.last_progress = None;
        }
        return;
    }
    let growing = match draft.course {
        Course::Back => facts.of_revision(draft.status.stable_revision.as_deref()),
        _ => facts.new_replica_set(),
    };
    let available = growing.map_or(0, ReplicaSet::usable);
    let rescaled = facts.rollout.status.replicas.is_some_and(|before| before != facts.replicas());
    draft.status.last_progress = Some(match draft.status.last_progress.take() {
        Some(last) if available <= last.available && !moves && !rescaled => last,
        Some(last) => Progress { time: facts.now, available: last.available.max(available) },
        None => Progress { time: facts.now, available },
    });
}

/// How long until the deadline; zero once it is missed, `None` where none counts.
fn until_deadline(facts: &Facts<'_>, status: &GrayRolloutStatus) -> Option<Duration> {
    let last = status.last_progress.as_ref()?;
    let seconds = facts
        .spec
        .progress_deadline_seconds
        .or(facts.target.progress_deadline_seconds)
        .unwrap_or(600);
    // The native controller takes the largest number for no deadline.
    let since = hooks::newest_step(status).map_or(last.time, |step| step.max(last.time));
    (seconds != i32::MAX).then(|| until(facts.now, since, i64::from(seconds)))
}

/// How long the stage still soaks; zero once it has.
pub fn until_soaked(facts: &Facts<'_>, status: &GrayRolloutStatus) -> Duration {
    let soak = facts.soak_seconds(status.stage.unwrap_or(0));
    status.stage_reached_at.map_or(Duration::ZERO, |at| until(facts.now, at, soak))
}

fn until(now: Timestamp, since: Timestamp, seconds: i64) -> Duration {
    let total = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
    let gone = Duration::try_from(now.duration_since(since)).unwrap_or(Duration::ZERO);
    total.saturating_sub(gone)
}

/// Where the rollout stands.
pub fn stand(facts: &Facts<'_>, draft: &Draft) -> Standing {
    match draft.course {
        Course::Resting if facts.active_besides(facts.new_replica_set()).next().is_some() => {
            Standing::new(Phase::RollingBack, Reason::RollingBack)
        }
        Course::FirstDeploy
            if expects_movement(facts, draft) || facts.new_replica_set().is_none() =>
        {
            moving(facts, draft, Reason::FirstDeploy)
        }
        Course::Resting | Course::FirstDeploy if is_at_rest(facts, draft) => {
            Standing::new(Phase::Completed, Reason::Completed)
        }
        Course::Resting | Course::FirstDeploy => {
            Standing::new(Phase::Progressing, Reason::StageMoving)
        }
        Course::Forward => forward(facts, draft),
        Course::Back => Standing::new(Phase::RollingBack, Reason::RollingBack),
        Course::RolledBack => match facts.of_revision(draft.status.stable_revision.as_deref()) {
            Some(_) => Standing::new(Phase::RolledBack, Reason::RolledBack),
            None => Standing::new(Phase::Stalled, Reason::StableLost),
        },
    }
}

/// Whether the Deployment rests as it should; once it did, a change of replicas on its way to the
/// native controller makes no difference.
fn is_at_rest(facts: &Facts<'_>, draft: &Draft) -> bool {
    let rested = facts.rollout.status.phase == Some(Phase::Completed)
        && facts.rollout.status.update_revision == draft.status.update_revision;
    rested || facts.is_observed() && Form::Rest.patch(facts, &draft.status).is_none()
}

fn forward(facts: &Facts<'_>, draft: &Draft) -> Standing {
    let status = &draft.status;
    let new = facts.new_replica_set();
    let last = status.stage == Some(facts.last_stage());
    let stable_lost = facts.of_revision(status.stable_revision.as_deref()).is_none();
    let all_new = last && new.is_some_and(|rs| rs.replicas == facts.replicas());
    if facts.spec.paused {
        Standing::new(Phase::Paused, Reason::Paused)
    } else if checks::failed(facts, status).is_some() {
        Standing::new(Phase::Stalled, Reason::ChecksFailed)
    } else if stable_lost && !all_new {
        Standing::new(Phase::Stalled, Reason::StableLost)
    } else if facts.replicas() == 0 {
        Standing::new(Phase::Progressing, Reason::ScaledToZero)
    } else if checks::unknown(facts, status).is_some() {
        Standing::new(Phase::Stalled, Reason::ChecksFailed)
    } else if !stages::is_reached(facts, status) {
        let standing = held_back(facts, draft, last)
            .unwrap_or_else(|| moving(facts, draft, Reason::StageMoving));
        let next_batch = interval::left(facts, status);
        let until = standing.until.into_iter().chain(next_batch).min();
        Standing { until, ..standing }
    } else if !stages::soaked(facts, status) {
        let until = Some(until_soaked(facts, status));
        Standing { until, ..Standing::new(Phase::Progressing, Reason::Soaking) }
    } else if !hooks::stage_is_told(facts, status) {
        moving(facts, draft, Reason::StageMoving)
    } else if checks::pending(facts, status).is_some() {
        Standing::new(Phase::Progressing, Reason::AwaitingChecks)
    } else if last {
        Standing::new(Phase::Progressing, Reason::StageMoving)
    } else {
        Standing::new(Phase::AwaitingApproval, Reason::AwaitingApproval)
    }
}

/// Where broken pods of the stable revision keep others from going, an approval is asked for all
/// the same, once it is clear that they are not merely starting.
fn held_back(facts: &Facts<'_>, draft: &Draft, last: bool) -> Option<Standing> {
    const PATIENCE: i64 = 10;
    let status = &draft.status;
    let reached =
        status.stage_reached_at.filter(|_| !last && stages::is_held_back(facts, status))?;
    let left = until(facts.now, reached, PATIENCE).max(until_soaked(facts, status));
    Some(if left.is_zero() && stages::may_be_left(facts, status) {
        Standing::new(Phase::AwaitingApproval, Reason::AwaitingApproval)
    } else {
        let until = (!left.is_zero()).then_some(left);
        Standing { until, ..moving(facts, draft, Reason::StageMoving) }
    })
}

fn moving(facts: &Facts<'_>, draft: &Draft, reason: Reason) -> Standing {
    let stable = facts.of_revision(draft.status.stable_revision.as_deref());
    let failure = [facts.new_replica_set(), stable]
        .into_iter()
        .flatten()
        .filter(|rs| rs.current < rs.replicas)
        .find_map(|rs| rs.failure.clone());
    let until = until_deadline(facts, &draft.status);
    if failure.is_some() {
        let stalled = Standing::new(Phase::Stalled, Reason::ReplicaFailure);
        return Standing {
            detail: failure,
            until: until.filter(|left| !left.is_zero()),
            ..stalled
        };
    }
    match until {
        Some(left) if left.is_zero() => {
            Standing::new(Phase::Stalled, Reason::ProgressDeadlineExceeded)
        }
        until => Standing { until, ..Standing::new(Phase::Progressing, reason) },
    }
}
