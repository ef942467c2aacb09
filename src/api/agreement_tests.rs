//! The bounds of checks and hooks in the process and those of the API server are the same.

use garde::Validate;
use proptest::{prelude::*, sample::select};
use serde_json::{Value, json};

use super::GrayRolloutSpec;
use crate::cli::schema::Schema;

const URLS: [&str; 15] = [
    "http://lb.infra:8080/x?y=${stage}",
    "https://${name}.${namespace}/",
    "http://[::1]:80",
    "http://lb",
    "ftp://lb/",
    "http://",
    "http:///x",
    "http://user@lb/",
    "http://lb/#part",
    "http://lb/a b",
    "http://lb/${unknown}",
    "http://lb/${name",
    "http://lb/$1$${name}$",
    "http://lb/$${x}",
    "",
];

fn url() -> impl Strategy<Value = String> {
    select(&URLS[..]).prop_map(str::to_owned)
}

fn name() -> impl Strategy<Value = String> {
    select(["a", "b", "error-rate", "-a", "a-", "A", "a_b", "", "0"].as_slice())
        .prop_map(str::to_owned)
}

fn check() -> impl Strategy<Value = Value> {
    let bound = || prop::option::of(select([-1.0, 0.0, 0.5, 2.0].as_slice()));
    let query = select(["up", "up{a=\"${stage}\"}", "up{a=\"${no}\"}", "$", ""].as_slice());
    let source = prop_oneof![
        4 => (url(), query, bound(), bound()).prop_map(|(address, query, min, max)| {
            json!({"prometheus": {"address": address, "query": query, "min": min, "max": max}})
        }),
        2 => (url(), prop::option::of(0..40_i32)).prop_map(|(url, timeout)| {
            json!({"webhook": {"url": url, "timeoutSeconds": timeout}})
        }),
        1 => Just(json!({})),
        1 => Just(json!({
            "webhook": {"url": "http://a"},
            "prometheus": {"address": "http://a", "query": "b", "max": 1},
        })),
    ];
    let numbers = (0..5_i32, select([4, 5, 3600, 3601].as_slice()), 0..3_i32, 0..3_i32);
    (name(), source, prop::option::weighted(0.4, numbers)).prop_map(|(name, mut check, numbers)| {
        check["name"] = json!(name);
        if let Some((from, interval, failures, inconclusive)) = numbers {
            check["fromStage"] = json!(from);
            check["intervalSeconds"] = json!(interval);
            check["failureLimit"] = json!(failures);
            check["inconclusiveLimit"] = json!(inconclusive);
        }
        check
    })
}

fn hook() -> impl Strategy<Value = Value> {
    let events = select(["StageStarting", "PodsAdding", "Completed"].as_slice());
    (name(), url(), prop::collection::vec(events, 0..3))
        .prop_map(|(name, url, on)| json!({"name": name, "on": on, "webhook": {"url": url}}))
}

proptest! {
    #[test]
    fn both_refuse_the_same(
        checks in prop::collection::vec(check(), 0..3), hooks in prop::collection::vec(hook(), 0..3),
    ) {
        let spec = json!({
            "targetRef": {"name": "web"}, "stages": [{"percent": 10}, {"percent": 100}],
            "checks": checks, "hooks": hooks,
        });
        let object = json!({
            "apiVersion": "grayrollout.dev/v1alpha1", "kind": "GrayRollout",
            "metadata": {"name": "web"}, "spec": spec,
        });
        let refused = Schema::new().unwrap().check(&object);
        let typed: GrayRolloutSpec = serde_json::from_value(spec).unwrap();
        let bounds = typed.validate();
        prop_assert_eq!(refused.is_empty(), bounds.is_ok(), "{:?} {:?}", refused, bounds);
    }
}
