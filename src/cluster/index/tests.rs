use std::sync::{Arc, Mutex};

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;

/// An index, and what it told to be touched.
struct World {
    index: Arc<Index>,
    touched: Arc<Mutex<Vec<WorkKey>>>,
}

impl World {
    fn new() -> Self {
        let touched: Arc<Mutex<Vec<WorkKey>>> = Arc::default();
        let index = Index::new(3, {
            let touched = touched.clone();
            move |key| touched.lock().unwrap().push(key)
        });
        Self { index, touched }
    }

    /// A shop with a GrayRollout, its Deployment and one ReplicaSet, all told already.
    fn shop() -> Self {
        let world = Self::new();
        world.put::<Rollouts>(&rollout("web", "g-1", "10"));
        world.put::<Deployments>(&deployment("web", "d-1", "11"));
        world.put::<ReplicaSets>(&replica_set("web-a", "d-1", "12", 10));
        world.told();
        world
    }

    fn put<K: Indexed>(&self, value: &Value)
    where
        Slim<K>: DeserializeOwned,
    {
        self.index.put::<K>(slim(value));
    }

    /// What was touched since the last call.
    fn told(&self) -> Vec<WorkKey> {
        std::mem::take(&mut self.touched.lock().unwrap())
    }

    fn snapshot(&self, name: &str) -> Option<Snapshot> {
        self.index.snapshot(&key(name), Timestamp::default())
    }

    fn sizes(&self, name: &str) -> Vec<i32> {
        let snapshot = self.snapshot(name).unwrap();
        snapshot.replica_sets.iter().map(|rs| rs.replicas).collect()
    }

    fn is_orphan(&self, name: &str) -> bool {
        self.index.orphan(&key(name), Timestamp::default()).is_some()
    }
}

fn slim<K: Kind>(value: &Value) -> Slim<K>
where
    Slim<K>: DeserializeOwned,
{
    serde_json::from_value(value.clone()).unwrap()
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("shop", name)
}

fn work(name: &str) -> WorkKey {
    WorkKey::Rollout(key(name))
}

fn rollout(name: &str, uid: &str, version: &str) -> Value {
    json!({
        "metadata": {
            "namespace": "shop", "name": name, "uid": uid, "resourceVersion": version,
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {"targetRef": {"name": "web"}, "stages": [{"percent": 100}]},
    })
}

fn deployment(name: &str, uid: &str, version: &str) -> Value {
    json!({
        "metadata": {"namespace": "shop", "name": name, "uid": uid, "resourceVersion": version},
        "spec": {"replicas": 10},
    })
}

fn replica_set(name: &str, owner: &str, version: &str, replicas: i32) -> Value {
    json!({
        "metadata": {
            "namespace": "shop", "name": name, "uid": format!("uid-{name}"),
            "resourceVersion": version,
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "Deployment", "uid": owner, "controller": true},
            ],
        },
        "spec": {"replicas": replicas},
    })
}

fn with(mut value: Value, pointer: &str, new: Value) -> Value {
    let (parent, field) = pointer.rsplit_once('/').unwrap();
    let parent = value.pointer_mut(parent).unwrap().as_object_mut().unwrap();
    // Field names with a slash are written as in JSON pointers.
    parent.insert(field.replace("~1", "/"), new);
    value
}

fn orphaned(uid_of_rollout: &str, version: &str) -> Value {
    let original = json!({"name": "web", "uid": uid_of_rollout}).to_string();
    with(
        deployment("web", "d-1", version),
        "/metadata/annotations",
        json!({"grayrollout.dev/original": original}),
    )
}

#[test]
fn a_snapshot_has_the_target_and_only_what_its_uid_controls() {
    let world = World::shop();
    world.put::<ReplicaSets>(&replica_set("stranger", "d-2", "13", 5));
    let snapshot = world.snapshot("web").unwrap();
    assert_eq!(snapshot.target.unwrap().uid, "d-1");
    assert_eq!(snapshot.replica_sets.len(), 1);
    assert_eq!(snapshot.replica_sets[0].name, "web-a");
    assert_eq!(world.snapshot("other").map(|s| s.rollout.name), None);
}

#[test]
fn a_change_of_any_of_the_three_touches_the_rollout() {
    let world = World::shop();
    world.put::<ReplicaSets>(&replica_set("web-a", "d-1", "20", 9));
    assert_eq!(world.told(), [work("web")]);
    world.put::<Deployments>(&with(deployment("web", "d-1", "21"), "/spec/replicas", json!(3)));
    assert_eq!(world.told(), [work("web")]);
    world.put::<Rollouts>(&with(rollout("web", "g-1", "22"), "/spec/paused", json!(true)));
    assert_eq!(world.told(), [work("web")]);
}

#[test]
fn a_change_of_nothing_that_is_looked_at_touches_nothing() {
    let world = World::shop();
    world.put::<Rollouts>(&rollout("web", "g-1", "20"));
    world.put::<Deployments>(&deployment("web", "d-1", "21"));
    world.put::<ReplicaSets>(&replica_set("web-a", "d-1", "22", 10));
    assert_eq!(world.told(), []);
    let snapshot = world.snapshot("web").unwrap();
    assert_eq!(snapshot.rollout.resource_version, "20", "but its version counts");
    assert_eq!(snapshot.replica_sets[0].resource_version, "22");
}

#[test]
fn old_news_is_dropped() {
    let world = World::shop();
    // The answer to our own write comes before the events of what was before it.
    world.put::<ReplicaSets>(&replica_set("web-a", "d-1", "100", 7));
    world.told();
    for old in ["99", "100", "12"] {
        world.put::<ReplicaSets>(&replica_set("web-a", "d-1", old, 1));
    }
    assert_eq!(world.sizes("web"), [7]);
    assert_eq!(world.told(), []);
    world.put::<ReplicaSets>(&replica_set("web-a", "d-1", "101", 8));
    assert_eq!(world.sizes("web"), [8]);
}

#[test]
fn what_was_deleted_does_not_come_back() {
    let world = World::shop();
    world.index.remove::<ReplicaSets>(&key("web-a"), "uid-web-a");
    assert_eq!(world.told(), [work("web")]);
    // An event from before, and a late answer from after it.
    for version in ["5", "12", "500"] {
        world.put::<ReplicaSets>(&replica_set("web-a", "d-1", version, 3));
    }
    assert!(world.sizes("web").is_empty());
}

#[test]
fn deleting_an_earlier_object_of_the_name_leaves_the_present_one() {
    let world = World::shop();
    world.put::<Deployments>(&deployment("web", "d-2", "30"));
    assert_eq!(world.told(), [work("web")]);
    assert!(world.sizes("web").is_empty(), "the old one's ReplicaSets are not the new one's");
    world.index.remove::<Deployments>(&key("web"), "d-1");
    assert_eq!(world.snapshot("web").unwrap().target.unwrap().uid, "d-2");
    world.put::<Deployments>(&deployment("web", "d-1", "29"));
    assert_eq!(world.snapshot("web").unwrap().target.unwrap().uid, "d-2");
}

#[test]
fn being_deleted_counts_as_gone_but_not_for_replica_sets() {
    let world = World::shop();
    let deleting = json!("2026-01-01T00:00:00Z");
    let dying =
        with(deployment("web", "d-1", "30"), "/metadata/deletionTimestamp", deleting.clone());
    world.put::<Deployments>(&dying);
    assert!(world.snapshot("web").unwrap().target.is_none());

    let world = World::shop();
    let dying = replica_set("web-a", "d-1", "30", 10);
    world.put::<ReplicaSets>(&with(dying, "/metadata/deletionTimestamp", deleting));
    assert!(world.snapshot("web").unwrap().replica_sets[0].deleting);
}

#[test]
fn a_list_removes_what_is_not_in_it() {
    let world = World::shop();
    world.put::<ReplicaSets>(&replica_set("web-b", "d-1", "13", 0));
    world.told();
    let mut relist = world.index.begin_list::<ReplicaSets>(None);
    world.index.put_listed(&mut relist, slim::<ReplicaSets>(&replica_set("web-b", "d-1", "13", 0)));
    world.index.end_list::<ReplicaSets>(&relist);
    assert_eq!(world.sizes("web"), [0]);
    assert_eq!(world.told(), [work("web")], "the vanished one is told");
}

#[test]
fn a_list_spares_what_was_put_while_it_ran() {
    let world = World::shop();
    let mut relist = world.index.begin_list::<ReplicaSets>(None);
    world.put::<ReplicaSets>(&replica_set("web-b", "d-1", "40", 2));
    world.put::<ReplicaSets>(&replica_set("web-a", "d-1", "41", 8));
    // The list was taken before both writes.
    world
        .index
        .put_listed(&mut relist, slim::<ReplicaSets>(&replica_set("web-a", "d-1", "12", 10)));
    world.index.end_list::<ReplicaSets>(&relist);
    let mut sizes = world.sizes("web");
    sizes.sort_unstable();
    assert_eq!(sizes, [2, 8]);
}

#[test]
fn a_list_is_the_truth_even_where_versions_start_again_lower() {
    let world = World::shop();
    let mut relist = world.index.begin_list::<ReplicaSets>(None);
    world.index.put_listed(&mut relist, slim::<ReplicaSets>(&replica_set("web-a", "d-1", "3", 4)));
    world.index.end_list::<ReplicaSets>(&relist);
    assert_eq!(world.sizes("web"), [4]);
}

#[test]
fn a_list_of_one_namespace_leaves_the_others() {
    let world = World::shop();
    let relist = world.index.begin_list::<Rollouts>(Some("elsewhere"));
    world.index.end_list::<Rollouts>(&relist);
    assert!(world.snapshot("web").is_some());
    let relist = world.index.begin_list::<Rollouts>(Some("shop"));
    world.index.end_list::<Rollouts>(&relist);
    assert!(world.snapshot("web").is_none());
}

#[test]
fn of_two_with_one_target_the_older_is_told_to_the_younger() {
    let world = World::shop();
    let younger = with(
        rollout("later", "g-2", "20"),
        "/metadata/creationTimestamp",
        json!("2026-01-02T00:00:00Z"),
    );
    world.put::<Rollouts>(&younger);
    assert_eq!(world.told(), [work("later"), work("web")]);
    assert_eq!(world.snapshot("later").unwrap().older_twin.as_deref(), Some("web"));
    assert_eq!(world.snapshot("web").unwrap().older_twin, None);
    world.index.remove::<Rollouts>(&key("web"), "g-1");
    assert!(world.told().contains(&work("later")), "its turn has come");
    assert_eq!(world.snapshot("later").unwrap().older_twin, None);
}

#[test]
fn of_two_of_the_same_age_exactly_one_works() {
    let world = World::shop();
    world.put::<Rollouts>(&rollout("twin", "g-0", "20"));
    let twins = ["web", "twin"].map(|name| world.snapshot(name).unwrap().older_twin);
    assert_eq!(twins, [Some("twin".to_owned()), None]);
}

#[test]
fn a_deployment_is_an_orphan_once_the_rollout_it_names_is_gone() {
    let world = World::shop();
    world.put::<Deployments>(&orphaned("g-1", "20"));
    assert_eq!(world.told(), [work("web")]);
    assert!(!world.is_orphan("web"));
    world.index.remove::<Rollouts>(&key("web"), "g-1");
    assert!(world.told().contains(&WorkKey::Orphan(key("web"))));
    assert!(world.is_orphan("web"));
    world.put::<ReplicaSets>(&replica_set("web-a", "d-1", "30", 4));
    assert_eq!(world.told(), [WorkKey::Orphan(key("web"))]);
    world.put::<Deployments>(&deployment("web", "d-1", "31"));
    assert!(!world.is_orphan("web"), "it is given back");
}

#[test]
fn a_new_rollout_takes_over_what_another_left() {
    let world = World::shop();
    world.put::<Deployments>(&orphaned("g-0", "20"));
    assert!(!world.is_orphan("web"));
    assert_eq!(world.told(), [work("web")]);
}

#[test]
fn a_copy_of_a_held_deployment_is_an_orphan() {
    let world = World::shop();
    let copy = with(orphaned("g-1", "20"), "/metadata/name", json!("copy"));
    world.put::<Deployments>(&with(copy, "/metadata/uid", json!("d-2")));
    assert!(world.is_orphan("copy"));
    assert_eq!(world.told(), [WorkKey::Orphan(key("copy"))]);
}

#[test]
fn an_approval_is_noted_once_and_only_when_it_changes() {
    let world = World::shop();
    assert!(world.index.take_approved(&key("web")).is_none());
    let approved = |version: &str, stage: i32| {
        let approval = json!({"approval": {"rollout": 1, "stage": stage}});
        with(rollout("web", "g-1", version), "/status", approval)
    };
    world.put::<Rollouts>(&approved("20", 2));
    assert!(world.index.take_approved(&key("web")).is_some());
    assert!(world.index.take_approved(&key("web")).is_none());
    world.put::<Rollouts>(&approved("21", 2));
    assert!(world.index.take_approved(&key("web")).is_none());
    world.put::<Rollouts>(&approved("22", 3));
    assert!(world.index.take_approved(&key("web")).is_some());
}

#[tokio::test]
async fn it_is_complete_once_every_watch_has_listed() {
    let world = World::new();
    let complete = tokio::spawn({
        let index = world.index.clone();
        async move { index.complete().await }
    });
    world.index.listed_first();
    world.index.listed_first();
    tokio::task::yield_now().await;
    assert!(!world.index.is_complete() && !complete.is_finished());
    world.index.listed_first();
    complete.await.unwrap();
    assert!(world.index.is_complete());
}

#[path = "adopt_tests.rs"]
mod adopt;
