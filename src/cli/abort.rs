//! `abort NAME`: back to the stable revision.

use serde_json::json;

use super::{Context, error::Failure, next::reason, output::say};
use crate::api::{GrayRolloutStatus, Phase, Reason};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Name of the GrayRollout.
    pub name: String,
    /// Number of the rollout that is meant; the one under way if left out. Another one is refused.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(1..=1_000_000_000))]
    pub rollout: Option<i64>,
}

pub async fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let session = context.session().await?;
    let status = session.gray(&args.name).await?.gray.status.unwrap_or_default();
    let rollout = to_abort(args, &status, &session.flags)?;
    let abort = json!({ "abort": { "rollout": rollout } });
    let sent = session.patch_status(&args.name, abort).await;
    sent.map_err(|error| session.status_request(&args.name).failure(error))?;
    say(format!(
        "rollout {rollout}: aborted, going back to revision {}; follow it with: kubectl gray status {}{} --watch",
        status.stable_revision.as_deref().unwrap_or("unknown"),
        args.name,
        session.flags
    ))
}

/// The rollout to abort, or why there is none.
fn to_abort(args: &Args, status: &GrayRolloutStatus, flags: &str) -> Result<i64, Failure> {
    let name = &args.name;
    let rollout = args.rollout.or(status.rollout).unwrap_or(0);
    let phase = status.phase.map_or("not known yet", Phase::as_str);
    if rollout == 0 || status.stage.is_none() && status.phase == Some(Phase::Completed) {
        return Err(Failure::Error(format!(
            "nothing can be aborted: nothing is rolling out, the phase is {phase}; for an earlier version: kubectl gray undo {name}{flags} --to-revision=N"
        )));
    }
    if reason(status) == Some(Reason::StableLost) {
        return Err(Failure::Error(format!(
            "nothing can be aborted: the ReplicaSet of the stable revision {} is gone, so there is nothing to go back to; set another template, or go on: kubectl gray status {name}{flags}",
            status.stable_revision.as_deref().unwrap_or("unknown")
        )));
    }
    Ok(rollout)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{Condition, ConditionStatus, ConditionType};

    fn abort(status: &GrayRolloutStatus) -> Result<i64, Failure> {
        to_abort(&Args { name: "web".into(), rollout: None }, status, " -n shop")
    }

    fn status(phase: Phase, rollout: i64, stage: Option<i32>) -> GrayRolloutStatus {
        let (phase, rollout) = (Some(phase), Some(rollout));
        GrayRolloutStatus { phase, rollout, stage, ..Default::default() }
    }

    #[test]
    fn the_rollout_under_way_is_meant() {
        assert_eq!(abort(&status(Phase::Progressing, 3, Some(1))), Ok(3));
        assert_eq!(abort(&status(Phase::AwaitingApproval, 3, Some(0))), Ok(3));
    }

    #[test]
    fn what_cannot_be_aborted_says_how_to_go_back() {
        for rollout in [0, 3] {
            let why = abort(&status(Phase::Completed, rollout, None)).unwrap_err();
            let advice = "Completed; for an earlier version: kubectl gray undo web -n shop";
            assert!(why.message().contains(advice), "{why:?}");
        }
    }

    #[test]
    fn without_a_stable_revision_there_is_no_way_back() {
        let lost = Condition {
            type_: ConditionType::Stalled,
            status: ConditionStatus::True,
            observed_generation: None,
            last_transition_time: jiff::Timestamp::UNIX_EPOCH,
            reason: Reason::StableLost,
            message: String::new(),
        };
        let stalled = status(Phase::Stalled, 3, Some(1));
        let why = abort(&GrayRolloutStatus { conditions: vec![lost], ..stalled }).unwrap_err();
        assert!(why.message().contains("nothing to go back to"), "{why:?}");
    }
}
