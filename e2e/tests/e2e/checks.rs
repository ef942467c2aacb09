//! Checks, with a real Prometheus that scrapes a server whose metrics depend on the revision.

use std::time::Duration;

use grayrollout_e2e::{
    Json, Prometheus, Reply, Test, Webhook, grayrollout, path_of, pods_ready_after, reason_of,
    run_without_operator,
};
use serde_json::{Value, json};

const INTERVAL: i64 = 5;

/// Errors of each revision: v3 is bad, v4 is not a number, all others are good.
async fn metrics(t: &Test) -> Webhook {
    let server = Webhook::start().await;
    let record = t.record.observer();
    server.rule(move |_| Reply::Status(200, record.look(exposition)));
    server
}

fn exposition(now: &grayrollout_e2e::Snapshot) -> String {
    let sets = now.all(grayrollout_e2e::Kind::ReplicaSet);
    let series = sets.map(|set| {
        let revision = set.text("/metadata/labels/pod-template-hash");
        let errors = match set.text("/spec/template/spec/containers/0/image") {
            "app:v3" => "0.5",
            "app:v4" => "NaN",
            _ => "0.001",
        };
        format!("errors{{revision=\"{revision}\"}} {errors}\n")
    });
    series.collect::<Vec<_>>().concat()
}

async fn operator(t: &Test) {
    let kubeconfig = &t.cluster.operator_kubeconfig;
    t.start_operator_with(kubeconfig, &["--allow-urls=in-cluster,http://127.0.0.1:*/*"]).await;
}

fn check(name: &str, source: Value) -> Value {
    json!({"name": name, "intervalSeconds": INTERVAL, "inconclusiveLimit": 2}).with(source)
}

fn query(address: &str, query: &str) -> Value {
    json!({"prometheus": {"address": address, "query": query, "max": 0.01}})
}

fn errors(prometheus: &Prometheus) -> Value {
    let address = format!("http://{}", prometheus.listen());
    check("errors", query(&address, "errors{revision=\"${updateRevision}\"}"))
}

fn with_checks(checks: &[Value]) -> Value {
    grayrollout("web", &[25, 50, 100])
        .with(json!({"spec": {"checks": checks, "onFailure": "Rollback"}}))
}

/// A good version passes every stage; a bad one goes back from the first within two intervals; one
/// whose value is not a number is held.
#[test]
fn good_passes_bad_goes_back_and_nan_is_held() {
    run_without_operator(async |t: &Test| {
        let server = metrics(t).await;
        let prometheus =
            Prometheus::start(t.cluster, "checks", &[server.listen()], "groups: []").await;
        operator(t).await;
        t.manage(4, &with_checks(&[errors(&prometheus)])).await;

        t.push("web", "v2").await;
        t.held("web", 1, 1, 3).await;
        let status = t.status_now("web");
        assert_eq!(status.text("/checks/0/result"), "Passed");
        assert_eq!(status.text("/checks/0/value"), "0.001");
        t.approve("web", 3).await;
        t.completed("web").await;

        let start = t.record.newest();
        let began = t.record.elapsed();
        t.push("web", "v3").await;
        let within = t.at_most(2 * INTERVAL.unsigned_abs());
        t.until_within("it goes back", within, |now| {
            ["RollingBack", "RolledBack"].contains(&now.gr("web").text("/status/phase"))
        })
        .await;
        println!("it went back after {:?}", t.record.elapsed().saturating_sub(began));
        t.rolled_back("web").await;
        assert_eq!(t.most_since(start, |now| now.asked("web", "v3")), 1, "stage 1, and no more");
        let status = t.status_now("web");
        assert_eq!(status.text("/history/0/result"), "Failed");
        assert!(status.text("/message").contains("0.5 is above the most of 0.01"), "{status}");
        assert_eq!(t.event("web", "CheckFailed").await.text("/type"), "Warning");
        let failed =
            t.metric(&["grayrollout_check_measurements_total{", r#"result="Failed""#]).await;
        assert!(failed >= 1.0, "{failed}");

        t.push("web", "v4").await;
        // Before Prometheus has seen the new pods there is no sample at all.
        t.status("web", "held for a value that is no number", |status| {
            status.text("/phase") == "Stalled"
                && reason_of(status, "Stalled") == "ChecksFailed"
                && status.text("/checks/0/result") == "Inconclusive"
                && status.text("/message").contains("the value is NaN")
        })
        .await;
        let status = t.status_now("web");
        assert_eq!(status.int("/update/available"), 1, "it is held at stage 1");
        t.push("web", "v5").await;
        t.held("web", 1, 1, 3).await;
    });
}

/// Unreachable, empty and slow: held, with the reason in words; it goes on by itself.
#[test]
fn no_result_holds_and_says_why() {
    run_without_operator(async |t: &Test| {
        let server = metrics(t).await;
        let prometheus =
            Prometheus::start(t.cluster, "silent", &[server.listen()], "groups: []").await;
        let slow = Webhook::start().await;
        slow.rule(|_| Reply::Hang);
        operator(t).await;
        let address = format!("http://{}", prometheus.listen());
        let slow_source =
            query(&slow.url(""), "up").with(json!({"prometheus": {"timeoutSeconds": 1}}));
        let checks = [
            check("unreachable", query("http://127.0.0.1:1", "up")),
            check("empty", query(&address, "nothing")),
            check("wrong", query(&address, "sum(")),
            check("slow", slow_source),
            check("elsewhere", query("http://192.0.2.1", "up")),
        ];
        t.manage(4, &with_checks(&checks)).await;
        t.push("web", "v2").await;
        t.stalled("web", "ChecksFailed").await;
        t.status("web", "every check has a result", |s| s.list("/checks").len() == 5).await;
        for (name, why) in [
            ("unreachable", "127.0.0.1:1 cannot be reached"),
            ("empty", "the query gave no sample"),
            ("wrong", "parse error"),
            ("slow", "no answer within 1 s"),
            ("elsewhere", "--allow-urls"),
        ] {
            let status = t.status_now("web");
            let last = status.list("/checks").iter().find(|c| c.text("/name") == name);
            let last = last.unwrap_or_else(|| panic!("no {name}: {status}"));
            assert_eq!(last.text("/result"), "Inconclusive", "{last}");
            assert!(last.text("/message").contains(why), "{last}");
        }
        t.approve("web", 2).await;
        t.always("it is held", Duration::from_secs(3), |now| {
            now.gr("web").int("/status/stage") == 1 && now.split("web").new == 1
        })
        .await;
        t.patch_gr("web", &json!({"spec": {"checks": [errors(&prometheus)]}})).await;
        t.held("web", 2, 2, 2).await;
    });
}

/// A webhook that fails while a stage waits withdraws the readiness; the approval is kept.
#[test]
fn a_failing_webhook_withdraws_the_readiness() {
    run_without_operator(async |t: &Test| {
        let smoke = Webhook::start().await;
        operator(t).await;
        let source = json!({
            "failureLimit": 100, "webhook": {"url": smoke.url("/run?revision=${updateRevision}")},
        });
        t.manage(4, &with_checks(&[check("smoke", source)])).await;
        t.push_pods("web", "v2", pods_ready_after("300ms")).await;
        t.held("web", 1, 1, 3).await;
        let call = smoke.calls().pop().unwrap();
        let revision = t.status_now("web").text("/updateRevision").to_owned();
        assert_eq!(call.path, format!("/run?revision={revision}"));
        assert_eq!(call.body.text("/check"), "smoke");
        assert!(!call.key.is_empty() && call.body.text("/idempotencyKey") == call.key);

        smoke.rule(|_| Reply::Status(409, "basket is broken".into()));
        t.status("web", "the readiness is withdrawn", |status| {
            status.text("/phase") == "Progressing"
                && reason_of(status, "Progressing") == "AwaitingChecks"
        })
        .await;
        let status = t.status_now("web");
        assert!(status.text("/message").contains("answered 409: basket is broken"), "{status}");
        t.approve("web", 2).await;
        t.always("it is held", Duration::from_secs(3), |now| now.split("web").new == 1).await;
        smoke.rule(|_| Reply::done());
        t.held("web", 2, 2, 2).await;
    });
}

/// What the API server refuses, it refuses with what to do.
#[test]
fn mistakes_are_refused_with_what_to_do() {
    run_without_operator(async |t: &Test| {
        let all = json!({"webhook": {"url": "http://a"}, "prometheus": {"address": "http://a", "query": "b", "max": 1}});
        let mut bad = vec![
            (check("a", json!({})), "either prometheus or webhook"),
            (check("a", all), "either prometheus or webhook"),
            (check("a", json!({"webhook": {"url": "http://a/${revision}"}})), "${updateRevision}"),
            (check("a", query("http://a", "b{c=\"${x}\"}")), "${updateRevision}"),
            (check("a", json!({"webhook": {"url": "file:///etc/passwd"}})), "must be a URL"),
            (check("a b", json!({"webhook": {"url": "http://a"}})), "lower case letters"),
            (check("a", json!({"fromStage": 9, "webhook": {"url": "http://a"}})), "fromStage"),
        ];
        let unbounded = json!({"prometheus": {"address": "http://a", "query": "b", "max": null}});
        bad.push((check("a", unbounded), "min, max or both"));
        let inverted =
            json!({"prometheus": {"address": "http://a", "query": "b", "min": 2, "max": 1}});
        bad.push((check("a", inverted), "min must not be above max"));
        for (check, why) in bad {
            let said = t.create_refused(&with_checks(&[check])).await;
            assert!(said.contains(why), "{why}: {said}");
        }
        let good = check("a", json!({"webhook": {"url": "http://a"}}));
        let said = t.create_refused(&with_checks(&[good.clone(), good.clone()])).await;
        assert!(said.contains("Duplicate value") || said.contains("unique"), "{said}");
        let hook = |on: &[&str]| json!({"spec": {"hooks": [{"name": "a", "on": on, "webhook": {"url": "http://a"}}]}});
        let twice = hook(&["PodsAdded", "PodsAdded"]);
        let said = t.create_refused(&grayrollout("web", &[100]).with(twice)).await;
        assert!(said.contains("named once"), "{said}");
        t.create(&with_checks(&[good]).with(hook(&["PodsAdded", "Completed"]))).await;
    });
}

/// The shipped examples are accepted as they are.
#[test]
fn the_examples_are_accepted() {
    run_without_operator(async |t: &Test| {
        for sample in ["checks", "hooks"] {
            let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
            let file = root.join(format!("config/samples/{sample}.yaml"));
            let text = std::fs::read_to_string(&file).unwrap();
            let mut grays = 0;
            for part in text.split("\n---\n") {
                let object: Value = serde_saphyr::from_str(part).unwrap();
                if object.text("/kind") == "GrayRollout" {
                    let path = path_of("grayrollout.dev/v1alpha1", &t.namespace, "grayrollouts");
                    let path = format!("{path}?dryRun=All&fieldValidation=Strict");
                    t.api.post(&path, &object).await.unwrap_or_else(|e| panic!("{sample}: {e}"));
                    grays += 1;
                }
            }
            assert_eq!(grays, 1, "{sample}");
            t.kubectl(&["apply", "--dry-run=server", "-f", file.to_str().unwrap()]).await;
        }
    });
}
