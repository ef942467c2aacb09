//! Hooks: what they are told, and what becomes of a rollout whose hooks fail.

use std::{collections::BTreeSet, time::Duration};

use grayrollout_e2e::{
    Json, Received, Reply, Test, Webhook, deployment, grayrollout, run_without_operator,
};
use serde_json::{Value, json};

pub const ALL: [&str; 9] = [
    "StageStarting",
    "PodsAdding",
    "PodsAdded",
    "PodsRemoving",
    "PodsRemoved",
    "StageReached",
    "Completed",
    "RollingBack",
    "RolledBack",
];

pub fn with_hook(url: &str, on: &[&str], more: Value) -> Value {
    let hook = json!({"name": "lb", "on": on, "webhook": {"url": url, "timeoutSeconds": 2}});
    grayrollout("web", &[50, 100]).with(json!({"spec": {"hooks": [hook.with(more)]}}))
}

async fn operator(t: &Test) {
    let kubeconfig = &t.cluster.operator_kubeconfig;
    t.start_operator_with(kubeconfig, &["--allow-urls=http://127.0.0.1:*/*"]).await;
}

pub fn title(call: &Received) -> String {
    let body = &call.body;
    let counts = if body.at("/from").is_null() {
        String::new()
    } else {
        format!(" {}-{}", body.int("/from"), body.int("/to"))
    };
    format!("{}{counts}", body.text("/event"))
}

/// Every step of a rollout is told once and in order, with true counts, and so is the way back.
#[test]
fn every_step_is_told() {
    run_without_operator(async |t: &Test| {
        let hook = Webhook::start().await;
        hook.rule(|call| Reply::Status(200, json!({"message": title(call)}).to_string()));
        operator(t).await;
        t.manage(2, &with_hook(&hook.url("/${deployment}/${stage}"), &ALL, json!({}))).await;
        assert!(hook.calls().is_empty(), "nothing is told while nothing rolls out");
        t.push("web", "v2").await;
        t.held("web", 1, 1, 1).await;
        t.approve("web", 2).await;
        t.completed("web").await;
        t.until("all is told", |now| now.gr("web").list("/status/hookLedger/steps").is_empty())
            .await;
        let calls = hook.calls();
        let told: Vec<_> = calls.iter().map(title).collect();
        let first = ["StageStarting", "PodsAdding 0-1", "PodsAdded 0-1", "PodsRemoving 2-1"];
        assert_eq!(told[..4], first, "{told:?}");
        for step in [
            "PodsRemoved 2-1",
            "StageReached",
            "PodsAdding 1-2",
            "PodsAdded 1-2",
            "PodsRemoving 1-0",
            "Completed",
        ] {
            assert!(told.iter().any(|t| t == step), "{step}: {told:?}");
        }
        let keys: BTreeSet<_> = calls.iter().map(|call| &call.key).collect();
        assert_eq!(keys.len(), calls.len(), "each with a key of its own");
        assert_eq!(calls[0].path, "/web/1");
        let body = &calls[1].body;
        let status = t.status_now("web");
        assert_eq!(body.text("/revision"), status.text("/updateRevision"));
        assert_eq!(body.int("/rollout"), 1);
        assert_eq!(body.text("/idempotencyKey"), calls[1].key);
        assert_eq!(status.text("/hooks/0/result"), "Done");
        assert!(t.event("web", "HookMessage").await.text("/message").contains("hook lb at"));
        let done = t.metric(&["grayrollout_hook_calls_total{", r#"result="Done""#]).await;
        assert!(done >= 10.0, "{done}");

        t.push("web", "v3").await;
        t.held("web", 1, 1, 1).await;
        let before = hook.calls().len();
        t.abort("web").await;
        t.rolled_back("web").await;
        t.until("all is told", |now| now.gr("web").list("/status/hookLedger/steps").is_empty())
            .await;
        let told: Vec<_> = hook.calls()[before..].iter().map(title).collect();
        assert_eq!(told[0], "RollingBack", "{told:?}");
        assert!(told.contains(&"RolledBack".to_owned()), "{told:?}");
        let step = told.iter().position(|t| t == "PodsAdding 1-2").expect("pods come back");
        assert!(step > 0, "{told:?}");
    });
}

/// What a hook refuses waits, the deadline runs, and an abort gets through.
#[test]
fn a_hook_that_fails_holds_its_change_alone() {
    run_without_operator(async |t: &Test| {
        let hook = Webhook::start().await;
        hook.rule(|_| Reply::Status(503, "not drained yet".into()));
        operator(t).await;
        let gr = with_hook(&hook.url("/"), &["PodsRemoving"], json!({}))
            .with(json!({"spec": {"progressDeadlineSeconds": 6}}));
        t.manage(4, &gr).await;
        t.push("web", "v2").await;
        t.split("web", 1, 4).await;
        t.status("web", "it says what it waits for", |status| {
            let message = status.text("/message");
            message.contains("hook lb at PodsRemoving") && message.contains("not drained yet")
        })
        .await;
        assert_eq!(t.event("web", "HookFailed").await.text("/type"), "Warning");
        t.stalled("web", "ProgressDeadlineExceeded").await;
        t.always("old pods stay", Duration::from_secs(2), |now| now.split("web").old == 4).await;
        hook.rule(|_| Reply::done());
        t.held("web", 1, 2, 2).await;
        hook.rule(|_| Reply::Status(503, String::new()));
        t.abort("web").await;
        t.rolled_back("web").await;
    });
}

/// Hooks that hang, redirect, answer 10 MB, or are not there.
#[test]
fn odd_endpoints() {
    run_without_operator(async |t: &Test| {
        let hook = Webhook::start().await;
        let elsewhere = Webhook::start().await;
        operator(t).await;
        t.manage(2, &with_hook(&hook.url("/"), &["StageStarting", "RollingBack"], json!({}))).await;
        let says = async |what: &str| {
            t.status("web", what, |status| status.text("/hooks/0/message").contains(what)).await;
        };
        hook.rule(|_| Reply::Hang);
        t.push("web", "v2").await;
        says("no answer within 2 s").await;
        let to = elsewhere.url("/");
        hook.rule(move |_| Reply::Redirect(to.clone()));
        says("answered 302: redirects are not followed").await;
        t.always("no pod moves", Duration::from_secs(1), |now| now.split("web").new == 0).await;
        hook.rule(|_| Reply::Long(10_000_000));
        t.held("web", 1, 1, 1).await;
        says("longer than 64 KiB").await;
        assert!(elsewhere.calls().is_empty(), "the redirect was followed");

        // A hook that hangs holds an abort no longer than its timeout.
        hook.rule(|_| Reply::Hang);
        let began = t.record.elapsed();
        t.abort("web").await;
        t.rolled_back("web").await;
        let took = t.record.elapsed().saturating_sub(began);
        assert!(took < t.at_most(6), "{took:?}");

        let nowhere = json!([{"name": "lb", "on": ["StageStarting"], "webhook": {"url": "http://127.0.0.1:1"}}]);
        t.patch_gr("web", &json!({"spec": {"hooks": nowhere}})).await;
        t.push("web", "v3").await;
        says("cannot be reached").await;
        let foreign = json!([{"name": "lb", "on": ["StageStarting"], "webhook": {"url": "http://example.org"}}]);
        t.patch_gr("web", &json!({"spec": {"hooks": foreign}})).await;
        says("--allow-urls").await;
        let ignored = json!([{
            "name": "lb", "on": ["StageStarting"], "failurePolicy": "Ignore",
            "webhook": {"url": "http://127.0.0.1:1"},
        }]);
        t.patch_gr("web", &json!({"spec": {"hooks": ignored}})).await;
        t.held("web", 1, 1, 1).await;
    });
}

/// A rollout whose hooks and checks all hang does not delay another.
#[test]
fn a_slow_endpoint_of_one_rollout_does_not_delay_another() {
    run_without_operator(async |t: &Test| {
        let slow = Webhook::start().await;
        slow.rule(|_| Reply::Hang);
        let fast = Webhook::start().await;
        operator(t).await;
        let checks: Vec<_> = (0..10)
            .map(|i| {
                json!({"name": format!("c{i}"), "webhook": {"url": slow.url("/"), "timeoutSeconds": 30}})
            })
            .collect();
        for name in ["slow-a", "slow-b"] {
            let hook = json!({"name": "lb", "on": ALL, "webhook": {"url": slow.url("/"), "timeoutSeconds": 30}});
            let gr = grayrollout(name, &[50, 100])
                .with(json!({"spec": {"hooks": [hook], "checks": checks}}));
            t.manage_with(&deployment(name, 2), &gr).await;
        }
        t.manage(2, &with_hook(&fast.url("/"), &ALL, json!({}))).await;
        for name in ["slow-a", "slow-b"] {
            t.push(name, "v2").await;
        }
        slow.more_than(7).await;
        let began = t.record.elapsed();
        t.push("web", "v2").await;
        t.held("web", 1, 1, 1).await;
        let took = t.record.elapsed().saturating_sub(began);
        assert!(took < t.at_most(8), "{took:?}");
    });
}
