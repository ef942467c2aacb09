//! Everyone else: users, approvers, HPA, GitOps, and hands that touch what they should not.

use grayrollout::{
    api::{
        Abort, Approval, GrayRolloutStatus, IntOrPercent, OnDelete, Phase, Retry, SpecApproval,
        StatusApproval,
    },
    plan::{RollingUpdate, Strategy},
};

use crate::{
    admission,
    world::{World, share, spec, stages, target},
};

/// Something that someone does. What the API server would refuse changes nothing.
#[derive(Debug, Clone, PartialEq)]
pub enum Act {
    /// A template is set, perhaps one that was there before.
    Template(u32),
    /// The template and the replicas in one write.
    TemplateAndReplicas(u32, i32),
    /// HPA or a user sets spec.replicas.
    Replicas(i32),
    /// `kubectl rollout resume`.
    Resume,
    /// `kubectl rollout pause`.
    PauseDeployment,
    /// The manifest is applied again: unpaused, the user's own strategy.
    GitOps,
    /// The user's own strategy gets another maxSurge; in the middle of a rollout that is drift.
    OwnStrategy(String),
    /// An annotation that is none of ours changes.
    Annotate(u32),
    /// Somebody removes our annotations.
    RemoveAnnotations,
    /// A hand scales the n-th ReplicaSet.
    ScaleSet(usize, i32),
    /// A hand deletes the n-th ReplicaSet.
    DeleteSet(usize),
    /// Approves the next stage of the rollout at hand.
    ApproveNext,
    /// Approves all its stages.
    ApproveAll,
    /// Approves a rollout number that is `back` ago.
    ApproveStale(i64),
    /// Approves a stage that does not exist.
    ApproveTooHigh,
    /// The same through spec.approval, for a number that may be wrong.
    ApproveInGit(i64, i32),
    Abort,
    AbortStale,
    Retry,
    Pause(bool),
    Stages(Vec<i32>),
    /// Soak seconds of every stage.
    Soak(i32),
    /// The least seconds between two batches.
    StepInterval(Option<i32>),
    /// Whether every stage is automatic.
    Automatic(bool),
    /// What deleting the GrayRollout is to do.
    OnDelete(OnDelete),
    WaitForTermination(bool),
    DeleteGray,
    CreateGray,
    DeleteDeployment,
    /// The Deployment comes back under the same name.
    CreateDeployment,
    /// The operator's part of the status and all else in it is lost.
    LoseStatus,
    /// Pods of a template never get ready, or do.
    Broken(u32, bool),
    /// The n-th pod fails; it gets ready again after a while.
    PodFails(usize),
    Quota(bool),
}

/// Whether the CRD's CEL rules let a request through.
fn allowed(status: &GrayRolloutStatus, rollout: i64, phases: &[Phase]) -> bool {
    status.rollout == Some(rollout) && status.phase.is_some_and(|phase| phases.contains(&phase))
}

const OPEN: [Phase; 4] =
    [Phase::Progressing, Phase::AwaitingApproval, Phase::Paused, Phase::Stalled];

fn approve(world: &mut World, rollout: i64, stage: i32) {
    let status = world.status();
    let fits = status.stage.is_some() && status.stages.is_some_and(|stages| stage <= stages);
    if fits && stage >= 1 && allowed(&status, rollout, &OPEN) {
        let by = Some("alice".to_owned());
        world.change_status(|status| status.approval = Some(StatusApproval { rollout, stage, by }));
    } else {
        world.say("  refused by the API server");
    }
}

/// Lets someone do something.
pub fn act(world: &mut World, act: &Act) {
    world.say(&format!("{act:?}"));
    let before = world.cluster.deployment.clone();
    perform(world, act);
    if let Some(before) = before.filter(|_| world.policed) {
        admission::admit(world, &before);
    }
}

#[allow(clippy::too_many_lines)] // one arm for each act
fn perform(world: &mut World, act: &Act) {
    let status = world.status();
    let number = status.rollout.unwrap_or(0);
    let own = world.user_strategy.clone();
    match act {
        Act::Template(template) => {
            world.cluster.change_deployment(|deployment| deployment.template = *template);
        }
        Act::TemplateAndReplicas(template, replicas) => {
            world.cluster.change_deployment(|deployment| {
                deployment.template = *template;
                deployment.replicas = *replicas;
            });
        }
        Act::Replicas(replicas) => {
            world.cluster.change_deployment(|deployment| deployment.replicas = *replicas);
        }
        Act::Resume => world.cluster.change_deployment(|deployment| deployment.paused = false),
        Act::PauseDeployment => {
            world.cluster.change_deployment(|deployment| deployment.paused = true);
        }
        Act::GitOps => world.cluster.change_deployment(|deployment| {
            deployment.paused = false;
            deployment.strategy = own;
        }),
        Act::Annotate(value) => world.cluster.change_deployment(|deployment| {
            deployment.annotations.insert("note".into(), value.to_string());
        }),
        Act::ScaleSet(index, size) => {
            if let Some(uid) = nth_set(world, *index) {
                world.cluster.change_replica_set(&uid, |set| set.replicas = *size);
            }
        }
        Act::DeleteSet(index) => {
            if let Some(uid) = nth_set(world, *index) {
                world.cluster.delete_replica_set(&uid);
            }
        }
        Act::ApproveNext => approve(world, number, status.stage.unwrap_or(0) + 1),
        Act::ApproveAll => approve(world, number, status.stages.unwrap_or(1)),
        Act::ApproveStale(back) => approve(world, number - back, 1),
        Act::ApproveTooHigh => approve(world, number, status.stages.unwrap_or(0) + 1),
        Act::ApproveInGit(offset, stage) => {
            let revision = status.update_revision.unwrap_or_else(|| "none".into());
            let rollout = (number + offset).max(1);
            let stage = *stage;
            world.change_spec(|spec| {
                let count = i32::try_from(spec.stages.len()).unwrap_or(i32::MAX);
                spec.approval = Some(SpecApproval {
                    rollout,
                    revision,
                    stage: stage.clamp(1, count),
                    by: None,
                });
            });
        }
        Act::Abort | Act::AbortStale => {
            let rollout = number - i64::from(*act == Act::AbortStale);
            let mut phases = OPEN.to_vec();
            phases.push(Phase::RollingBack);
            if status.stage.is_some() && allowed(&status, rollout, &phases) {
                world.change_status(|status| status.abort = Some(Abort { rollout }));
            } else {
                world.say("  refused by the API server");
            }
        }
        Act::Retry => {
            let phases = [Phase::Stalled, Phase::RollingBack, Phase::RolledBack];
            if allowed(&status, number, &phases) {
                world.change_status(|status| status.retry = Some(Retry { rollout: number }));
            } else {
                world.say("  refused by the API server");
            }
        }
        Act::Pause(paused) => world.change_spec(|spec| spec.paused = *paused),
        Act::Stages(percents) => world.change_spec(|spec| {
            let percents = stages(percents);
            spec.stages = percents;
            // As the API server demands of the two together.
            let count = i32::try_from(spec.stages.len()).unwrap_or(i32::MAX);
            spec.approval = spec.approval.take().filter(|given| given.stage <= count);
        }),
        Act::StepInterval(seconds) => {
            world.change_spec(|spec| spec.step_interval_seconds = *seconds);
        }
        Act::Soak(seconds) => world.change_spec(|spec| {
            for stage in &mut spec.stages {
                stage.soak_seconds = (*seconds > 0).then_some(*seconds);
            }
        }),
        Act::Automatic(automatic) => world.change_spec(|spec| {
            for stage in &mut spec.stages {
                stage.approval = automatic.then_some(Approval::Automatic);
            }
        }),
        Act::OnDelete(what) => world.change_spec(|spec| spec.on_delete = *what),
        Act::WaitForTermination(wait) => {
            world.change_spec(|spec| spec.wait_for_termination = *wait);
        }
        // What is remembered in one place alone cannot be lost there too.
        Act::DeleteGray | Act::LoseStatus | Act::OwnStrategy(_) if is_forgotten(world) => {
            world.say("  not here: nobody would know any more");
        }
        Act::RemoveAnnotations if !is_remembered(world) => {
            world.say("  not here: nobody would know any more");
        }
        Act::RemoveAnnotations => {
            world.cluster.change_deployment(|deployment| deployment.annotations.clear());
        }
        Act::OwnStrategy(surge) => own_strategy(world, surge),
        Act::DeleteGray => {
            world.gray = None;
            (world.approved, world.reached) = (None, None);
            world.cluster.bump();
        }
        Act::CreateGray => {
            if world.gray.is_none() {
                world.create_gray(spec(&[20, 60, 100]));
                world.highest = remembered(world);
            }
        }
        Act::DeleteDeployment => {
            world.cluster.delete_deployment();
            (world.approved, world.reached) = (None, None);
        }
        Act::CreateDeployment => recreate(world),
        Act::LoseStatus => {
            (world.approved, world.reached) = (None, None);
            world.change_status(|status| *status = GrayRolloutStatus::default());
            world.highest = remembered(world);
        }
        Act::Broken(template, broken) => set_broken(world, *template, *broken),
        Act::PodFails(index) => {
            let ready_at = Some(world.cluster.now + 3 * world.cluster.start_ms);
            let running = world.cluster.pods.iter_mut().filter(|pod| pod.gone_at.is_none());
            let mut running: Vec<_> = running.collect();
            let count = running.len().max(1);
            if let Some(pod) = running.get_mut(index % count)
                && pod.ready
            {
                pod.ready = false;
                pod.ready_at = ready_at;
            }
        }
        Act::Quota(quota) => world.cluster.quota = *quota,
    }
}

/// Whether only the status still knows what was the user's own.
fn is_forgotten(world: &World) -> bool {
    let kept = world.cluster.deployment.as_ref().and_then(|seen| target(seen).original);
    let status = world.status();
    (status.stage.is_some() || status.own_strategy.is_some()) && !matches!(kept, Some(Ok(_)))
}

/// Whether the status knows all that the annotations do, and nobody else's strategy stands.
fn is_remembered(world: &World) -> bool {
    let status = world.status();
    let present = world.cluster.deployment.as_ref().map(|seen| &seen.strategy);
    let known = status.own_strategy.is_some() || status.stage.is_none();
    status.phase.is_some() && known && present == world.form.as_ref()
}

/// The rollout number that the Deployment remembers without a status.
fn remembered(world: &World) -> i64 {
    let kept = world.cluster.deployment.as_ref().and_then(|seen| target(seen).original);
    kept.and_then(Result::ok).map_or(0, |original| original.rollout)
}

fn own_strategy(world: &mut World, surge: &str) {
    let strategy = Strategy::RollingUpdate {
        rolling_update: RollingUpdate {
            max_surge: share(surge),
            max_unavailable: IntOrPercent::Count(1),
        },
    };
    let Some(deployment) = &world.cluster.deployment else {
        return;
    };
    let kept = target(deployment).original.and_then(Result::ok);
    if kept.is_none_or(|original| original.strategy.is_none()) {
        world.user_strategy = strategy.clone();
    }
    world.cluster.change_deployment(|deployment| deployment.strategy = strategy);
}

fn nth_set(world: &World, index: usize) -> Option<String> {
    let sets = &world.cluster.replica_sets;
    sets.get(index % sets.len().max(1)).map(|set| set.uid.clone())
}

/// A Deployment of the same name as before, the user's own strategy, unpaused.
fn recreate(world: &mut World) {
    if world.cluster.deployment.is_some() {
        return;
    }
    let uid = world.cluster.uid("web");
    let strategy: Strategy = world.user_strategy.clone();
    let mut deployment = crate::native::Deployment::of(&uid, 4, strategy, 1);
    deployment.resource_version = world.cluster.bump();
    world.cluster.deployment = Some(deployment);
}

/// Pods of a broken template stop being ready; those of a mended one get ready after a while.
pub fn set_broken(world: &mut World, template: u32, broken: bool) {
    let cluster = &mut world.cluster;
    if broken {
        cluster.broken.insert(template);
    } else {
        cluster.broken.remove(&template);
    }
    let ready_at = (!broken).then_some(cluster.now + cluster.start_ms);
    for pod in cluster.pods.iter_mut().filter(|pod| pod.template == template) {
        if broken {
            pod.ready = false;
            pod.ready_at = None;
        } else if !pod.ready {
            pod.ready_at = ready_at;
        }
    }
}
