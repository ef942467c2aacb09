//! What a rollout waits for, and the exact command that comes next.

use jiff::Timestamp;

use super::{
    screen::{age, seconds_between},
    view::approved_stage,
};
use crate::api::{
    Approval, ConditionStatus, ConditionType, GrayRollout, GrayRolloutStatus, Phase, Reason,
};

/// What is waited for and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Next {
    /// What it waits for.
    pub waits_for: String,
    /// The command that comes next, with the plugin.
    pub command: String,
    /// The same with kubectl alone.
    pub kubectl: String,
}

/// The reason of the present phase.
#[must_use]
pub fn reason(status: &GrayRolloutStatus) -> Option<Reason> {
    let of = |type_| status.conditions.iter().find(move |c| c.type_ == type_);
    let holds = |type_| of(type_).filter(|c| c.status == ConditionStatus::True);
    let condition = holds(ConditionType::Stalled)
        .or_else(|| holds(ConditionType::AwaitingApproval))
        .or_else(|| holds(ConditionType::Progressing))
        .or_else(|| of(ConditionType::Ready));
    condition.map(|condition| condition.reason)
}

/// The message without the commands in it, which are shown apart.
#[must_use]
pub fn message(status: &GrayRolloutStatus) -> String {
    let message = status.message.as_deref().unwrap_or("the operator has not looked at it yet");
    let parts: Vec<_> = message.split("; ").filter(|part| !part.contains("kubectl ")).collect();
    if parts.is_empty() { message.to_owned() } else { parts.join("; ") }
}

/// A merge patch of a GrayRollout's status with plain kubectl.
#[must_use]
pub fn status_patch(name: &str, flags: &str, field: &str, value: &str) -> String {
    format!(
        "kubectl patch gr {name}{flags} --subresource=status --type=merge -p '{{\"status\":{{\"{field}\":{value}}}}}'"
    )
}

/// What comes next.
#[must_use]
pub fn next(gray: &GrayRollout, now: Timestamp, flags: &str) -> Next {
    let name = gray.metadata.name.as_deref().unwrap_or_default();
    let target = &gray.spec.target_ref.name;
    let status = gray.status.clone().unwrap_or_default();
    let rollout = status.rollout.unwrap_or(0);
    let told = |waits_for: &str, command: String, kubectl: String| Next {
        waits_for: waits_for.to_owned(),
        command,
        kubectl,
    };
    match status.phase {
        None => told(
            "the operator to look at it; is it running?",
            format!("kubectl gray status {name}{flags} --watch"),
            "kubectl get deployments -n grayrollout-system".into(),
        ),
        Some(Phase::Pending) => told(
            &format!("a Deployment {target}"),
            "kubectl apply -f FILE".into(),
            format!("kubectl get deployment {target}{flags}"),
        ),
        Some(Phase::Progressing) => progressing(gray, &status, now, flags),
        Some(Phase::AwaitingApproval) => {
            let stage = status.stage.unwrap_or(0) + 1;
            let percent = usize::try_from(stage - 1)
                .ok()
                .and_then(|at| gray.spec.stages.get(at))
                .map_or(0, |stage| stage.percent);
            told(
                &format!("approval of stage {stage} ({percent}%)"),
                format!("kubectl gray approve {name}{flags} --stage {stage} --rollout {rollout}"),
                status_patch(
                    name,
                    flags,
                    "approval",
                    &format!("{{\"rollout\":{rollout},\"stage\":{stage}}}"),
                ),
            )
        }
        Some(Phase::Paused) => told(
            "someone to let it go on",
            format!("kubectl gray resume {name}{flags}"),
            format!(
                "kubectl patch gr {name}{flags} --type=merge -p '{{\"spec\":{{\"paused\":false}}}}'"
            ),
        ),
        Some(Phase::Stalled) => stalled(name, target, &status, flags),
        Some(Phase::RollingBack) => told(
            "the pods of the stable revision",
            format!("kubectl gray wait {name}{flags} --for rolledback"),
            format!("kubectl wait --for=jsonpath='{{.status.phase}}'=RolledBack gr/{name}{flags}"),
        ),
        Some(Phase::RolledBack) => told(
            "another template, or a retry",
            format!("kubectl gray retry {name}{flags} --rollout {rollout}"),
            status_patch(name, flags, "retry", &format!("{{\"rollout\":{rollout}}}")),
        ),
        Some(Phase::Completed) => told(
            "nothing; another template starts the next rollout",
            format!("kubectl gray plan {name}{flags}"),
            format!("kubectl set image deployment/{target}{flags} CONTAINER=IMAGE"),
        ),
    }
}

fn progressing(
    gray: &GrayRollout,
    status: &GrayRolloutStatus,
    now: Timestamp,
    flags: &str,
) -> Next {
    let name = gray.metadata.name.as_deref().unwrap_or_default();
    let target = &gray.spec.target_ref.name;
    let stage = usize::try_from(status.stage.unwrap_or(0)).unwrap_or(0);
    let approved = usize::try_from(approved_stage(gray, status)).unwrap_or(0);
    let mut unapproved = stage.max(approved) + 1..=gray.spec.stages.len();
    let asks = unapproved.any(|stage| gray.spec.approval_of(stage) == Approval::Required);
    if let Some(what) = not_allowed(status) {
        let edit = format!("kubectl edit gr {name}{flags}");
        return Next {
            waits_for: format!(
                "{what}, which the operator may not call: change its URL, or the operator's flag --allow-urls"
            ),
            command: edit.clone(),
            kubectl: edit,
        };
    }
    let waits_for = match reason(status) {
        Some(Reason::ScaledToZero) => {
            return Next {
                waits_for: "replicas; the Deployment has none".into(),
                command: format!("kubectl scale deployment {target}{flags} --replicas=N"),
                kubectl: format!("kubectl scale deployment {target}{flags} --replicas=N"),
            };
        }
        Some(Reason::Soaking) => match soak_left(gray, status, now) {
            Some(left) => format!("the soak of stage {stage}, {} left", age(left)),
            None => format!("the soak of stage {stage}"),
        },
        Some(Reason::AwaitingChecks) => "checks to pass".into(),
        _ if waits_for_hook(status).is_some() => waits_for_hook(status).unwrap_or_default(),
        Some(Reason::FirstDeploy) => "the Deployment's first pods".into(),
        _ => {
            let count = status.update.as_ref().map_or(0, |t| (t.desired - t.available).max(0));
            match (step_left(gray, status, now), count) {
                (Some(left), _) => format!("the next pods to move, in {}", age(left)),
                (None, 0) => "pods of the old revision to go".into(),
                (None, 1) => "1 new pod to be available".into(),
                (None, _) => format!("{count} new pods to be available"),
            }
        }
    };
    let (goal, condition) =
        if stage > 0 && asks { ("approval", "AwaitingApproval") } else { ("completed", "Ready") };
    Next {
        waits_for,
        command: format!("kubectl gray wait {name}{flags} --for {goal}"),
        kubectl: format!("kubectl wait --for=condition={condition} gr/{name}{flags} --timeout=10m"),
    }
}

/// The hook that the message names.
fn waits_for_hook(status: &GrayRolloutStatus) -> Option<String> {
    let (_, hook) = status.message.as_deref()?.split_once("waiting for hook ")?;
    Some(format!("hook {}", hook.split(" at ").next().unwrap_or(hook)))
}

/// The hook or check that is waited for and whose URL the operator's flag --allow-urls refuses.
fn not_allowed(status: &GrayRolloutStatus) -> Option<String> {
    let refused = |message: &str| message.contains("--allow-urls");
    if waits_for_hook(status).is_some() {
        let hook = status.hooks.iter().find(|last| last.failures > 0 && refused(&last.message))?;
        return Some(format!("hook {}", hook.name));
    }
    let waits = reason(status) == Some(Reason::AwaitingChecks);
    let check = status.checks.iter().find(|last| waits && refused(&last.message))?;
    Some(format!("check {}", check.name))
}

/// Seconds that the present stage still soaks.
#[must_use]
pub fn soak_left(gray: &GrayRollout, status: &GrayRolloutStatus, now: Timestamp) -> Option<i64> {
    let at = usize::try_from(status.stage?).ok()?.checked_sub(1)?;
    let soak = i64::from(gray.spec.stages.get(at)?.soak_seconds?);
    let left = soak - seconds_between(status.stage_reached_at?, now);
    (left > 0).then_some(left)
}

/// Seconds until the next batch of pods, where every pod of the last one is available; `None`
/// where none waits for its time.
#[must_use]
pub fn step_left(gray: &GrayRollout, status: &GrayRolloutStatus, now: Timestamp) -> Option<i64> {
    let interval = i64::from(gray.spec.step_interval_seconds?);
    let left = interval - seconds_between(status.last_step?.time, now);
    let waits = status.update.as_ref().is_some_and(|track| {
        track.available == track.current && track.current > 0 && track.current < track.desired
    });
    (left > 0 && waits && status.stage_reached_at.is_none()).then_some(left)
}

fn stalled(name: &str, target: &str, status: &GrayRolloutStatus, flags: &str) -> Next {
    let rollout = status.rollout.unwrap_or(0);
    let same = |waits_for: &str, command: String| Next {
        waits_for: waits_for.to_owned(),
        kubectl: command.clone(),
        command,
    };
    match reason(status) {
        Some(Reason::InvalidSpec) => {
            same("a spec that can be followed", format!("kubectl edit gr {name}{flags}"))
        }
        Some(Reason::TargetConflict) => same(
            "one GrayRollout alone for this Deployment",
            format!("kubectl delete gr {name}{flags}"),
        ),
        Some(Reason::InvalidTemplate | Reason::UnsupportedStrategy) => same(
            "a Deployment that can be staged",
            format!("kubectl edit deployment {target}{flags}"),
        ),
        Some(Reason::ReplicaFailure) => same(
            "pods that can be created",
            format!(
                "kubectl describe replicasets{flags} -l pod-template-hash={}",
                status.update_revision.as_deref().unwrap_or_default()
            ),
        ),
        Some(Reason::StableLost) => {
            let stage = status.stages.unwrap_or(1);
            Next {
                waits_for: "an approval to go on with the new revision alone".into(),
                command: format!(
                    "kubectl gray approve {name}{flags} --stage {stage} --rollout {rollout}"
                ),
                kubectl: status_patch(
                    name,
                    flags,
                    "approval",
                    &format!("{{\"rollout\":{rollout},\"stage\":{stage}}}"),
                ),
            }
        }
        Some(Reason::ChecksFailed) => Next {
            waits_for: "checks that pass, another template, a retry, or an abort".into(),
            command: format!("kubectl gray abort {name}{flags} --rollout {rollout}"),
            kubectl: status_patch(name, flags, "abort", &format!("{{\"rollout\":{rollout}}}")),
        },
        _ if status.stage.is_some() => Next {
            waits_for: "pods that get available, another template, or an abort".into(),
            command: format!("kubectl gray abort {name}{flags} --rollout {rollout}"),
            kubectl: status_patch(name, flags, "abort", &format!("{{\"rollout\":{rollout}}}")),
        },
        _ => same(
            "pods that get available, or another template",
            format!("kubectl describe deployment {target}{flags}"),
        ),
    }
}
