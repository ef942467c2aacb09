use serde_json::json;

use super::*;
use crate::{api::GrayRolloutStatus, plan::TemplateHash};

fn target() -> Target {
    Target {
        namespace: "shop".into(),
        name: "web".into(),
        uid: "d-1".into(),
        generation: 1,
        resource_version: "7".into(),
        observed_generation: 1,
        replicas: 3,
        paused: false,
        strategy: crate::api::Strategy::RollingUpdate {
            rolling_update: crate::api::RollingUpdate::default(),
        },
        template: TemplateHash(1),
        template_labelled: false,
        progress_deadline_seconds: None,
        revision_history_limit: None,
        original: None,
        rollout_annotation: None,
    }
}

/// A GrayRollout of the same name, made for the Deployment of this UID.
fn rollout(made_for: Option<&str>, stages: &[i32]) -> Rollout {
    let stages: Vec<_> = stages.iter().map(|percent| json!({ "percent": percent })).collect();
    let spec = json!({"targetRef": {"name": "web"}, "stages": stages});
    Rollout {
        namespace: "shop".into(),
        name: "web".into(),
        uid: "g-1".into(),
        generation: 1,
        resource_version: "9".into(),
        created: jiff::Timestamp::UNIX_EPOCH,
        target_name: "web".into(),
        made_for: made_for.map(Into::into),
        spec: serde_json::from_value(spec).map_err(|error| error.to_string()),
        status: GrayRolloutStatus::default(),
    }
}

fn decide(stages: Option<&str>, rollout: Option<Rollout>) -> AdoptionPlan {
    let stages = stages.map(Into::into);
    adopt(&Adoption { target: target(), stages, rollout, other: None })
}

/// What is told, always on the Deployment, whose owner has written the annotation.
fn reason(plan: &AdoptionPlan) -> &'static str {
    assert!(plan.event.as_ref().is_none_or(|event| event.on == EventOn::Target));
    plan.event.as_ref().map_or("", |event| event.kind.reason())
}

#[test]
fn a_grayrollout_is_made_where_there_is_none() {
    let plan = decide(Some(" 10, 50 ,100"), None);
    assert_eq!(plan.action, Some(AdoptionAction::Create { stages: vec![10, 50, 100] }));
    assert_eq!(reason(&plan), "GrayRolloutCreated");
    assert_eq!(decide(None, None), AdoptionPlan::default());
}

#[test]
fn there_can_be_as_many_stages_as_a_grayrollout_has() {
    let stages: Vec<i32> = (1..=20).map(|stage| if stage == 20 { 100 } else { stage }).collect();
    let plan = decide(Some(&written(&stages)), None);
    assert_eq!(plan.action, Some(AdoptionAction::Create { stages }));
}

#[test]
fn its_stages_follow_and_nothing_is_written_where_they_are_the_same() {
    let plan = decide(Some("20,100"), Some(rollout(Some("d-1"), &[10, 100])));
    let apply = |stages: &[i32]| {
        let (uid, resource_version) = ("g-1".into(), "9".into());
        Some(AdoptionAction::Apply { uid, resource_version, stages: stages.to_vec() })
    };
    assert_eq!(plan.action, apply(&[20, 100]));
    assert_eq!(reason(&plan), "StagesEdited");
    let same = decide(Some("10,100"), Some(rollout(Some("d-1"), &[10, 100])));
    assert_eq!(same, AdoptionPlan::default());
    // Its owner was taken away: it gets one again.
    let lost = decide(Some("10,100"), Some(rollout(Some(""), &[10, 100])));
    assert_eq!((lost.action, lost.event), (apply(&[10, 100]), None));
    let mut odd = rollout(Some("d-1"), &[10, 100]);
    odd.spec = Err("unreadable".into());
    assert_eq!(decide(Some("20,100"), Some(odd)), AdoptionPlan::default());
}

#[test]
fn it_goes_with_the_annotation() {
    let plan = decide(None, Some(rollout(Some("d-1"), &[10, 100])));
    let delete = AdoptionAction::Delete { uid: "g-1".into(), resource_version: "9".into() };
    assert_eq!((plan.action.as_ref(), reason(&plan)), (Some(&delete), "GrayRolloutDeleted"));
    for kept in [None, Some(""), Some("d-0")] {
        assert_eq!(decide(None, Some(rollout(kept, &[10, 100]))), AdoptionPlan::default());
    }
}

#[test]
fn what_someone_else_made_is_left_alone() {
    let mut elsewhere = rollout(Some("d-1"), &[10, 100]);
    elsewhere.target_name = "api".into();
    for foreign in [rollout(None, &[10, 100]), elsewhere] {
        let plan = decide(Some("20,100"), Some(foreign));
        assert_eq!((plan.action.as_ref(), reason(&plan)), (None, "StagesIgnored"));
    }
    let other = Some("canary".into());
    let stages = Some("20,100".into());
    let plan = adopt(&Adoption { target: target(), stages, rollout: None, other });
    assert_eq!((plan.action.as_ref(), reason(&plan)), (None, "StagesIgnored"));
    assert!(plan.event.unwrap().message.contains("GrayRollout canary exists"));
    // That of a Deployment that is gone is garbage, and goes by itself.
    let old = decide(Some("20,100"), Some(rollout(Some("d-0"), &[10, 100])));
    assert_eq!(old, AdoptionPlan::default());
}

#[test]
fn a_bad_value_is_told_and_changes_nothing() {
    for (text, why) in [
        ("", "\"\" is no whole number"),
        ("10,,100", "\"\" is no whole number"),
        ("10;100", "\"10;100\" is no whole number"),
        ("10%,100%", "\"10%\" is no whole number"),
        ("+10,100", "\"+10\" is no whole number"),
        ("0,100", "\"0\" is no whole number from 1 to 100"),
        ("10,101", "\"101\" is no whole number from 1 to 100"),
        ("99999999999", "is no whole number"),
        ("50,10,100", "10 is not above 50"),
        ("50,50,100", "50 is not above 50"),
        ("10,50", "the last stage is 50, not 100"),
        ("1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,100", "there are 21 stages"),
        ("ten of them, then all", "\"ten of them\" is no"),
        (&"ä".repeat(5000), "\"ääääääääää\"... is no"),
    ] {
        for present in [None, Some(rollout(Some("d-1"), &[10, 100]))] {
            let plan = decide(Some(text), present);
            assert_eq!((plan.action.as_ref(), reason(&plan)), (None, "InvalidStages"), "{text}");
            let message = plan.event.unwrap().message;
            assert!(
                message.contains(why) && message.contains("such as \"10,50,100\""),
                "{message}"
            );
            assert!(message.len() < 400, "{message}");
        }
    }
}
