//! `wait NAME --for approval|completed|rolledback`.

use std::{pin::pin, time::Duration};

use clap::ValueEnum;
use futures::StreamExt;
use serde_json::Value;

use super::{
    Context,
    error::Failure,
    next,
    output::say,
    revisions,
    session::Session,
    status::{Change, changes},
};
use crate::api::{
    ConditionStatus, ConditionType, GrayRollout, GrayRolloutStatus, HistoryResult, Phase, Reason,
};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Name of the GrayRollout.
    name: String,
    /// What to wait for.
    #[arg(long = "for", value_enum, value_name = "WHAT")]
    goal: Goal,
    /// Longest time to wait, e.g. 90s, 10m, 1h.
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = time)]
    timeout: Duration,
}

/// What can be waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Goal {
    /// A stage waits for its approval.
    Approval,
    /// The Deployment's template is fully rolled out.
    Completed,
    /// The rollout has gone back.
    #[value(name = "rolledback")]
    RolledBack,
}

/// A time as kubectl takes it; a bare number is seconds.
fn time(text: &str) -> Result<Duration, String> {
    let text =
        if text.bytes().all(|b| b.is_ascii_digit()) { format!("{text}s") } else { text.into() };
    let span: jiff::SignedDuration =
        text.parse().map_err(|_| "it is a time such as 90s, 10m or 1h".to_owned())?;
    Duration::try_from(span).map_err(|_| "it is a time above 0".to_owned())
}

pub async fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let session = context.session().await?;
    let seen = session.gray(&args.name).await?;
    // What the status says of another template is old news: the operator may not have seen the
    // present one yet.
    let template = session
        .deployment(&seen.gray.spec.target_ref.name)
        .await
        .ok()
        .and_then(|deployment| deployment.pointer("/spec/template").cloned());
    let mut last = next::message(&seen.gray.status.clone().unwrap_or_default());
    let waited = tokio::time::timeout(args.timeout, follow(args, &session, template, &mut last));
    let said = match waited.await {
        Ok(said) => said?,
        Err(_) => {
            return Err(Failure::Timeout(format!(
                "not within {} s: {last}",
                args.timeout.as_secs()
            )));
        }
    };
    say(said)
}

async fn follow(
    args: &Args,
    session: &Session,
    template: Option<Value>,
    last: &mut String,
) -> Result<String, Failure> {
    let mut changes = pin!(changes(session, &args.name));
    let mut bound = Bound::default();
    let mut fresh = template.is_none();
    while let Some(change) = changes.next().await {
        let gray = match change {
            Change::Seen(gray) => gray,
            Change::Gone => {
                return Err(Failure::Impossible(format!(
                    "the GrayRollout {} was deleted",
                    args.name
                )));
            }
            Change::Trouble(why) => {
                eprintln!("warning: {why}");
                continue;
            }
            Change::Failed(failure) => return Err(failure),
        };
        let status = gray.status.clone().unwrap_or_default();
        *last = next::message(&status);
        if let (false, Some(template)) = (fresh, &template) {
            fresh = speaks_of(session, &gray, &status, template).await;
        }
        if fresh && let Some(outcome) = bound.judge(args.goal, &gray, &status) {
            return outcome.map(|()| format!("{}: {last}", args.name)).map_err(Failure::Impossible);
        }
    }
    Err(Failure::Error("the watch ended".into()))
}

/// Whether a status is about this template.
async fn speaks_of(
    session: &Session,
    gray: &GrayRollout,
    status: &GrayRolloutStatus,
    template: &Value,
) -> bool {
    let Some(hash) = revisions::fingerprint(template) else { return true };
    if status.template_hash.as_deref() == Some(&hash.to_string()) {
        return true;
    }
    // An upgraded API server may fill in new defaults; the ReplicaSet has them too.
    let revision = status.update_revision.as_deref().unwrap_or_default();
    let target = &gray.spec.target_ref.name;
    match revisions::template(session, target, revision).await {
        Ok(Some(of_set)) => revisions::fingerprint(&of_set) == Some(hash),
        Ok(None) => false,
        // Whoever may not see ReplicaSets has the status alone to go by.
        Err(_) => true,
    }
}

/// The rollout that is waited for, once it is known.
#[derive(Debug, Default)]
struct Bound {
    revision: Option<String>,
}

impl Bound {
    /// Whether the goal is reached, or cannot be any more; `None` while it may be.
    fn judge(
        &mut self,
        goal: Goal,
        gray: &GrayRollout,
        status: &GrayRolloutStatus,
    ) -> Option<Result<(), String>> {
        if status.observed_generation < gray.metadata.generation {
            return None;
        }
        let revision =
            self.revision.get_or_insert_with(|| status.update_revision.clone().unwrap_or_default());
        let phase = status.phase?;
        if status.update_revision.as_ref() != Some(revision) && goal != Goal::RolledBack {
            return Some(Err(format!(
                "another template took the place of revision {revision}: rollout {} is at hand",
                status.rollout.unwrap_or(0)
            )));
        }
        let ready = status.conditions.iter().any(|condition| {
            condition.type_ == ConditionType::Ready && condition.status == ConditionStatus::True
        });
        let reverted =
            status.history.first().is_some_and(|e| e.result == HistoryResult::RevertedByTemplate);
        match (goal, phase) {
            (Goal::Approval, Phase::AwaitingApproval) | (Goal::RolledBack, Phase::RolledBack) => {
                Some(Ok(()))
            }
            (Goal::Completed, Phase::Completed) => ready.then_some(Ok(())),
            (Goal::RolledBack, Phase::Completed) if reverted => Some(Ok(())),
            (Goal::Approval | Goal::RolledBack, Phase::Completed)
            | (Goal::Approval | Goal::Completed, Phase::RollingBack | Phase::RolledBack) => {
                Some(Err(format!("{}: {}", phase.as_str(), next::message(status))))
            }
            // The way back may be asked for at any time; all else needs someone to act first.
            (Goal::Approval | Goal::Completed, Phase::Stalled)
                if next::reason(status) != Some(Reason::ReplicaFailure) =>
            {
                Some(Err(format!("{}: {}", phase.as_str(), next::message(status))))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn judged(goal: Goal, status: &Value) -> Option<Result<(), String>> {
        judge_all(goal, &[status])
    }

    fn judge_all(goal: Goal, statuses: &[&Value]) -> Option<Result<(), String>> {
        let mut bound = Bound::default();
        let mut last = None;
        for status in statuses {
            let gray: GrayRollout = serde_json::from_value(json!({
                "apiVersion": "grayrollout.dev/v1alpha1", "kind": "GrayRollout",
                "metadata": {"name": "web", "generation": 1},
                "spec": {"targetRef": {"name": "web"}, "stages": [{"percent": 100}]},
                "status": status,
            }))
            .unwrap();
            let status = gray.status.clone().unwrap();
            last = bound.judge(goal, &gray, &status);
        }
        last
    }

    fn status(phase: &str, revision: &str) -> Value {
        json!({"phase": phase, "updateRevision": revision, "observedGeneration": 1, "message": "m"})
    }

    #[test]
    fn goals_are_reached() {
        assert_eq!(judged(Goal::Approval, &status("AwaitingApproval", "a")), Some(Ok(())));
        assert_eq!(judged(Goal::RolledBack, &status("RolledBack", "a")), Some(Ok(())));
        let mut completed = status("Completed", "a");
        assert_eq!(judged(Goal::Completed, &completed), None, "not available yet");
        completed["conditions"] = json!([{
            "type": "Ready", "status": "True", "reason": "Completed", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }]);
        assert_eq!(judged(Goal::Completed, &completed), Some(Ok(())));
    }

    #[test]
    fn what_cannot_happen_any_more_is_given_up() {
        for (goal, phase) in [
            (Goal::Approval, "Completed"),
            (Goal::Approval, "RolledBack"),
            (Goal::Completed, "RollingBack"),
            (Goal::Completed, "Stalled"),
            (Goal::RolledBack, "Completed"),
        ] {
            assert!(judged(goal, &status(phase, "a")).unwrap().is_err(), "{goal:?} {phase}");
        }
        for (goal, phase) in [
            (Goal::Approval, "Progressing"),
            (Goal::Approval, "Paused"),
            (Goal::Completed, "AwaitingApproval"),
            (Goal::RolledBack, "Stalled"),
        ] {
            assert_eq!(judged(goal, &status(phase, "a")), None, "{goal:?} {phase}");
        }
    }

    #[test]
    fn another_template_ends_the_wait() {
        let (first, second) = (status("Progressing", "a"), status("Progressing", "b"));
        assert!(judge_all(Goal::Completed, &[&first, &second]).unwrap().unwrap_err().contains('a'));
        let mut edited = first.clone();
        edited["rollout"] = json!(9);
        assert_eq!(judge_all(Goal::Completed, &[&first, &edited]), None);
    }

    #[test]
    fn a_status_of_an_older_spec_is_no_news() {
        let mut old = status("AwaitingApproval", "a");
        old["observedGeneration"] = json!(0);
        assert_eq!(judged(Goal::Approval, &old), None);
    }

    #[test]
    fn times_are_taken_as_kubectl_takes_them() {
        for (text, seconds) in [("90s", 90), ("10m", 600), ("1h", 3600), ("5", 5)] {
            assert_eq!(time(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for bad in ["", "x", "-5s"] {
            assert!(time(bad).is_err(), "{bad}");
        }
    }
}
