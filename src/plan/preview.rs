//! What the stages of a spec would do to the pods, found out by moving pods that are ready at
//! once, through the same pace as a real rollout.

use jiff::Timestamp;
use serde::Serialize;

use super::{
    ReplicaSet, TemplateHash,
    pace::{Role, Room, Track, pace},
    share::{Bounds, new_pods, old_pods, percent_of},
};
use crate::api::{Approval, GrayRolloutSpec, Strategy};

/// Pods of the two revisions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Pods {
    /// Of the new revision.
    pub new: i32,
    /// Of the old revision.
    pub old: i32,
}

/// What one stage does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StagePreview {
    /// Its number, from 1.
    pub stage: usize,
    /// Share that is asked for, in percent.
    pub percent: i32,
    /// Share that the pods allow for, in percent, rounded.
    pub actual_percent: i32,
    /// Pods once the stage is reached.
    #[serde(flatten)]
    pub pods: Pods,
    /// The most pods at any moment of the move.
    pub most: i32,
    /// The fewest available pods at any moment of the move, if no pod fails.
    pub fewest: i32,
    /// What entering it needs.
    pub approval: Approval,
    /// Seconds that it soaks once it is reached.
    pub soak_seconds: i32,
    /// Whether it holds as many new pods as the stage before it.
    pub same_as_before: bool,
}

/// What each stage does at `replicas`, beginning with all pods old.
///
/// `own` is the Deployment's own strategy; it counts where the spec leaves a bound open.
#[must_use]
pub fn preview(spec: &GrayRolloutSpec, own: &Strategy, replicas: i32) -> Vec<StagePreview> {
    preview_from(spec, own, replicas, Pods { new: 0, old: replicas.max(0) }, 0)
}

/// The same for the stages after `entered`, beginning with the pods that there are.
#[must_use]
pub fn preview_from(
    spec: &GrayRolloutSpec,
    own: &Strategy,
    replicas: i32,
    pods: Pods,
    entered: usize,
) -> Vec<StagePreview> {
    let replicas = replicas.max(0);
    let bounds = Bounds::resolve(Some(spec), own, replicas);
    let (mut pods, mut before) = (pods, (entered > 0).then_some(pods.new));
    let mut stages = Vec::new();
    for (index, stage) in spec.stages.iter().enumerate().skip(entered) {
        let new = new_pods(replicas, stage.percent, bounds.surge);
        let old = old_pods(replicas, new, stage.percent >= 100);
        let moved = walk(pods, Pods { new, old }, replicas, bounds);
        pods = moved.end;
        stages.push(StagePreview {
            stage: index + 1,
            percent: stage.percent,
            actual_percent: percent_of(pods.new, pods.new + pods.old),
            pods,
            most: moved.most,
            fewest: moved.fewest,
            approval: spec.approval_of(index + 1),
            soak_seconds: stage.soak_seconds.unwrap_or(0),
            same_as_before: before == Some(pods.new) && replicas > 0,
        });
        before = Some(pods.new);
    }
    stages
}

struct Walk {
    end: Pods,
    most: i32,
    fewest: i32,
}

/// Moves from one split to another, batch by batch, each pod ready by the next batch.
fn walk(from: Pods, to: Pods, replicas: i32, bounds: Bounds) -> Walk {
    let room = Room { replicas, bounds, terminating: None };
    let mut walk = Walk { end: from, most: from.new + from.old, fewest: from.new + from.old };
    // Every batch moves at least one pod, and none of them more than in and out again.
    for _ in 0..=i64::from(replicas) * 4 + 4 {
        let (new, old) = (ready(walk.end.new), ready(walk.end.old));
        let tracks = [
            Track { role: Role::Update, replica_set: Some(&new), want: to.new, there: 0 },
            Track { role: Role::Stable, replica_set: Some(&old), want: to.old, there: 0 },
        ];
        let batch = pace(&tracks, room);
        if batch.is_empty() {
            break;
        }
        let available = walk.end;
        for (index, size) in batch {
            if index == 0 {
                walk.end.new = size;
            } else {
                walk.end.old = size;
            }
            walk.most = walk.most.max(walk.end.new + walk.end.old);
            let usable = walk.end.new.min(available.new) + walk.end.old.min(available.old);
            walk.fewest = walk.fewest.min(usable);
        }
    }
    walk
}

fn ready(replicas: i32) -> ReplicaSet {
    ReplicaSet {
        name: String::new(),
        uid: String::new(),
        owner_uid: String::new(),
        generation: 0,
        resource_version: String::new(),
        created: Timestamp::UNIX_EPOCH,
        deleting: false,
        revision: String::new(),
        template: TemplateHash(0),
        replicas,
        desired_annotation: None,
        max_annotation: None,
        observed_generation: 0,
        current: replicas,
        available: replicas,
        terminating: 0,
        failure: None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::{prop_assert, prop_assert_eq, proptest};

    use super::*;
    use crate::api::{IntOrPercent, RollingUpdate, Stage, TargetRef};

    fn spec(percents: &[i32], surge: i32, unavailable: Option<i32>) -> GrayRolloutSpec {
        let stage = |percent: &i32| Stage { percent: *percent, soak_seconds: None, approval: None };
        GrayRolloutSpec {
            target_ref: TargetRef {
                api_version: "apps/v1".into(),
                kind: "Deployment".into(),
                name: "web".into(),
            },
            stages: percents.iter().map(stage).collect(),
            paused: false,
            max_surge: Some(IntOrPercent::Count(surge)),
            max_unavailable: unavailable.map(IntOrPercent::Count),
            progress_deadline_seconds: None,
            step_interval_seconds: None,
            on_failure: crate::api::OnFailure::default(),
            on_delete: crate::api::OnDelete::default(),
            wait_for_termination: false,
            checks: Vec::new(),
            hooks: Vec::new(),
            approval: None,
        }
    }

    fn own() -> Strategy {
        Strategy::RollingUpdate { rolling_update: RollingUpdate::default() }
    }

    fn rows(stages: &[StagePreview]) -> Vec<(i32, i32, i32, i32, i32)> {
        stages
            .iter()
            .map(|s| (s.pods.new, s.pods.old, s.most, s.fewest, s.actual_percent))
            .collect()
    }

    #[test]
    fn ten_pods_with_one_to_spare() {
        let stages = preview(&spec(&[10, 50, 100], 1, None), &own(), 10);
        assert_eq!(rows(&stages), [(1, 9, 11, 10, 10), (5, 5, 11, 10, 50), (10, 0, 11, 10, 100)]);
        assert_eq!(stages.iter().map(|s| s.stage).collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!(stages[0].approval, Approval::Automatic);
        assert_eq!(stages[1].approval, Approval::Required);
    }

    #[test]
    fn without_a_surge_the_first_pod_overlaps() {
        let stages = preview(&spec(&[50, 100], 0, Some(1)), &own(), 4);
        assert_eq!(rows(&stages), [(2, 2, 5, 3, 50), (4, 0, 4, 3, 100)]);
    }

    #[test]
    fn a_single_pod_stands_beside_the_old_one() {
        let stages = preview(&spec(&[10, 100], 1, None), &own(), 1);
        assert_eq!(rows(&stages), [(1, 1, 2, 1, 50), (1, 0, 2, 1, 100)]);
        assert!(stages[1].same_as_before);
        let stages = preview(&spec(&[10, 100], 0, Some(1)), &own(), 1);
        assert_eq!((stages[0].pods.new, stages[0].pods.old), (0, 1));
    }

    #[test]
    fn stages_that_hold_the_same_are_marked() {
        let stages = preview(&spec(&[10, 20, 100], 1, None), &own(), 3);
        let same: Vec<_> = stages.iter().map(|s| s.same_as_before).collect();
        assert_eq!(same, [false, true, false]);
    }

    #[test]
    fn no_replicas_no_pods() {
        let stages = preview(&spec(&[10, 100], 1, None), &own(), 0);
        assert_eq!(rows(&stages), [(0, 0, 0, 0, 0), (0, 0, 0, 0, 0)]);
    }

    #[test]
    fn it_goes_on_from_where_it_stands() {
        let pods = Pods { new: 1, old: 9 };
        let stages = preview_from(&spec(&[10, 50, 100], 2, None), &own(), 10, pods, 1);
        assert_eq!(stages.iter().map(|s| s.stage).collect::<Vec<_>>(), [2, 3]);
        assert_eq!(rows(&stages)[0], (5, 5, 12, 10, 50));
    }

    proptest! {
        #[test]
        fn the_bounds_hold_and_every_stage_is_reached(
            replicas in 0..120_i32, surge in 0..5_i32, unavailable in 0..5_i32, percent in 1..100_i32,
        ) {
            let spec = spec(&[percent, 100], surge, Some(unavailable));
            let stages = preview(&spec, &own(), replicas);
            let bounds = Bounds::resolve(Some(&spec), &own(), replicas);
            for stage in &stages {
                let new = new_pods(replicas, stage.percent, bounds.surge);
                prop_assert_eq!(stage.pods.new, new);
                prop_assert_eq!(stage.pods.old, old_pods(replicas, new, stage.percent == 100));
                prop_assert!(stage.most <= replicas + surge.max(1));
                prop_assert!(stage.fewest >= replicas - bounds.unavailable);
            }
        }
    }
}
