//! What must hold in every stored state, whoever wrote it and whatever the test was about.
//!
//! The rules carry the names of the list of invariants: S1 (never more new pods than approved),
//! S2 (never more pods than the surge allows), S3 (availability), S4 (stages go forward),
//! S6 (people's fields), S7 to S9 (ReplicaSets), S10 and S11 (the Deployment), S17 (completion),
//! and `conditions` (the table of phases and conditions).

mod facts;
mod objects;
mod sizes;
mod status;
#[cfg(test)]
mod tests;
mod tracks;

use std::{collections::BTreeMap, time::Duration};

use serde_json::Value;

use crate::{Kind, Snapshot, Stored, snapshot::one_line};
use tracks::Tracks;

/// How old the state may be that a write of the operator rests on: watches have a delay, and only
/// the object that is written is guarded by its resourceVersion.
const LAG: Duration = Duration::from_secs(1);
/// How long others may have more new pods than approved, with the operator up.
const EXCESS: Duration = Duration::from_secs(2);

/// What the check must know besides the history.
#[derive(Clone, Default)]
pub struct Context {
    /// When an operator was up: from, and to where it is not up any more; since the record began.
    pub up: Vec<(Duration, Option<Duration>)>,
    /// When the record ended.
    pub end: Duration,
    /// What the machine may have added to any time that is taken.
    pub slack: Duration,
    /// Rules that a test breaks on purpose, by someone else's hand.
    pub exempt: Vec<&'static str>,
}

impl Context {
    /// How long an operator has been up without a break at a moment.
    fn up_for(&self, at: Duration) -> Duration {
        self.up
            .iter()
            .filter(|(from, to)| *from <= at && to.is_none_or(|to| at < to))
            .map(|(from, _)| at.saturating_sub(*from))
            .max()
            .unwrap_or_default()
    }
}

/// One breach of a rule.
pub struct Violation {
    /// The rule's name.
    pub rule: &'static str,
    text: String,
    version: u64,
    at: Duration,
    change: String,
    before: String,
    after: String,
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "{}: {}", self.rule, self.text)?;
        writeln!(
            f,
            "  at {:.3} s, resourceVersion {}: {}",
            self.at.as_secs_f32(),
            self.version,
            self.change
        )?;
        write!(f, "  before:\n{}  after:\n{}", self.before, self.after)
    }
}

/// One stored state with what was before it.
struct Step<'a> {
    stored: &'a Stored,
    /// The object itself before, where it existed.
    earlier: Option<&'a Value>,
    before: &'a Snapshot,
    after: &'a Snapshot,
}

impl Step<'_> {
    fn violation(&self, rule: &'static str, text: String) -> Violation {
        let end = if self.stored.deleted { " deleted" } else { "" };
        Violation {
            rule,
            text,
            version: self.stored.version,
            at: self.stored.at,
            change: one_line(self.stored.kind, &self.stored.object) + end,
            before: self.before.to_string(),
            after: self.after.to_string(),
        }
    }

    /// Whether a field changed in this step.
    fn changed(&self, pointer: &str) -> bool {
        !self.stored.deleted
            && self.earlier.and_then(|object| object.pointer(pointer))
                != self.stored.object.pointer(pointer)
    }

    /// Whether the operator made this step, which changed the field of this path.
    fn ours(&self, path: &[&str]) -> bool {
        crate::writer(self.earlier, &self.stored.object, path) == Some(crate::OPERATOR)
    }
}

/// Holds a history, in the order of the store, against every rule.
pub fn check(history: &[Stored], context: &Context) -> Vec<Violation> {
    let mut now = Snapshot::default();
    let mut tracks = Tracks::default();
    let mut excess = sizes::Excess::default();
    let mut found = Vec::new();
    for stored in history {
        if matches!(stored.kind, Kind::Pod | Kind::Event) {
            continue;
        }
        let before = now.clone();
        now.apply(stored);
        let step = Step {
            stored,
            earlier: before.get(stored.kind, stored.name()),
            before: &before,
            after: &now,
        };
        let old_tracks = tracks.clone();
        tracks.take(stored);
        match stored.kind {
            Kind::ReplicaSet => {
                found.extend(sizes::check(&step, &old_tracks, &tracks));
                found.extend(objects::check_set(&step));
            }
            Kind::Deployment => found.extend(objects::check_deployment(&step)),
            Kind::GrayRollout => found.extend(status::check(&step)),
            Kind::Pod | Kind::Event => {}
        }
        found.extend(excess.check(&step, stored.at, &tracks, context));
    }
    if let Some(stored) = history.last() {
        let step = Step { stored, earlier: None, before: &now, after: &now };
        found.extend(excess.check(&step, context.end, &tracks, context));
    }
    found.retain(|violation| !context.exempt.contains(&violation.rule));
    first_of_each(found)
}

/// One breach leads to others of the same rule: a few are enough to read.
fn first_of_each(found: Vec<Violation>) -> Vec<Violation> {
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    found
        .into_iter()
        .filter(|violation| {
            let count = seen.entry(violation.rule).or_default();
            *count += 1;
            *count <= 2
        })
        .collect()
}
