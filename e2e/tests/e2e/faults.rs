//! An API server that fails, lags or loses connections, and objects that make no sense.

use std::time::Duration;

use grayrollout_e2e::{
    Faults, Json, Kind, OPERATOR, Proxy, Split, Test, deployment, grayrollout, pods_ready_after,
    run, run_without_operator, stages, writer,
};
use serde_json::{Value, json};

fn automatic() -> Value {
    let stages = stages(&[30, 60, 100], &json!({"approval": "Automatic"}));
    grayrollout("web", &[100]).with(json!({"spec": {"stages": stages}}))
}

async fn behind_a_proxy(t: &Test) -> Proxy {
    let proxy = Proxy::start(t).await;
    t.start_operator_with(proxy.kubeconfig(), &[]).await;
    proxy
}

/// Errors of all kinds for some seconds while held and while paused by nobody: no change is read
/// into them, and once they end all is as it was and goes on.
#[test]
fn f1673_transient_errors_are_no_change() {
    run_without_operator(async |t: &Test| {
        let proxy = behind_a_proxy(t).await;
        t.manage(4, &grayrollout("web", &[50, 100])).await;
        t.push("web", "v2").await;
        t.held("web", 1, 2, 2).await;
        t.quiet("web").await;
        let before = t.status_now("web");
        for fault in
            [Faults::Answer(500), Faults::Answer(503), Faults::Answer(404), Faults::TooMany(1)]
        {
            proxy.rule(move |_, _| fault);
            proxy.cut_watches();
            t.always("nothing changes", Duration::from_secs(2), |now| {
                let status = now.gr("web").at("/status");
                status == &before && now.split("web") == Split { new: 2, old: 2 }
            })
            .await;
        }
        proxy.heal();
        t.approve("web", 2).await;
        // After many failures in a row the next try is up to 20 s away, the watches' up to 5 s.
        t.until_within("it goes on", t.at_most(60), |now| {
            now.gr("web").text("/status/phase") == "Completed"
        })
        .await;
        t.completed("web").await;
        let phases = t.since(0, |now| now.gr("web").text("/status/phase").to_owned());
        assert!(!phases.contains(&"Pending".to_owned()), "a target that is there was missed");
    });
}

/// The operator starts while reads fail, as when it is upgraded in a bad hour: nothing rolls out.
#[test]
fn f989_started_while_reads_fail() {
    run_without_operator(async |t: &Test| {
        let proxy = behind_a_proxy(t).await;
        t.manage(4, &grayrollout("web", &[50, 100])).await;
        t.kill_operator().await;
        let start = t.record.newest();
        let before = t.status_now("web");
        let mut count = 0;
        proxy.rule(move |method, path| {
            count += 1;
            let read = method == "GET" && !path.contains("watch=");
            if read && count % 3 != 0 { Faults::Answer(500) } else { Faults::None }
        });
        t.start_operator_with(proxy.kubeconfig(), &[]).await;
        t.always("nothing rolls out", Duration::from_secs(3), |now| {
            let status = now.gr("web").at("/status");
            status.text("/phase") == "Completed" && status.at("/rollout") == before.at("/rollout")
        })
        .await;
        proxy.heal();
        t.completed("web").await;
        let ours: Vec<_> = t.record.history();
        let touched = ours.iter().filter(|stored| {
            stored.version > start
                && stored.kind == Kind::ReplicaSet
                && writer(None, &stored.object, &["nothing"]) == Some(OPERATOR)
        });
        assert_eq!(touched.count(), 0);
    });
}

/// A whole rollout over connections that break, with every fifth write failing or its answer lost.
#[test]
fn a_rollout_over_a_bad_line() {
    run_without_operator(async |t: &Test| {
        let proxy = behind_a_proxy(t).await;
        t.manage(6, &automatic()).await;
        let mut count = 0;
        proxy.rule(move |method, _| {
            if method == "GET" {
                return Faults::None;
            }
            count += 1;
            match count % 10 {
                3 => Faults::Answer(500),
                5 => Faults::Late(Duration::from_millis(300)),
                7 => Faults::LoseAnswer,
                9 => Faults::Answer(409),
                _ => Faults::None,
            }
        });
        t.push_pods("web", "v2", pods_ready_after("100ms")).await;
        for _ in 0..20 {
            let done = t.record.until(Duration::from_millis(300), |now| {
                now.gr("web").text("/status/phase") == "Completed" && now.split("web").old == 0
            });
            if done.await.is_ok() {
                break;
            }
            proxy.cut_watches();
        }
        proxy.heal();
        t.completed("web").await;
    });
}

/// Restarted against an API server that first answers lists as they were long ago: nothing is done
/// that the present state does not allow.
#[test]
fn n59848_restarted_against_a_lagging_server() {
    run_without_operator(async |t: &Test| {
        let proxy = behind_a_proxy(t).await;
        t.manage(6, &grayrollout("web", &[50, 100])).await;
        // What was listed first is from before there was anything at all; list once more.
        t.kill_operator().await;
        let proxy = {
            drop(proxy);
            behind_a_proxy(t).await
        };
        t.push_pods("web", "v2", pods_ready_after("100ms")).await;
        t.held("web", 1, 3, 3).await;
        let rollout = t.rollout("web");
        t.kill_operator().await;
        let sets = t.record.look(|now| now.all(Kind::ReplicaSet).count());
        proxy.rule(|method, path| {
            if method == "GET" && !path.contains("watch=") {
                Faults::FirstList
            } else {
                Faults::None
            }
        });
        t.start_operator_with(proxy.kubeconfig(), &[]).await;
        t.always("it is as it was", Duration::from_secs(3), |now| {
            now.split("web") == Split { new: 3, old: 3 } && now.gr("web").int("/status/stage") == 1
        })
        .await;
        assert_eq!(t.record.look(|now| now.all(Kind::ReplicaSet).count()), sets);
        assert_eq!(t.rollout("web"), rollout);
        t.approve("web", 2).await;
        t.completed("web").await;
    });
}

/// Objects that make no sense: an annotation that is no JSON, a status that cannot be. The operator
/// neither falls over nor spins, and others are rolled out as ever.
#[test]
fn a4971_odd_objects() {
    run(async |t: &Test| {
        // The nonsense below is a stored state too; its phase and conditions do not fit.
        t.exempt("conditions");
        let odd = deployment("odd", 2).with(json!({"metadata": {"annotations": {
            "grayrollout.dev/original": "{no json", "grayrollout.dev/rollout": "someone",
        }}}));
        t.create(&odd).await;
        t.create(&grayrollout("odd", &[50, 100])).await;
        t.create(&deployment("strange", 2)).await;
        t.create(&grayrollout("strange", &[50, 100])).await;
        t.completed("strange").await;
        let nonsense = json!({"status": {
            "stage": 99, "stages": -3, "rollout": 999_999_999, "phase": "Progressing",
            "split": {"replicas": -1, "update": i32::MAX}, "stagePercents": [700, -5],
            "stableRevision": "", "updateRevision": "none", "targetUID": "x",
        }});
        let path = t.gr_path("strange") + "/status";
        t.api.patch(&path, &nonsense).await.expect("the schema lets it through");

        t.manage(4, &grayrollout("web", &[25, 100])).await;
        t.push("web", "v2").await;
        t.held("web", 1, 1, 3).await;
        t.approve("web", 2).await;
        t.completed("web").await;
        t.completed("strange").await;

        let before = t.metrics(&["grayrollout_api_requests_total{"]).await;
        let requests = t.metric(&["grayrollout_api_requests_total{"]).await;
        let written = t.record.newest();
        t.always("the operator is up", Duration::from_secs(10), |_| true).await;
        let more = t.metric(&["grayrollout_api_requests_total{"]).await - requests;
        let after = t.metrics(&["grayrollout_api_requests_total{"]).await;
        assert!(more <= 10.0, "{more} requests in 10 s: {before:#?} became {after:#?}");
        let ours = t.record.history();
        let ours = ours.iter().filter(|stored| {
            stored.version > written
                && stored.kind != Kind::Event
                && writer(None, &stored.object, &["nothing"]) == Some(OPERATOR)
        });
        assert!(ours.count() <= 1, "at most one try per 20 s");
    });
}
