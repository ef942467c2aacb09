//! A `GrayRollout` made from an annotation on the Deployment: the shortest way in.

use super::{Event, EventKind, EventOn, Rollout, Target};
use crate::api::{MAX_STAGES, STAGES_ANNOTATION};

/// A Deployment that asks for stages, or whose `GrayRollout` was made when it did.
#[derive(Debug, Clone)]
pub struct Adoption {
    /// The Deployment.
    pub target: Target,
    /// What its annotation grayrollout.dev/stages says.
    pub stages: Option<Box<str>>,
    /// The `GrayRollout` of the Deployment's name.
    pub rollout: Option<Rollout>,
    /// Name of another `GrayRollout` that has this Deployment for its target.
    pub other: Option<String>,
}

/// What is to be done for one [`Adoption`].
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AdoptionPlan {
    /// The write.
    pub action: Option<AdoptionAction>,
    /// What the Deployment's owner is told: after the write, or instead of one.
    pub event: Option<Event>,
}

/// One write to the `GrayRollout` of a Deployment's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AdoptionAction {
    /// Makes it; one that exists by then is a conflict.
    Create {
        /// Percentages of the stages.
        stages: Vec<i32>,
    },
    /// Sets its stages and its owner.
    Apply {
        /// Its UID.
        uid: String,
        /// Its resourceVersion.
        resource_version: String,
        /// Percentages of the stages.
        stages: Vec<i32>,
    },
    /// Deletes it.
    Delete {
        /// Its UID.
        uid: String,
        /// Its resourceVersion.
        resource_version: String,
    },
}

/// Whose a `GrayRollout` of the Deployment's name is.
enum Whose {
    /// Made from the annotation of this Deployment.
    Ours { owned: bool },
    /// Made from the annotation of an earlier Deployment of this name: it goes by itself.
    Forerunners,
    /// Made by someone else.
    Foreign,
}

fn whose(rollout: &Rollout, target: &Target) -> Whose {
    match rollout.made_for.as_deref() {
        Some(_) if rollout.target_name != target.name => Whose::Foreign,
        Some("") => Whose::Ours { owned: false },
        Some(owner) if owner == target.uid => Whose::Ours { owned: true },
        Some(_) => Whose::Forerunners,
        None => Whose::Foreign,
    }
}

/// Decides what becomes of the `GrayRollout` that a Deployment's annotation asks for.
#[must_use]
pub fn adopt(adoption: &Adoption) -> AdoptionPlan {
    let Adoption { target, stages, rollout, other } = adoption;
    let Some(text) = stages else {
        return match rollout.as_ref().map(|rollout| (rollout, whose(rollout, target))) {
            Some((rollout, Whose::Ours { owned: true })) => removed(rollout),
            _ => AdoptionPlan::default(),
        };
    };
    let stages = match parse_stages(text) {
        Ok(stages) => stages,
        Err(why) => {
            return told(
                EventKind::InvalidStages,
                format!(
                    "the annotation {STAGES_ANNOTATION} is not followed, and nothing changes: {why}; the right form is percentages that grow up to 100, such as \"10,50,100\""
                ),
            );
        }
    };
    match (rollout, other) {
        (None, None) => created(stages),
        (None, Some(other)) => ignored(other),
        (Some(rollout), _) => match whose(rollout, target) {
            Whose::Ours { owned } => edited(rollout, owned, stages),
            Whose::Forerunners => AdoptionPlan::default(),
            Whose::Foreign => ignored(&rollout.name),
        },
    }
}

fn told(kind: EventKind, message: String) -> AdoptionPlan {
    AdoptionPlan { action: None, event: Some(Event { kind, message, on: EventOn::Target }) }
}

fn ignored(name: &str) -> AdoptionPlan {
    told(
        EventKind::StagesIgnored,
        format!(
            "the annotation {STAGES_ANNOTATION} is not followed: the GrayRollout {name} exists and was not made from it; change the stages there, or delete it to let the annotation count"
        ),
    )
}

fn created(stages: Vec<i32>) -> AdoptionPlan {
    let message = format!(
        "made a GrayRollout with the stages {} from the annotation {STAGES_ANNOTATION}",
        written(&stages)
    );
    let event = Event { kind: EventKind::GrayRolloutCreated, message, on: EventOn::Target };
    AdoptionPlan { action: Some(AdoptionAction::Create { stages }), event: Some(event) }
}

/// What else its spec says is left alone, and so are stages that ask for the same shares: soak
/// times and approvals may have been added there.
fn edited(rollout: &Rollout, owned: bool, stages: Vec<i32>) -> AdoptionPlan {
    let same = match &rollout.spec {
        Ok(spec) => spec.stages.iter().map(|stage| stage.percent).eq(stages.iter().copied()),
        // Nobody knows what would be overwritten.
        Err(_) => true,
    };
    if same && owned {
        return AdoptionPlan::default();
    }
    let event = (!same).then(|| Event {
        kind: EventKind::StagesEdited,
        message: format!(
            "the stages are {} now, as the annotation {STAGES_ANNOTATION} says",
            written(&stages)
        ),
        on: EventOn::Target,
    });
    let action = AdoptionAction::Apply {
        uid: rollout.uid.clone(),
        resource_version: rollout.resource_version.clone(),
        stages,
    };
    AdoptionPlan { action: Some(action), event }
}

fn removed(rollout: &Rollout) -> AdoptionPlan {
    let message = format!(
        "deleted the GrayRollout, since the annotation {STAGES_ANNOTATION} it was made from is gone"
    );
    AdoptionPlan {
        action: Some(AdoptionAction::Delete {
            uid: rollout.uid.clone(),
            resource_version: rollout.resource_version.clone(),
        }),
        event: Some(Event { kind: EventKind::GrayRolloutDeleted, message, on: EventOn::Target }),
    }
}

/// Percentages as the annotation has them.
#[must_use]
pub fn written(stages: &[i32]) -> String {
    stages.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// Reads the annotation: percentages from 1 to 100, each higher than the one before, the last 100.
///
/// # Errors
///
/// Says what is wrong, in words that end a sentence.
fn parse_stages(text: &str) -> Result<Vec<i32>, String> {
    let mut stages: Vec<i32> = Vec::new();
    for part in text.split(',').map(str::trim) {
        let digits = part.bytes().all(|byte| byte.is_ascii_digit());
        let percent = part.parse().ok().filter(|percent| digits && (1..=100).contains(percent));
        let percent =
            percent.ok_or_else(|| format!("{} is no whole number from 1 to 100", quoted(part)))?;
        if let Some(before) = stages.last()
            && *before >= percent
        {
            return Err(format!("{percent} is not above {before}, which stands before it"));
        }
        stages.push(percent);
    }
    // They grow, so there are at most 100 by now.
    if stages.len() > MAX_STAGES {
        return Err(format!("there are {} stages, and {MAX_STAGES} is the most", stages.len()));
    }
    match stages.last() {
        Some(100) => Ok(stages),
        last => Err(format!("the last stage is {}, not 100", last.copied().unwrap_or_default())),
    }
}

/// Something of an annotation, which may be long.
fn quoted(text: &str) -> String {
    let end = text.floor_char_boundary(20);
    match text.get(..end) {
        Some(start) if end < text.len() => format!("{start:?}..."),
        _ => format!("{text:?}"),
    }
}

#[cfg(test)]
#[path = "adopt_tests.rs"]
mod tests;
