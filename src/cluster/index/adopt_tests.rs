//! Deployments that ask for stages by an annotation.

use super::*;

const STAGES: &str = "grayrollout.dev/stages";

fn asking(version: &str, stages: &str) -> Value {
    let annotations = json!({ STAGES: stages });
    with(deployment("web", "d-1", version), "/metadata/annotations", annotations)
}

fn made(version: &str) -> Value {
    let owner = json!([
        {"apiVersion": "apps/v1", "kind": "Deployment", "uid": "d-1", "controller": true},
    ]);
    let annotations = json!({ STAGES: "10,100" });
    let made = with(rollout("web", "g-1", version), "/metadata/annotations", annotations);
    with(made, "/metadata/ownerReferences", owner)
}

fn adoption() -> WorkKey {
    WorkKey::Adoption(key("web"))
}

#[test]
fn the_annotation_touches_when_it_comes_changes_and_goes() {
    let world = World::new();
    world.put::<Deployments>(&deployment("web", "d-1", "10"));
    assert_eq!(world.told(), []);
    assert!(world.index.adoption(&key("web")).is_none());
    for (version, stages) in [("11", "10,100"), ("12", "20,100")] {
        world.put::<Deployments>(&asking(version, stages));
        assert_eq!(world.told(), [adoption()]);
        let seen = world.index.adoption(&key("web")).unwrap();
        assert_eq!(seen.stages.as_deref(), Some(stages));
        assert!(seen.rollout.is_none());
    }
    // Whatever else changes in the Deployment is no matter, and old news is dropped.
    world.put::<Deployments>(&with(asking("13", "20,100"), "/spec/replicas", json!(3)));
    world.put::<Deployments>(&asking("5", "30,100"));
    assert_eq!(world.told(), []);
    world.put::<Rollouts>(&made("14"));
    assert!(world.told().contains(&adoption()));
    world.put::<Deployments>(&deployment("web", "d-1", "15"));
    assert!(world.told().contains(&adoption()));
    let seen = world.index.adoption(&key("web")).unwrap();
    assert_eq!((seen.stages, seen.rollout.unwrap().made_for.as_deref()), (None, Some("d-1")));
    world.index.remove::<Rollouts>(&key("web"), "g-1");
    assert!(world.index.adoption(&key("web")).is_none());
}

#[test]
fn an_annotation_that_went_unseen_is_found_by_the_lists() {
    let world = World::new();
    let mut list = world.index.begin_list::<Rollouts>(None);
    world.index.put_listed(&mut list, slim::<Rollouts>(&made("10")));
    world.index.end_list::<Rollouts>(&list);
    let mut list = world.index.begin_list::<Deployments>(None);
    world.index.put_listed(&mut list, slim::<Deployments>(&deployment("web", "d-1", "11")));
    world.index.end_list::<Deployments>(&list);
    assert!(world.told().contains(&adoption()));
    assert!(world.index.adoption(&key("web")).is_some());
}

#[test]
fn a_deployment_that_is_gone_asks_for_nothing() {
    let world = World::new();
    world.put::<Deployments>(&asking("10", "10,100"));
    world.index.remove::<Deployments>(&key("web"), "d-1");
    assert!(world.index.adoption(&key("web")).is_none());
    // The next one of the name does not inherit it.
    world.told();
    world.put::<Deployments>(&deployment("web", "d-2", "20"));
    assert_eq!(world.told(), []);
    let deleting = with(asking("30", "10,100"), "/metadata/uid", json!("d-3"));
    let deleting = with(deleting, "/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z"));
    world.put::<Deployments>(&deleting);
    assert!(world.index.adoption(&key("web")).is_none());
}

#[test]
fn a_grayrollout_of_the_name_touches_when_it_is_deleted_or_edited() {
    let world = World::new();
    world.put::<Deployments>(&asking("10", "10,100"));
    world.put::<Rollouts>(&made("11"));
    world.told();
    let status = with(made("12"), "/status", json!({"message": "moving"}));
    world.put::<Rollouts>(&status);
    assert_eq!(world.told(), [work("web")], "its status is no matter");
    world.put::<Rollouts>(&with(made("13"), "/spec/paused", json!(true)));
    assert!(world.told().contains(&adoption()));
    world.index.remove::<Rollouts>(&key("web"), "g-1");
    assert!(world.told().contains(&adoption()));
}

#[test]
fn another_grayrollout_of_the_deployment_is_seen() {
    let world = World::new();
    world.put::<Deployments>(&asking("10", "10,100"));
    let other = with(rollout("web", "g-2", "11"), "/metadata/name", json!("canary"));
    world.put::<Rollouts>(&other);
    assert!(world.told().contains(&adoption()));
    let seen = world.index.adoption(&key("web")).unwrap();
    assert_eq!(seen.other.as_deref(), Some("canary"));
    world.put::<Rollouts>(&made("12"));
    let seen = world.index.adoption(&key("web")).unwrap();
    assert_eq!(seen.other.as_deref(), Some("canary"), "its own is no other");
    world.index.remove::<Rollouts>(&key("canary"), "g-2");
    assert_eq!(world.index.adoption(&key("web")).unwrap().other, None);
}

#[test]
fn a_grayrollout_that_someone_wrote_is_no_matter_without_the_annotation() {
    let world = World::new();
    world.put::<Deployments>(&deployment("web", "d-1", "10"));
    world.put::<Rollouts>(&rollout("web", "g-1", "11"));
    assert!(!world.told().contains(&adoption()));
    assert!(world.index.adoption(&key("web")).is_none());
}

#[test]
fn the_next_deployment_of_the_name_asks_anew() {
    let world = World::new();
    world.put::<Deployments>(&asking("10", "10,100"));
    world.told();
    world.put::<Deployments>(&with(asking("20", "10,100"), "/metadata/uid", json!("d-2")));
    assert!(world.told().contains(&adoption()));
}
