//! S1, S2 and S3: how many pods there may and must be.

use std::{collections::BTreeMap, time::Duration};

use super::{Context, EXCESS, Step, Violation, facts::Facts, tracks::Tracks, tracks::is_current};
use crate::{Json, Kind, snapshot::same_template};

/// Judges a write of ours to a ReplicaSet's size.
pub(super) fn check(step: &Step<'_>, earlier: &Tracks, tracks: &Tracks) -> Vec<Violation> {
    let set = &step.stored.object;
    let was = step.earlier.map_or(0, |set| set.int("/spec/replicas"));
    let is = set.int("/spec/replicas");
    if step.stored.deleted || was == is || !step.ours(&["spec", "replicas"]) {
        return Vec::new();
    }
    let Some(facts) = Facts::of_set(step.after, set) else {
        return Vec::new();
    };
    let at = step.stored.at;
    let seen = tracks.replicas(facts.deployment, at);
    if is > was { grown(step, &facts, &seen) } else { shrunk(step, &facts, &seen, earlier, tracks) }
}

fn grown(step: &Step<'_>, facts: &Facts<'_>, seen: &[i64]) -> Vec<Violation> {
    let mut found = Vec::new();
    let set = &step.stored.object;
    let is = set.int("/spec/replicas");
    let caps = seen.iter().map(|replicas| facts.cap(*replicas));
    let capped = caps.collect::<Option<Vec<_>>>().and_then(|all| all.into_iter().max());
    if let Some(cap) = capped
        && same_template(set, facts.deployment)
        && is > cap
    {
        let text = format!("we made {is} new pods where {cap} are approved");
        found.push(step.violation("S1", text));
    }
    let asked = facts.asked() + terminating(facts);
    let limit = seen
        .iter()
        .map(|replicas| replicas + facts.surge(*replicas) + overlap(facts, *replicas))
        .max()
        .unwrap_or(i64::MAX);
    if asked > limit {
        let text = format!("after our write {asked} pods are asked for where {limit} are allowed");
        found.push(step.violation("S2", text));
    }
    found
}

/// Without surge the first new pod, and the last old one, must exist beside all others.
fn overlap(facts: &Facts<'_>, replicas: i64) -> i64 {
    let new = facts.new_set().map_or(0, |set| set.int("/spec/replicas"));
    let old = facts.asked() - new;
    i64::from(facts.surge(replicas) == 0 && (new <= 1 || old <= 1))
}

/// Pods on their way out, where they count.
fn terminating(facts: &Facts<'_>) -> i64 {
    if !facts.gr.flag("/spec/waitForTermination") {
        return 0;
    }
    facts
        .sets
        .iter()
        .map(|set| {
            let unseen = set.int("/status/replicas") - set.int("/spec/replicas");
            let unseen = if is_current(set) { 0 } else { unseen.max(0) };
            set.int("/status/terminatingReplicas") + unseen
        })
        .sum()
}

fn shrunk(
    step: &Step<'_>,
    facts: &Facts<'_>,
    seen: &[i64],
    earlier: &Tracks,
    tracks: &Tracks,
) -> Vec<Violation> {
    let at = step.stored.at;
    let total =
        |tracks: &Tracks| -> i64 { facts.sets.iter().map(|set| tracks.guaranteed(set, at)).sum() };
    let (before, after) = (total(earlier), total(tracks));
    let floor =
        seen.iter().map(|replicas| replicas - facts.unavailable(*replicas)).min().unwrap_or(0);
    // Pods that are not available any more are no loss.
    let harmless =
        tracks.fewest(&step.stored.object, at) <= step.stored.object.int("/spec/replicas");
    if after < before && after < floor && !harmless {
        let text = format!(
            "our write left {after} pods sure to be available (of {before}) where {floor} must be"
        );
        return vec![step.violation("S3", text)];
    }
    Vec::new()
}

/// Since when each Deployment has more new pods than approved.
#[derive(Default)]
pub(super) struct Excess(BTreeMap<String, Duration>);

impl Excess {
    /// Looks at every Deployment as it is after a step.
    pub fn check(
        &mut self,
        step: &Step<'_>,
        at: Duration,
        tracks: &Tracks,
        context: &Context,
    ) -> Vec<Violation> {
        let mut found = Vec::new();
        for deployment in step.after.all(Kind::Deployment) {
            let facts = Facts::of(step.after, deployment);
            let uid = deployment.text("/metadata/uid");
            let Some((new, cap)) = exceeded(&facts, at, tracks) else {
                self.0.remove(uid);
                continue;
            };
            let since = *self.0.entry(uid.to_owned()).or_insert(at);
            let lasting = at.saturating_sub(since).min(context.up_for(at));
            if lasting > EXCESS + context.slack {
                let text = format!(
                    "{new} new pods where {cap} are approved, for {:.1} s with the operator up",
                    lasting.as_secs_f32()
                );
                found.push(step.violation("S1", text));
                self.0.remove(uid);
            }
        }
        found
    }
}

/// New pods and the approved number, where there are more than approved and one of them could go
/// without breaking S3.
fn exceeded(facts: &Facts<'_>, at: Duration, tracks: &Tracks) -> Option<(i64, i64)> {
    let replicas = facts.replicas();
    let set = facts.new_set()?;
    let cap = facts.cap(replicas)?;
    let new = set.int("/spec/replicas");
    let phase = facts.gr.text("/status/phase");
    if new <= cap || facts.left_alone() || ["RollingBack", "RolledBack"].contains(&phase) {
        return None;
    }
    let sure: i64 = facts.sets.iter().map(|set| tracks.guaranteed(set, at)).sum();
    let floor = replicas - facts.unavailable(replicas);
    let useless = tracks.guaranteed(set, at) < new;
    (useless || sure > floor).then_some((new, cap))
}
