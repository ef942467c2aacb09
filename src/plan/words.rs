//! What people read: where the rollout stands, what it waits for and what to do.

use std::fmt::Write;

use super::{
    Admission, checks,
    course::{Course, Draft},
    drive::Moves,
    facts::Facts,
    interval,
    standing::Standing,
};
use crate::api::{GrayRolloutStatus, Phase, Reason, Track};

/// The message of the status and its conditions.
pub fn message(
    facts: &Facts<'_>,
    draft: &Draft,
    standing: &Standing,
    moves: &Moves,
    status: &GrayRolloutStatus,
) -> String {
    let mut text = match draft.course {
        Course::Resting | Course::FirstDeploy => resting(facts, draft, standing, status),
        Course::Forward => forward(facts, standing, status),
        Course::Back => back(status),
        Course::RolledBack => rolled_back(facts, standing, status),
    };
    if let Some(waits_for) = &moves.waits_for {
        text.push_str("; waiting for ");
        text.push_str(waits_for);
    }
    text
}

/// How the Deployment rests where that is not as it should be.
fn held(facts: &Facts<'_>) -> String {
    match facts.admission {
        Admission::Absent(why) => format!("; the Deployment rests paused, since {why}"),
        Admission::Holds { flaw: Some(flaw) } => format!("; {flaw}"),
        Admission::Holds { flaw: None } | Admission::Unknown => String::new(),
    }
}

fn count(track: Option<&Track>) -> (i32, i32) {
    track.map_or((0, 0), |track| (track.available, track.desired))
}

fn resting(
    facts: &Facts<'_>,
    draft: &Draft,
    standing: &Standing,
    status: &GrayRolloutStatus,
) -> String {
    let available = count(status.update.as_ref()).0;
    let replicas = facts.replicas();
    let revision = status.update_revision.as_deref().unwrap_or("unknown");
    match (standing.phase, draft.course) {
        (Phase::Completed, _) => {
            format!(
                "revision {revision}: {available} of {replicas} pods available; nothing is rolling out{}",
                held(facts)
            )
        }
        (Phase::Stalled, _) => stalled(facts, standing, status),
        (_, Course::FirstDeploy) => {
            format!(
                "first deployment, revision {revision}: {available} of {replicas} pods available"
            )
        }
        (Phase::RollingBack, _) => format!("removing pods of other revisions than {revision}"),
        _ => format!(
            "revision {revision}: {available} of {replicas} pods available; taking the Deployment over"
        ),
    }
}

fn place(facts: &Facts<'_>, status: &GrayRolloutStatus) -> String {
    let (rollout, stage) = (status.rollout.unwrap_or(0), status.stage.unwrap_or(0));
    let last = facts.last_stage();
    if stage == 0 {
        format!("rollout {rollout}, no stage of {last} entered yet")
    } else {
        format!("rollout {rollout}, stage {stage} of {last} ({}%)", facts.percent(stage))
    }
}

fn forward(facts: &Facts<'_>, standing: &Standing, status: &GrayRolloutStatus) -> String {
    let place = place(facts, status);
    let (available, desired) = count(status.update.as_ref());
    let replicas = facts.replicas();
    let pods = format!("{available} of {desired} new pods available, {replicas} replicas");
    let no_gray = desired == 0 && replicas == 1 && status.stage.unwrap_or(0) > 0;
    let mut pods = if no_gray {
        "no new pod, since a single pod cannot be split without a surge".to_owned()
    } else {
        pods
    };
    let (old, kept) = count(status.stable.as_ref());
    if old < kept.min(status.stable.as_ref().map_or(0, |stable| stable.current)) {
        let _ = write!(pods, ", only {old} of {kept} stable pods available");
    }
    match (standing.phase, standing.reason) {
        (Phase::Paused, _) => format!(
            "{place}: {pods}; paused; go on with: kubectl patch gr {} -n {} --type=merge -p '{{\"spec\":{{\"paused\":false}}}}'",
            facts.rollout.name, facts.rollout.namespace
        ),
        (Phase::Stalled, _) => stalled(facts, standing, status),
        (_, Reason::ScaledToZero) => {
            format!("{place}: the Deployment has no replicas; it goes on once it is scaled up")
        }
        (Phase::AwaitingApproval, _) => {
            let kept = match status.split {
                Some(_) => "; they stay as they are, since no stage is like that",
                None => "",
            };
            format!("{place}: {pods}{kept}; {}", approve(facts, status))
        }
        (_, Reason::Soaking) => {
            let soak = facts.soak_seconds(status.stage.unwrap_or(0));
            let since =
                status.stage_reached_at.map_or_else(String::new, |at| format!(" since {at}"));
            format!("{place}: {pods}; soaking for {soak} s{since}")
        }
        (_, Reason::AwaitingChecks) => {
            format!("{place}: {pods}; waiting for {}", checks::words(facts, status))
        }
        _ if facts.spec.paused => format!("{place}: {pods}"),
        _ => {
            let doing = interval::due(facts, status).unwrap_or_else(|| "moving".into());
            format!("{place}: {pods}; {doing}")
        }
    }
}

fn approve(facts: &Facts<'_>, status: &GrayRolloutStatus) -> String {
    let next = status.stage.unwrap_or(0).saturating_add(1);
    format!(
        "approve stage {next} ({}%) with: kubectl patch gr {} -n {} --subresource=status --type=merge -p '{{\"status\":{{\"approval\":{{\"rollout\":{},\"stage\":{next}}}}}}}'",
        facts.percent(next),
        facts.rollout.name,
        facts.rollout.namespace,
        status.rollout.unwrap_or(0),
    )
}

fn stalled(facts: &Facts<'_>, standing: &Standing, status: &GrayRolloutStatus) -> String {
    let place = place(facts, status);
    let (available, desired) = count(status.update.as_ref());
    match standing.reason {
        Reason::StableLost if status.stage.is_none() => format!(
            "rollout {} was given up, and the ReplicaSet of the stable revision {} is gone; set another template, or start it again with: {}",
            status.rollout.unwrap_or(0),
            status.stable_revision.as_deref().unwrap_or("unknown"),
            retry(facts, status),
        ),
        Reason::StableLost => format!(
            "{place}: the ReplicaSet of the stable revision {} is gone, so there is nothing to go back to and an abort changes nothing; approve a stage to go on with the new revision alone, or set another template",
            status.stable_revision.as_deref().unwrap_or("unknown"),
        ),
        Reason::ReplicaFailure => format!(
            "{place}: pods cannot be created: {}; it goes on by itself once they can",
            standing.detail.as_deref().unwrap_or("no reason is given"),
        ),
        Reason::ChecksFailed if checks::failed(facts, status).is_some() => format!(
            "{place}: {}; set another template, abort, or start it again with: {}",
            checks::words(facts, status),
            retry(facts, status),
        ),
        Reason::ChecksFailed => format!(
            "{place}: no result of {}; it goes on by itself once it passes",
            checks::words(facts, status),
        ),
        _ => format!(
            "{place}: {available} of {desired} new pods available and no progress within the deadline; fix the pods or set another template{}",
            if status.stage.is_some() { ", or abort" } else { "" },
        ),
    }
}

fn back(status: &GrayRolloutStatus) -> String {
    let (available, desired) = count(status.stable.as_ref());
    format!(
        "rollout {}: going back to revision {}: {available} of {desired} pods available",
        status.rollout.unwrap_or(0),
        status.stable_revision.as_deref().unwrap_or("unknown"),
    )
}

fn rolled_back(facts: &Facts<'_>, standing: &Standing, status: &GrayRolloutStatus) -> String {
    if standing.phase == Phase::Stalled {
        return stalled(facts, standing, status);
    }
    format!(
        "rollout {} was given up{}; every pod runs the stable revision {}; set another template, or start it again with: {}",
        status.rollout.unwrap_or(0),
        checks::why_given_up(status),
        status.stable_revision.as_deref().unwrap_or("unknown"),
        retry(facts, status),
    )
}

fn retry(facts: &Facts<'_>, status: &GrayRolloutStatus) -> String {
    format!(
        "kubectl patch gr {} -n {} --subresource=status --type=merge -p '{{\"status\":{{\"retry\":{{\"rollout\":{}}}}}}}'",
        facts.rollout.name,
        facts.rollout.namespace,
        status.rollout.unwrap_or(0),
    )
}
