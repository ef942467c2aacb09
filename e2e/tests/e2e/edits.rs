//! Checks and hooks that are edited while a rollout is under way.

use grayrollout_e2e::{Json, Reply, Test, Webhook, grayrollout, run_without_operator};
use serde_json::{Value, json};

async fn operator(t: &Test) {
    let kubeconfig = &t.cluster.operator_kubeconfig;
    t.start_operator_with(kubeconfig, &["--allow-urls=http://127.0.0.1:*/*"]).await;
}

fn names(status: &Value, list: &str) -> Vec<String> {
    let mut names: Vec<_> =
        status.list(list).iter().map(|one| one.text("/name").to_owned()).collect();
    names.sort();
    names
}

fn events(webhook: &Webhook) -> Vec<String> {
    webhook.calls().iter().map(|call| call.body.text("/event").to_owned()).collect()
}

/// What a hook holds goes on once the hook is renamed, loses the event or is taken away; one that
/// comes is told from then on.
#[test]
fn hooks() {
    run_without_operator(async |t: &Test| {
        let (refuses, accepts) = (Webhook::start().await, Webhook::start().await);
        refuses.rule(|_| Reply::Status(503, "no".into()));
        operator(t).await;
        let hook = |name: &str, webhook: &Webhook, on: &[&str]| json!({"name": name, "on": on, "webhook": {"url": webhook.url("/")}});
        let set = async |hooks: &[Value]| {
            t.patch_gr("web", &json!({"spec": {"hooks": hooks}})).await;
        };
        let first = hook("one", &refuses, &["StageStarting"]);
        t.manage(4, &grayrollout("web", &[25, 50, 100]).with(json!({"spec": {"hooks": [first]}})))
            .await;
        t.push("web", "v2").await;
        t.status("web", "it is held", |s| s.text("/message").contains("hook one at")).await;
        assert_eq!(t.record.look(|now| now.split("web").new), 0);

        // Renamed: it is another hook, which is called for the same step.
        set(&[hook("two", &accepts, &["StageStarting", "PodsRemoving"])]).await;
        t.held("web", 1, 1, 3).await;
        assert_eq!(events(&accepts), ["StageStarting", "PodsRemoving"]);
        t.status("web", "the old name is gone", |s| names(s, "/hooks") == ["two"]).await;

        // Added: it is told of the pods that are there and of the stage that is reached, and then on.
        let late = Webhook::start().await;
        let two = hook("two", &accepts, &["StageStarting", "PodsRemoving"]);
        let all = ["StageStarting", "PodsAdding", "PodsAdded", "PodsRemoving", "StageReached"];
        set(&[two.clone(), hook("late", &late, &all)]).await;
        late.more_than(2).await;
        t.held("web", 1, 1, 3).await;
        assert_eq!(events(&late), ["PodsAdded", "PodsAdded", "StageReached"]);
        t.approve("web", 2).await;
        t.held("web", 2, 2, 2).await;
        assert_eq!(events(&late)[3..], all);
        t.status("web", "both are there", |s| names(s, "/hooks") == ["late", "two"]).await;

        // It refuses an event that is then taken from its list.
        accepts.rule(|_| Reply::Status(503, "busy".into()));
        t.approve("web", 3).await;
        t.status("web", "it is held", |s| s.text("/message").contains("hook two at")).await;
        set(&[hook("two", &accepts, &["PodsRemoving"])]).await;
        t.status("web", "old pods wait", |s| {
            s.text("/message").contains("hook two at PodsRemoving")
        })
        .await;
        // And none at all.
        t.patch_gr("web", &json!({"spec": {"hooks": null}})).await;
        t.completed("web").await;
        let status = t.status_now("web");
        assert!(status.list("/hooks").is_empty(), "{status}");
        assert!(status.list("/hookLedger/steps").is_empty(), "{status}");
    });
}

/// A stage that a check has failed goes on once the check has a higher limit, another name or is
/// gone; one that comes is waited for.
#[test]
fn checks() {
    run_without_operator(async |t: &Test| {
        let (bad, good) = (Webhook::start().await, Webhook::start().await);
        bad.rule(|_| Reply::Status(400, "bad".into()));
        operator(t).await;
        let check = |name: &str, webhook: &Webhook, limit: i32| {
            json!({
                "name": name, "intervalSeconds": 5, "failureLimit": limit,
                "webhook": {"url": webhook.url("/")},
            })
        };
        let set = async |checks: &[Value]| {
            t.patch_gr("web", &json!({"spec": {"checks": checks}})).await;
        };
        t.manage(4, &grayrollout("web", &[25, 50, 100])).await;
        t.push("web", "v2").await;
        t.held("web", 1, 1, 3).await;

        // Added while the stage waits for approval: it takes the readiness away.
        set(&[check("a", &bad, 100)]).await;
        t.status("web", "no longer ready", |s| s.text("/phase") == "Progressing").await;
        // Its limit goes down below what it has failed.
        set(&[check("a", &bad, 1)]).await;
        t.stalled("web", "ChecksFailed").await;
        let calls = bad.calls().len();
        // And up again: it is measured again.
        set(&[check("a", &bad, 100)]).await;
        bad.more_than(calls).await;
        t.status("web", "it goes on", |s| s.text("/phase") == "Progressing").await;
        // Renamed, and good.
        set(&[check("b", &good, 1)]).await;
        t.held("web", 1, 1, 3).await;
        t.status("web", "the old name is gone", |s| names(s, "/checks") == ["b"]).await;

        // Failed at the next stage, then taken away.
        set(&[check("b", &bad, 1)]).await;
        t.approve("web", 2).await;
        t.stalled("web", "ChecksFailed").await;
        t.patch_gr("web", &json!({"spec": {"checks": null}})).await;
        t.held("web", 2, 2, 2).await;
        t.approve("web", 3).await;
        t.completed("web").await;
        assert!(t.status_now("web").list("/checks").is_empty());
    });
}
