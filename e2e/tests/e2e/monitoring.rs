//! Metrics, alerts and the dashboard, with a real Prometheus.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use grayrollout_e2e::{Json, Prometheus, Test, grayrollout, promtool, run, run_without_operator};
use serde_json::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace").to_owned()
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The rules of config/prometheus/alerts.yaml, as Prometheus takes them.
fn rules() -> Value {
    let shipped: Value =
        serde_saphyr::from_str(&read("config/prometheus/alerts.yaml")).expect("alerts.yaml");
    shipped.at("/spec").clone()
}

/// Name and query of each alert.
fn alerts() -> Vec<(String, String)> {
    let rules = rules();
    let all = rules.list("/groups").iter().flat_map(|group| group.list("/rules"));
    all.map(|rule| (rule.text("/alert").to_owned(), rule.text("/expr").to_owned())).collect()
}

/// Title and query of each panel of the dashboard, for all namespaces, as Grafana sends it.
fn panels() -> Vec<(String, String)> {
    let dashboard: Value =
        serde_json::from_str(&read("config/prometheus/dashboard.json")).expect("JSON");
    let mut queries = Vec::new();
    for panel in dashboard.list("/panels") {
        for target in panel.list("/targets") {
            let query = target.text("/expr").replace("$__rate_interval", "30s");
            let query = query.replace("$namespace", ".*").replace("$name", ".*");
            assert!(!query.contains('$'), "a variable of Grafana is left in {query}");
            queries.push((panel.text("/title").to_owned(), query));
        }
    }
    // The variables are filled from a metric.
    for variable in dashboard.list("/templating/list") {
        if let Some(of) = variable.text("/definition").strip_prefix("label_values(") {
            let (metric, label) = of.rsplit_once(", ").expect("a metric and a label");
            let label = label.trim_end_matches(')');
            let metric = metric.replace("$namespace", ".*");
            queries.push((format!("variable {label}"), format!("count by ({label}) ({metric})")));
        }
    }
    queries
}

/// Each metric in docs/metrics.md with its type.
fn documented() -> BTreeMap<String, String> {
    let page = read("docs/metrics.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.filter_map(|row| {
        let (name, rest) = row.split_once("` | ")?;
        let (kind, _) = rest.split_once(" |")?;
        Some((name.to_owned(), kind.to_owned()))
    })
    .collect()
}

/// Every alert is silent and fires when it should; its words are those that people read.
#[test]
fn alerts_pass_their_unit_tests() {
    let dir = std::env::temp_dir().join(format!("grayrollout-alerts-{}", std::process::id()));
    fs::create_dir_all(&dir).unwrap();
    let tests = read("config/prometheus/alerts_test.yaml");
    fs::write(dir.join("rules.yaml"), rules().to_string()).unwrap();
    fs::write(dir.join("alerts_test.yaml"), &tests).unwrap();
    let checked = promtool(&["check", "rules", "rules.yaml"], &dir, "");
    let tested = promtool(&["test", "rules", "alerts_test.yaml"], &dir, "");
    fs::remove_dir_all(&dir).unwrap();
    checked.unwrap_or_else(|said| panic!("{said}"));
    tested.unwrap_or_else(|said| panic!("{said}"));
    let help = read("docs/troubleshooting.md").to_lowercase();
    for (alert, _) in alerts() {
        assert!(tests.contains(&format!("alertname: {alert}\n")), "{alert} has no test");
        let heading = format!("### {}\n", alert.to_lowercase());
        assert!(help.contains(&heading), "docs/troubleshooting.md does not explain {alert}");
    }
}

/// Alerts and dashboard speak only of metrics that exist.
#[test]
fn every_metric_that_is_asked_for_is_documented() {
    let documented = documented();
    for (name, query) in alerts().into_iter().chain(panels()) {
        for word in query.split(|c: char| !c.is_ascii_alphanumeric() && c != '_') {
            if !word.starts_with("grayrollout_") && !word.starts_with("process_") {
                continue;
            }
            let of_histogram = ["_bucket", "_count", "_sum"].iter().find_map(|suffix| {
                let family = word.strip_suffix(suffix)?;
                (documented.get(family)? == "histogram").then_some(())
            });
            let known = documented.get(word).is_some_and(|kind| kind != "histogram");
            assert!(known || of_histogram.is_some(), "{name} asks for {word}");
        }
    }
}

/// A rollout goes through and another is held: each query of the dashboard gives something, the
/// numbers are those of the rollout, every rule can be evaluated, and what is scraped is documented.
#[test]
fn a_real_prometheus_shows_a_real_rollout() {
    run(async |t: &Test| {
        t.manage(4, &grayrollout("web", &[25, 100])).await;
        let scraped = t.operator_addresses().await;
        let rules = rules().to_string();
        let prometheus = Prometheus::start(t.cluster, &t.namespace, &scraped, &rules).await;
        let wait = async |what: &str, query: &str, wanted: &str| {
            let end = tokio::time::Instant::now() + t.at_most(30);
            loop {
                let found = prometheus.query(query).await;
                if found.first().is_some_and(|series| series.text("/value/1") == wanted) {
                    return;
                }
                let late = tokio::time::Instant::now() >= end;
                assert!(!late, "{what}: {query} gives {found:?} instead of {wanted}");
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        };
        let here = format!(r#"namespace="{}",name="web""#, t.namespace);
        let completed = format!(r#"grayrollout_phase{{{here},phase="Completed"}}"#);
        wait("at rest", &completed, "1").await;

        t.push("web", "v2").await;
        t.held("web", 1, 1, 3).await;
        t.approve("web", 2).await;
        t.completed("web").await;
        let ended = format!(
            r#"grayrollout_rollouts_total{{namespace="{}",result="Completed"}}"#,
            t.namespace
        );
        wait("the rollout ended", &ended, "1").await;
        t.push("web", "v3").await;
        t.held("web", 1, 1, 3).await;
        wait("held", &format!("grayrollout_actual_ratio{{{here}}}"), "0.25").await;

        for (title, query) in panels() {
            let end = tokio::time::Instant::now() + t.at_most(30);
            while prometheus.query(&query).await.is_empty() {
                assert!(tokio::time::Instant::now() < end, "{title}: nothing from {query}");
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        }
        let panel = |title: &str| {
            let found = panels().into_iter().find(|(name, _)| name == title);
            found.unwrap_or_else(|| panic!("no panel {title}")).1
        };
        for (title, value) in [
            ("GrayRollouts", "1"),
            ("Rolling out", "1"),
            ("Awaiting approval", "1"),
            ("Stalled", "0"),
            ("Operators leading", "1"),
            ("Share of new pods", "0.25"),
        ] {
            wait(title, &panel(title), value).await;
        }

        for rule in prometheus.rules().await {
            assert_eq!(rule.text("/health"), "ok", "{rule}");
        }
        what_is_scraped_is_documented(t).await;
    });
}

async fn what_is_scraped_is_documented(t: &Test) {
    let (code, text) = t.ask_operator("/metrics", None).await;
    assert_eq!(code, 200);
    let documented = documented();
    let mut families = 0;
    for (name, kind) in text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE "))
        .filter_map(|line| line.split_once(' '))
    {
        assert_eq!(documented.get(name).map(String::as_str), Some(kind), "{name}");
        families += 1;
    }
    assert!(families > 20, "only {families} metrics");
    let said = promtool(&["check", "metrics"], &t.cluster.dir, &text);
    assert!(said.is_ok(), "{said:?}");
}

/// With --metrics-auth only those read the metrics whom the API server knows and allows; probes
/// need nothing. Each refusal says what to do.
#[test]
fn metrics_only_for_whom_the_api_server_allows() {
    run_without_operator(async |t: &Test| {
        let (operator, _) = t.service_account("operator").await;
        let (_, reader) = t.service_account("reader").await;
        let (_, stranger) = t.service_account("stranger").await;
        let account = |name: &str| format!("--serviceaccount={}:{name}", t.namespace);
        // Cluster-wide objects of the test's own, from the shipped ones.
        let own = async |role: &str, name: &str| {
            let made = format!("{role}-{}", t.namespace);
            let role = format!("--clusterrole={role}");
            t.kubectl(&["create", "clusterrolebinding", &made, &role, &account(name)]).await;
        };
        own("grayrollout", "operator").await;
        own("grayrollout-policies", "operator").await;
        t.start_operator_with(&operator, &["--metrics-auth=true"]).await;

        let (code, said) = t.ask_operator("/metrics", Some(&reader)).await;
        assert_eq!((code, said.contains("grayrollout-metrics-auth")), (503, true), "{said}");

        let shipped = root().join("config/overlays/metrics-auth/rbac.yaml");
        t.kubectl(&["apply", "-f", shipped.to_str().unwrap()]).await;
        own("grayrollout-metrics-auth", "operator").await;
        own("grayrollout-metrics-reader", "reader").await;
        let end = tokio::time::Instant::now() + t.at_most(20);
        loop {
            let (code, said) = t.ask_operator("/metrics", Some(&reader)).await;
            if code == 200 {
                assert!(said.contains("grayrollout_leader"), "{said}");
                break;
            }
            assert!(tokio::time::Instant::now() < end, "the reader may read: {code} {said}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        for (token, code, why) in [
            (None, 401, "Authorization: Bearer TOKEN"),
            (Some("nonsense"), 401, "does not know this token"),
            (Some(stranger.as_str()), 403, "grayrollout-metrics-reader"),
        ] {
            let (answered, said) = t.ask_operator("/metrics", token).await;
            assert_eq!((answered, said.contains(why)), (code, true), "{token:?}: {said}");
            assert!(!said.contains("grayrollout_leader"), "{said}");
        }
        for probe in ["/healthz", "/readyz"] {
            assert_eq!(t.ask_operator(probe, None).await.0, 200, "{probe}");
        }
        for token in [&reader, &stranger] {
            assert!(!t.operator_logs().contains(token.as_str()), "a token is in the log");
        }
        t.exempt("403"); // the operator's own, before it was given its right
        let bound = [
            "grayrollout",
            "grayrollout-policies",
            "grayrollout-metrics-auth",
            "grayrollout-metrics-reader",
        ];
        for role in bound {
            t.kubectl(&["delete", "clusterrolebinding", &format!("{role}-{}", t.namespace)]).await;
        }
        t.kubectl(&["delete", "-f", shipped.to_str().unwrap()]).await;
    });
}

/// A namespace that loses its last GrayRollout is told of once more, then no longer.
#[test]
fn series_end_with_the_last_grayrollout_of_a_namespace() {
    run(async |t: &Test| {
        t.manage(2, &grayrollout("web", &[50, 100])).await;
        t.push("web", "v2").await;
        t.held("web", 1, 1, 1).await;
        t.approve("web", 2).await;
        t.completed("web").await;
        let of_namespace = format!(r#"namespace="{}""#, t.namespace);
        let counted = ["grayrollout_rollouts_total", of_namespace.as_str()];
        // It is counted a moment after the status that tells of it.
        let end = tokio::time::Instant::now() + t.at_most(5);
        while t.metric(&counted).await == 0.0 {
            assert!(tokio::time::Instant::now() < end, "the rollout is counted");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        t.kubectl(&["delete", "gr", "web"]).await;
        t.until("it is released", |now| !now.deployment("web").flag("/spec/paused")).await;
        let end = tokio::time::Instant::now() + t.at_most(10);
        while !t.metrics(&[&of_namespace]).await.is_empty() {
            assert!(tokio::time::Instant::now() < end, "{:?}", t.metrics(&[&of_namespace]).await);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    });
}
