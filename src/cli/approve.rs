//! `approve NAME`: bound to the rollout that was shown.

use std::{
    fmt::Write as _,
    io::{BufRead, IsTerminal, Write},
};

use serde_json::json;

use super::{
    Context,
    error::{Failure, said},
    output::{print_lines, say},
    plan, revisions,
    screen::{Line, Style, Tone},
    session::{Seen, Session},
    view::approved_stage,
};
use crate::{
    api::{GrayRolloutStatus, Phase, RollingUpdate, Strategy},
    plan::{Pods, preview_from},
};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Name of the GrayRollout.
    name: String,
    /// Highest stage to approve; the next one if left out.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..=20))]
    stage: Option<i32>,
    /// Number of the rollout that is meant; the one under way if left out. Another one is refused.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(1..=1_000_000_000))]
    rollout: Option<i64>,
    /// Do not ask.
    #[arg(short, long)]
    yes: bool,
}

pub async fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let session = context.session().await?;
    let seen = session.gray(&args.name).await?;
    let status = seen.gray.status.clone().unwrap_or_default();
    let meant = args.rollout.or(status.rollout).unwrap_or(0);
    if status.rollout.is_some_and(|rollout| rollout != meant) {
        return Err(superseded(&session, context.style, &args.name, meant, None).await);
    }
    let stage = stage_to_approve(args, &status, &session.flags)?;
    if approved_stage(&seen.gray, &status) >= stage {
        let by = status.approval.as_ref().and_then(|a| a.by.as_deref()).unwrap_or("someone");
        return say(format!("rollout {meant}: stage {stage} is approved already, by {by}"));
    }
    show(&seen, &status, stage, context.style)?;
    if !args.yes {
        ask(&format!("approve rollout {meant} up to stage {stage}?"))?;
    }
    let by = session.who_am_i().await;
    let approval = json!({ "approval": { "rollout": meant, "stage": stage, "by": by } });
    match session.patch_status(&args.name, approval).await {
        Ok(_) => say(format!("rollout {meant}: stage {stage} approved")),
        Err(kube::Error::Api(answer)) if answer.code == 422 => {
            let now = session.gray(&args.name).await?;
            let moved = now.gray.status.as_ref().and_then(|status| status.rollout) != Some(meant);
            if moved {
                let before = status.update_revision.as_deref();
                return Err(superseded(&session, context.style, &args.name, meant, before).await);
            }
            Err(Failure::Error(said(&answer)))
        }
        Err(error) => Err(session.status_request(&args.name).failure(error)),
    }
}

/// The stage to approve, or why there is none.
fn stage_to_approve(args: &Args, status: &GrayRolloutStatus, flags: &str) -> Result<i32, Failure> {
    let name = &args.name;
    let phase = status.phase.map_or("not known yet", Phase::as_str);
    let approvable = matches!(
        status.phase,
        Some(Phase::Progressing | Phase::AwaitingApproval | Phase::Paused | Phase::Stalled)
    );
    let (Some(at), Some(last), true) = (status.stage, status.stages, approvable) else {
        return Err(Failure::Error(format!(
            "nothing can be approved now: the phase is {phase}; see: kubectl gray status {name}{flags}"
        )));
    };
    let stage = args.stage.unwrap_or(at + 1);
    if at >= last && args.stage.is_none() {
        return Err(Failure::Error(format!(
            "there is nothing left to approve: the last stage, {last}, is entered already"
        )));
    }
    if stage > last {
        return Err(Failure::Usage(format!("there is no stage {stage}: the last one is {last}")));
    }
    Ok(stage)
}

/// What the approval will move.
fn show(seen: &Seen, status: &GrayRolloutStatus, stage: i32, style: Style) -> Result<(), Failure> {
    let replicas = status.replicas.unwrap_or(0);
    let own = status
        .own_strategy
        .clone()
        .unwrap_or(Strategy::RollingUpdate { rolling_update: RollingUpdate::default() });
    let track = |track: Option<&crate::api::Track>| track.map_or(0, |track| track.desired);
    let pods = Pods { new: track(status.update.as_ref()), old: track(status.stable.as_ref()) };
    let at = usize::try_from(status.stage.unwrap_or(0)).unwrap_or(0);
    let upto = usize::try_from(stage).unwrap_or(0);
    let mut stages = preview_from(&seen.gray.spec, &own, replicas, pods, at);
    stages.retain(|row| row.stage <= upto);
    let revision = status.update_revision.as_deref().unwrap_or("unknown");
    let head = format!(
        "{}: rollout {} of revision {revision}, now {} new and {} old pods",
        seen.gray.metadata.name.as_deref().unwrap_or_default(),
        status.rollout.unwrap_or(0),
        pods.new,
        pods.old
    );
    print_lines(&[Line::new().with(Tone::Strong, head)], style)?;
    super::output::print(&plan::table_of(&stages))
}

/// Asks a person; anything but yes is no.
fn ask(question: &str) -> Result<(), Failure> {
    if !std::io::stdin().is_terminal() {
        return Err(Failure::Usage(
            "there is nobody to ask, since standard input is no terminal; say --yes".into(),
        ));
    }
    eprint!("{question} [y/N] ");
    std::io::stderr().flush()?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    if matches!(answer.trim().to_lowercase().as_str(), "y" | "yes") {
        return Ok(());
    }
    Err(Failure::Error("not approved".into()))
}

/// Refuses an approval of a rollout that is no longer the present one, with what changed.
async fn superseded(
    session: &Session,
    style: Style,
    name: &str,
    meant: i64,
    before: Option<&str>,
) -> Failure {
    let now = match session.gray(name).await {
        Ok(now) => now,
        Err(failure) => return failure,
    };
    let status = now.gray.status.clone().unwrap_or_default();
    let rollout = status.rollout.unwrap_or(0);
    if meant > rollout {
        return Failure::Error(format!("there is no rollout {meant} yet: the latest is {rollout}"));
    }
    let ended = status.history.iter().find(|entry| entry.rollout == meant);
    let before = before.map(str::to_owned).or_else(|| ended.and_then(|e| e.revision.clone()));
    let update = status.update_revision.clone().unwrap_or_default();
    let how = ended.map_or_else(String::new, |entry| format!(" ({})", entry.result.as_str()));
    let mut text =
        format!("not approved: rollout {meant}{how} is over, rollout {rollout} is at hand");
    match before {
        Some(before) if before == update => {
            text.push_str(", of the same revision: it was retried, or its stages were edited");
        }
        Some(before) => {
            let _ = write!(text, "; revision {before} became {update}");
            let target = &now.gray.spec.target_ref.name;
            text.push_str(&differences(session, style, target, &before, &update).await);
        }
        None => {
            let _ = write!(text, "; its revision is {update}");
        }
    }
    let _ = write!(text, "\nlook at it with: kubectl gray status {name}{}", session.flags);
    Failure::Error(text)
}

async fn differences(
    session: &Session,
    style: Style,
    target: &str,
    before: &str,
    after: &str,
) -> String {
    let old = revisions::template(session, target, before).await;
    let new = revisions::template(session, target, after).await;
    let style = Style { color: style.color && std::io::stderr().is_terminal(), ..style };
    match (old, new) {
        (Ok(Some(old)), Ok(Some(new))) => {
            let lines = revisions::diff(&old, &new);
            let lines = lines.iter().map(|line| line.render(style));
            [String::new()].into_iter().chain(lines).collect::<Vec<_>>().join("\n")
        }
        (Err(failure), _) | (_, Err(failure)) => {
            format!("\nwhat changed cannot be shown: {}", failure.message())
        }
        _ => "\nwhat changed cannot be shown: a ReplicaSet of the two is gone".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to_approve(stage: Option<i32>, status: &GrayRolloutStatus) -> Result<i32, Failure> {
        let args = Args { name: "web".into(), stage, rollout: None, yes: false };
        stage_to_approve(&args, status, " -n shop")
    }

    fn status(phase: Phase, stage: Option<i32>) -> GrayRolloutStatus {
        GrayRolloutStatus { phase: Some(phase), stage, stages: Some(3), ..Default::default() }
    }

    #[test]
    fn the_next_stage_is_approved_unless_another_is_named() {
        let at = status(Phase::AwaitingApproval, Some(1));
        assert_eq!(to_approve(None, &at), Ok(2));
        assert_eq!(to_approve(Some(3), &at), Ok(3));
        assert_eq!(to_approve(None, &status(Phase::Progressing, Some(0))), Ok(1));
    }

    #[test]
    fn what_cannot_be_approved_says_why() {
        let last = to_approve(None, &status(Phase::Progressing, Some(3)));
        assert!(last.unwrap_err().message().contains("nothing left to approve"));
        let beyond = to_approve(Some(4), &status(Phase::AwaitingApproval, Some(1)));
        assert_eq!(beyond.unwrap_err().code(), 2);
        for phase in [Phase::Completed, Phase::RolledBack, Phase::RollingBack, Phase::Pending] {
            let none = to_approve(None, &status(phase, None)).unwrap_err();
            assert!(none.message().contains(phase.as_str()), "{none:?}");
            assert!(none.message().ends_with("kubectl gray status web -n shop"), "{none:?}");
        }
    }
}
