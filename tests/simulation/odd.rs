//! Any JSON in the objects that are watched: it is decoded, planned for, and comes to rest.
//!
//! `tests/fixtures/corpus` holds worlds of a GrayRollout, its Deployment and ReplicaSets. Each is
//! changed at random places; `ODD_CASES` says how many times.

use std::{fs, path::Path, time::Duration};

use grayrollout::{
    api::GrayRolloutStatus,
    cluster::{
        index::Index,
        slim::{Deployments, Kind, ObjectKey, ReplicaSets, Rollouts, Slim},
    },
    plan::{Orphan, Snapshot, StatusWrite, plan, release},
};
use proptest::{
    collection::vec,
    prelude::*,
    sample::Index as Place,
    test_runner::{Config, RngSeed, TestRunner},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::{effect, world::time};

/// Most plans in a row that may each find something to write.
const CHAIN: usize = 12;

/// The worlds to begin with, by name.
fn corpus() -> Vec<(String, Value)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/corpus");
    let files = fs::read_dir(folder).expect("the corpus");
    let mut worlds: Vec<_> = files
        .map(|file| {
            let path = file.expect("a file").path();
            let text = fs::read_to_string(&path).expect("it can be read");
            let world = serde_json::from_str(&text).expect("JSON");
            (path.display().to_string(), world)
        })
        .collect();
    worlds.sort_by(|a, b| a.0.cmp(&b.0));
    worlds
}

/// What stands where something else should.
fn nonsense() -> impl Strategy<Value = Value> {
    let numbers = [
        json!(0),
        json!(-1),
        json!(1),
        json!(i32::MAX),
        json!(i32::MIN),
        json!(i64::MAX),
        json!(i64::MIN),
        json!(u64::MAX),
        json!(0.5),
        json!(1e308),
        json!(-1e308),
    ];
    let texts = [
        "",
        "0",
        "-1",
        "25%",
        "101%",
        "-5%",
        "99999999999%",
        "2147483648",
        "True",
        "9999-12-31T23:59:59Z",
        "-009999-01-01T00:00:00Z",
        "2026-13-77T99:00:00Z",
        "{",
        "{\"rollout\":-9223372036854775808,\"strategy\":{\"type\":\"Recreate\"}}",
        "{\"name\":\"web\",\"uid\":\"g-1\",\"rollout\":9223372036854775807}",
        "aaaaa",
        "bbbbb",
        "Recreate",
        "RollingBack",
        "Completed",
        "e\u{301}\u{0}\u{10ffff}",
    ];
    let others =
        [json!(null), json!(true), json!(false), json!([]), json!({}), json!([null, [], {}])];
    let texts = texts.map(Value::from);
    let all: Vec<_> = numbers.into_iter().chain(texts).chain(others).collect();
    prop_oneof![
        6 => prop::sample::select(all),
        1 => any::<i64>().prop_map(Value::from),
        1 => ".{0,300}".prop_map(Value::from),
    ]
}

#[derive(Debug, Clone)]
enum Change {
    /// Another value at the n-th place of the tree.
    Replace(Place, Value),
    /// The n-th member of all maps and lists is gone.
    Remove(Place),
    /// What stands at one place stands at another one as well.
    Copy(Place, Place),
}

fn change() -> impl Strategy<Value = Change> {
    let place = any::<Place>;
    prop_oneof![
        5 => (place(), nonsense()).prop_map(|(at, value)| Change::Replace(at, value)),
        2 => place().prop_map(Change::Remove),
        1 => (place(), place()).prop_map(|(from, to)| Change::Copy(from, to)),
    ]
}

/// Pointers to every place below `value`.
fn places(value: &Value, at: &str, found: &mut Vec<String>) {
    let mut below = |key: &str, value: &Value| {
        let pointer = format!("{at}/{}", key.replace('~', "~0").replace('/', "~1"));
        found.push(pointer.clone());
        places(value, &pointer, found);
    };
    match value {
        Value::Object(map) => map.iter().for_each(|(key, value)| below(key, value)),
        Value::Array(list) => {
            list.iter().enumerate().for_each(|(index, value)| below(&index.to_string(), value));
        }
        _ => {}
    }
}

fn put(world: &mut Value, at: Option<String>, value: Value) {
    if let Some(slot) = at.and_then(|at| world.pointer_mut(&at)) {
        *slot = value;
    }
}

fn apply(world: &mut Value, change: &Change) {
    let mut found = Vec::new();
    places(world, "", &mut found);
    let pick = |place: &Place| found.get(place.index(found.len().max(1))).cloned();
    match change {
        Change::Replace(at, value) => put(world, pick(at), value.clone()),
        Change::Copy(from, to) => {
            let value = pick(from).and_then(|from| world.pointer(&from).cloned());
            put(world, pick(to), value.unwrap_or_default());
        }
        Change::Remove(at) => {
            let Some((parent, key)) = pick(at).and_then(|at| {
                let (parent, key) = at.rsplit_once('/')?;
                Some((parent.to_owned(), key.replace("~1", "/").replace("~0", "~")))
            }) else {
                return;
            };
            match world.pointer_mut(&parent) {
                Some(Value::Object(map)) => {
                    map.remove(&key);
                }
                Some(Value::Array(list)) => {
                    let index = key.parse().unwrap_or(usize::MAX);
                    if index < list.len() {
                        list.remove(index);
                    }
                }
                _ => {}
            }
        }
    }
}

fn decoded<K: Kind>(value: &Value) -> Slim<K>
where
    Slim<K>: DeserializeOwned,
{
    // As it comes from a watch: text, read in one go.
    let text = value.to_string();
    serde_json::from_str(&text).unwrap_or_else(|why| panic!("a watch would end: {why}: {text}"))
}

/// What the operator would do with such a world.
fn survive(world: &Value) {
    let index = Index::new(0, |_| ());
    let now = time(1_800_000_000_000);
    let mut keys = vec![ObjectKey::new("shop", "web")];
    if let Some(value) = world.get("rollout").filter(|value| !value.is_null()) {
        let slim = decoded::<Rollouts>(value);
        keys.push(slim.key());
        index.put(slim);
    }
    if let Some(value) = world.get("deployment").filter(|value| !value.is_null()) {
        let slim = decoded::<Deployments>(value);
        keys.push(slim.key());
        index.put(slim);
    }
    for value in world.get("replicaSets").and_then(Value::as_array).into_iter().flatten() {
        index.put(decoded::<ReplicaSets>(value));
    }
    for key in keys {
        if let Some(snapshot) = index.snapshot(&key, now) {
            comes_to_rest(snapshot);
        }
        if let Some(orphan) = index.orphan(&key, now) {
            let _ = release(&orphan);
        }
    }
}

/// Nobody else acting, few plans in a row find something to write.
fn comes_to_rest(mut state: Snapshot) {
    if let Some(target) = state.target.clone() {
        let replica_sets = state.replica_sets.clone();
        let _ = release(&Orphan { now: state.now, target, replica_sets });
    }
    for _ in 0..CHAIN {
        let next = plan(&state);
        assert!(next.requeue_after != Some(Duration::ZERO), "plans again at once");
        if next.actions.is_empty() && next.write == StatusWrite::None {
            return;
        }
        state = effect::apply(&state, &next);
        let text = serde_json::to_string(&state.rollout.status).expect("a status");
        let stored: GrayRolloutStatus = serde_json::from_str(&text).expect("what was written");
        state.rollout.status = stored;
    }
    panic!("never comes to rest:\n{}", crate::describe::snapshot(&state));
}

#[test]
fn the_corpus_is_survived() {
    for (name, world) in corpus() {
        println!("{name}");
        survive(&world);
    }
}

#[test]
fn odd_worlds_are_survived() {
    let worlds: Vec<_> = corpus().into_iter().map(|(_, world)| world).collect();
    let cases = std::env::var("ODD_CASES").ok().and_then(|text| text.parse().ok());
    let config = Config {
        cases: cases.unwrap_or(4000),
        rng_seed: RngSeed::Fixed(crate::histories::seed()),
        failure_persistence: None,
        ..Config::default()
    };
    let odd =
        (prop::sample::select(worlds), vec(change(), 1..6)).prop_map(|(mut world, changes)| {
            for change in &changes {
                apply(&mut world, change);
            }
            world
        });
    let outcome = TestRunner::new(config).run(&odd, |world| {
        survive(&world);
        Ok(())
    });
    if let Err(why) = outcome {
        panic!("{why}");
    }
}
