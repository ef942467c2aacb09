//! A least time between one batch of pods and the next.

use std::time::Duration;

use grayrollout_e2e::{Json, Kind, Test, grayrollout, run};
use serde_json::{Value, json};

/// In seconds; longer than counts may be late in the status where the API server is slow.
const INTERVAL: u64 = 6;

fn two_by_two(percents: &[i64]) -> Value {
    let spec = json!({"maxSurge": 2, "maxUnavailable": 0, "stepIntervalSeconds": INTERVAL});
    grayrollout("web", percents).with(json!({"spec": spec}))
}

/// When the ReplicaSet of an image was asked to grow, and to what, in the order of time.
fn batches(t: &Test, version: &str) -> Vec<(Duration, i64)> {
    let image = format!("app:{version}");
    let mut seen: Vec<(Duration, i64)> = Vec::new();
    for stored in t.record.history() {
        let of = stored.object.text("/spec/template/spec/containers/0/image");
        let size = stored.object.int("/spec/replicas");
        let grew = seen.last().map_or(0, |(_, before)| *before) < size;
        if stored.kind == Kind::ReplicaSet && of == image && grew {
            seen.push((stored.at, size));
        }
    }
    seen
}

/// That each came a whole interval after the one before it, as far as the watch tells: on a busy
/// machine it tells of one later than of the next.
fn apart(t: &Test, batches: &[(Duration, i64)]) {
    let interval = Duration::from_secs(INTERVAL);
    let late = t.at_most(0).clamp(Duration::from_millis(250), interval / 2);
    let least = interval.saturating_sub(late);
    for pair in batches.windows(2) {
        let gap = pair[1].0.saturating_sub(pair[0].0);
        assert!(gap >= least, "only {gap:?} apart: {batches:?}");
    }
}

/// Two new pods at a time, the time between them kept; the message says when the next ones come.
#[test]
fn batches_are_apart() {
    run(async |t: &Test| {
        t.manage(6, &two_by_two(&[50, 100])).await;
        let rested = t.status_now("web");
        assert!(rested.at("/lastStep").is_null(), "nothing at rest: {rested}");
        t.push("web", "v2").await;
        t.status("web", "it says when the next pods move", |status| {
            status.text("/message").contains("the next pods move at")
                && status.text("/phase") == "Progressing"
                && status.int("/lastStep/update") == 2
        })
        .await;
        t.held("web", 1, 3, 3).await;
        t.approve("web", 2).await;
        t.completed("web").await;
        let seen = batches(t, "v2");
        assert_eq!(seen.iter().map(|(_, size)| *size).collect::<Vec<_>>(), [2, 3, 5, 6]);
        apart(t, &seen);
    });
}

/// A killed operator has forgotten nothing: what was waited for still is.
#[test]
fn a_restart_forgets_no_interval() {
    run(async |t: &Test| {
        t.manage(8, &two_by_two(&[100])).await;
        t.push("web", "v2").await;
        for size in [2, 4, 6] {
            t.until(&format!("{size} new pods"), |now| now.asked("web", "v2") >= size).await;
            t.kill_operator().await;
            t.start_operator().await;
        }
        t.completed("web").await;
        apart(t, &batches(t, "v2"));
    });
}

/// Going back waits for nothing, nor do the pods of another number of replicas.
#[test]
fn going_back_and_replicas_wait_for_nothing() {
    run(async |t: &Test| {
        let slow = json!({"spec": {"stepIntervalSeconds": 3600, "progressDeadlineSeconds": 3}});
        t.manage(4, &two_by_two(&[75, 100]).with(slow)).await;
        t.push("web", "v2").await;
        t.split("web", 2, 2).await;
        t.scale("web", 8).await;
        t.split("web", 4, 4).await;
        t.scale("web", 4).await;
        t.split("web", 2, 2).await;
        t.always("the deadline does not run meanwhile", Duration::from_secs(5), |now| {
            now.gr("web").text("/status/phase") == "Progressing"
        })
        .await;
        t.abort("web").await;
        t.rolled_back("web").await;
        t.push("web", "v3").await;
        t.until("the next rollout starts at once", |now| now.asked("web", "v3") > 0).await;
    });
}
