//! Snapshots and plans in a few lines, for people who read a failure.

use std::fmt::Write;

use grayrollout::{
    api::GrayRolloutStatus,
    plan::{Action, Orphan, Plan, ReleasePlan, ReplicaSet, Snapshot, Target},
};

use crate::world::{hash, strategy_text};

/// Templates are numbers here; their fingerprints are not for people.
fn template(of: grayrollout::plan::TemplateHash) -> String {
    let known = (0..100).find(|number| hash(*number) == of);
    known.map_or_else(|| of.to_string(), |number| format!("v{number}"))
}

pub fn set(set: &ReplicaSet) -> String {
    format!(
        "{} ({}) {} pods asked, {} there, {} available, {} terminating, annotations {:?}/{:?}{}",
        set.revision,
        template(set.template),
        set.replicas,
        set.current,
        set.available,
        set.terminating,
        set.desired_annotation,
        set.max_annotation,
        if set.observed_generation < set.generation { ", not observed" } else { "" },
    )
}

fn target(target: &Target) -> String {
    format!(
        "Deployment {} R={} {} {}{} original {} rollout {:?}",
        template(target.template),
        target.replicas,
        if target.paused { "paused" } else { "unpaused" },
        strategy_text(&target.strategy),
        if target.observed_generation < target.generation { ", not observed," } else { "" },
        match &target.original {
            None => "absent".into(),
            Some(Err(why)) => format!("unreadable ({why})"),
            Some(Ok(original)) => format!(
                "(number {}, paused {}, {}, stable {:?}, {:?})",
                original.rollout,
                original.paused,
                original.strategy.as_ref().map_or_else(|| "no strategy".into(), strategy_text),
                original.stable,
                original.on_delete,
            ),
        },
        target.rollout_annotation,
    )
}

pub fn status(status: &GrayRolloutStatus) -> String {
    let asked = |what: &str, number: Option<i64>| {
        number.map_or_else(String::new, |number| format!(" {what} {number}"))
    };
    let approval = status.approval.as_ref();
    let history: Vec<_> = status
        .history
        .iter()
        .map(|entry| format!("{}:{:?}", entry.rollout, entry.result))
        .collect();
    let conditions: Vec<_> = status
        .conditions
        .iter()
        .map(|condition| {
            format!("{:?}={:?}/{:?}", condition.type_, condition.status, condition.reason)
        })
        .collect();
    format!(
        "{:?} rollout {:?} stage {:?} of {:?} split {:?} reached {:?} progress {:?} stable {:?} \
         update {:?}{}{}{} history [{}] {} | {}",
        status.phase,
        status.rollout,
        status.stage,
        status.stage_percents,
        status.split.map(|split| (split.replicas, split.update)),
        status.stage_reached_at,
        status.last_progress.as_ref().map(|last| (last.time, last.available)),
        status.stable_revision,
        status.update_revision,
        approval.map_or_else(String::new, |a| format!(" approval {}/{}", a.rollout, a.stage)),
        asked("abort", status.abort.as_ref().map(|abort| abort.rollout)),
        asked("retry", status.retry.as_ref().map(|retry| retry.rollout)),
        history.join(" "),
        conditions.join(" "),
        status.message.as_deref().unwrap_or(""),
    )
}

pub fn snapshot(snapshot: &Snapshot) -> String {
    let mut text = format!("  now    {}\n", snapshot.now);
    if let Ok(spec) = &snapshot.rollout.spec {
        let stages: Vec<_> = spec
            .stages
            .iter()
            .map(|stage| {
                format!("{}%/{:?}/{:?}", stage.percent, stage.soak_seconds, stage.approval)
            })
            .collect();
        let _ = writeln!(
            text,
            "  spec   [{}] paused {} surge {:?} unavailable {:?} deadline {:?} interval {:?} {:?} {:?} wait {} approval {:?}",
            stages.join(" "),
            spec.paused,
            spec.max_surge,
            spec.max_unavailable,
            spec.progress_deadline_seconds,
            spec.step_interval_seconds,
            spec.on_failure,
            spec.on_delete,
            spec.wait_for_termination,
            spec.approval,
        );
    }
    let _ = writeln!(text, "  status {}", status(&snapshot.rollout.status));
    if let Some(seen) = &snapshot.target {
        let _ = writeln!(text, "  {}", target(seen));
    }
    for seen in &snapshot.replica_sets {
        let _ = writeln!(text, "  {}", set(seen));
    }
    text
}

pub fn orphan(orphan: &Orphan) -> String {
    let mut text = format!("  {}\n", target(&orphan.target));
    for seen in &orphan.replica_sets {
        let _ = writeln!(text, "  {}", set(seen));
    }
    text
}

fn action(action: &Action) -> String {
    match action {
        Action::PatchDeployment(patch) => format!(
            "patch Deployment: paused {:?}, {}, original {:?}, rollout {:?}, template of {:?}",
            patch.paused,
            patch.strategy.as_ref().map_or_else(|| "strategy kept".into(), strategy_text),
            patch.original,
            patch.rollout,
            patch.template_of,
        ),
        Action::CreateReplicaSet { template: of, replicas, desired, max } => {
            format!("create {} with {replicas}, {desired:?}/{max:?}", template(*of))
        }
        Action::ScaleReplicaSet { name, replicas, desired, max, .. } => {
            format!("scale {name} to {replicas}, {desired:?}/{max:?}")
        }
        Action::DeleteReplicaSet { name, .. } => format!("delete {name}"),
    }
}

fn actions(text: &mut String, actions: &[Action]) {
    for step in actions {
        let _ = writeln!(text, "  - {}", action(step));
    }
}

pub fn plan(plan: &Plan) -> String {
    let mut text = format!(
        "  write {:?}, again after {:?}\n  {}\n",
        plan.write,
        plan.requeue_after,
        status(&plan.status)
    );
    actions(&mut text, &plan.actions);
    text
}

pub fn release(plan: &ReleasePlan) -> String {
    let mut text = format!("  again after {:?}\n", plan.requeue_after);
    actions(&mut text, &plan.actions);
    text
}
