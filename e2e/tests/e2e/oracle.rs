//! A rollout, its end, and a way back over an API server that fails in one way after the other:
//! every object goes through the very same states as in a clean run.

use std::{collections::BTreeMap, sync::OnceLock, time::Duration};

use grayrollout_e2e::{Faults, Json, Kind, Proxy, Test, grayrollout, run_without_operator};
use serde_json::{Value, json};

/// The states of each object, in order; what two writes in a row leave the same counts once.
#[derive(Debug, Clone, Default, PartialEq)]
struct Deeds {
    /// Size and both annotations of each image's ReplicaSet.
    sets: BTreeMap<String, Vec<Value>>,
    /// What the operator sets in the Deployment.
    forms: Vec<Value>,
    /// Phase, number and stage.
    course: Vec<Value>,
}

fn note(states: &mut Vec<Value>, state: Value) {
    if states.last() != Some(&state) {
        states.push(state);
    }
}

fn deeds(t: &Test, since: u64) -> Deeds {
    let mut deeds = Deeds::default();
    for stored in t.record.history().iter().filter(|stored| stored.version > since) {
        let object = &*stored.object;
        match stored.kind {
            Kind::ReplicaSet => {
                let image = object.text("/spec/template/spec/containers/0/image").to_owned();
                let annotation = |name: &str| {
                    object.annotation(&format!("deployment.kubernetes.io/{name}-replicas"))
                };
                let state = if stored.deleted {
                    json!("deleted")
                } else {
                    json!([object.at("/spec/replicas"), annotation("desired"), annotation("max")])
                };
                note(deeds.sets.entry(image).or_default(), state);
            }
            Kind::Deployment => {
                let original = object.annotation("grayrollout.dev/original").unwrap_or("null");
                let original: Value = serde_json::from_str(original).expect("JSON");
                note(
                    &mut deeds.forms,
                    json!([
                        object.at("/spec/template/spec/containers/0/image"),
                        object.at("/spec/paused"),
                        object.at("/spec/strategy"),
                        original.with(json!({"uid": null})),
                        object.annotation("grayrollout.dev/rollout"),
                    ]),
                );
            }
            Kind::GrayRollout => {
                let status = object.at("/status");
                let state =
                    json!([status.at("/phase"), status.at("/rollout"), status.at("/stage")]);
                note(&mut deeds.course, state);
            }
            Kind::Pod | Kind::Event => {}
        }
    }
    deeds
}

/// One rollout to its end and one that is aborted. Two pods with room for a third: there is but
/// one order in which they can be replaced.
async fn story(t: &Test, proxy: &Proxy, disturb: impl FnOnce(&Proxy)) -> Deeds {
    let gr = grayrollout("web", &[50, 100]).with(json!({"spec": {"maxSurge": 1}}));
    t.manage(2, &gr).await;
    let since = t.record.newest();
    disturb(proxy);
    t.push("web", "v2").await;
    t.held("web", 1, 1, 1).await;
    t.approve("web", 2).await;
    t.completed("web").await;
    t.push("web", "v3").await;
    t.held("web", 1, 1, 1).await;
    t.abort("web").await;
    t.rolled_back("web").await;
    proxy.heal();
    deeds(t, since)
}

fn clean() -> &'static Deeds {
    static CLEAN: OnceLock<Deeds> = OnceLock::new();
    CLEAN.get_or_init(|| {
        let mut found = Deeds::default();
        run_without_operator(async |t: &Test| {
            let proxy = Proxy::start(t).await;
            t.start_operator_with(proxy.kubeconfig(), &[]).await;
            found = story(t, &proxy, |_| ()).await;
        });
        found
    })
}

/// The same story, with a rule for what becomes of each request.
fn holds<R>(rule: R)
where
    R: FnMut(&str, &str) -> Faults + Send + 'static,
{
    let clean = clean();
    run_without_operator(async |t: &Test| {
        let proxy = Proxy::start(t).await;
        // Lost events are repaired by the next list.
        t.start_operator_with(proxy.kubeconfig(), &["--resync-seconds", "2"]).await;
        let found = story(t, &proxy, |proxy| {
            proxy.rule(rule);
            // The watches of before know nothing of the rule.
            proxy.cut_watches();
        })
        .await;
        assert_eq!(&found, clean, "as in a clean run");
    });
}

fn is_watch(path: &str) -> bool {
    path.contains("watch=")
}

/// About a third of all requests that are no watch have the fault, in no rhythm that could fall in
/// with the operator's own; but the next try of the same request never, or the waits between tries
/// would grow beyond a test's patience.
fn a_third(fault: Faults) -> impl FnMut(&str, &str) -> Faults + Send + 'static {
    let mut state = 1_u32;
    let mut failed = BTreeMap::<String, bool>::new();
    move |method, path| {
        if is_watch(path) {
            return Faults::None;
        }
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let path = path.split('?').next().unwrap_or_default();
        let before = failed.entry(format!("{method} {path}")).or_default();
        *before = !*before && (state >> 16).is_multiple_of(2);
        if *before { fault } else { Faults::None }
    }
}

fn every_watch(fault: Faults) -> impl FnMut(&str, &str) -> Faults + Send + 'static {
    move |_, path| if is_watch(path) { fault } else { Faults::None }
}

#[test]
fn requests_that_never_arrive() {
    holds(a_third(Faults::Drop));
}

#[test]
fn answers_that_are_lost() {
    holds(a_third(Faults::LoseAnswer));
}

#[test]
fn answers_that_are_cut_short() {
    holds(a_third(Faults::Truncate));
}

#[test]
fn requests_that_are_late() {
    holds(a_third(Faults::Late(Duration::from_millis(700))));
}

/// Of a server or a balancer that does not know the resource for a moment; no object is gone by it.
#[test]
fn answers_404() {
    holds(a_third(Faults::Answer(404)));
}

#[test]
fn answers_409() {
    holds(a_third(Faults::Answer(409)));
}

#[test]
fn answers_429() {
    holds(a_third(Faults::TooMany(1)));
}

#[test]
fn answers_500() {
    holds(a_third(Faults::Answer(500)));
}

#[test]
fn answers_503() {
    holds(a_third(Faults::Answer(503)));
}

#[test]
fn watches_that_are_gone() {
    let mut count = 0_u32;
    holds(move |_, path| {
        count += u32::from(is_watch(path));
        if is_watch(path) && count % 2 == 1 { Faults::Gone } else { Faults::None }
    });
}

#[test]
fn events_that_are_late() {
    holds(every_watch(Faults::LateEvents(Duration::from_millis(400))));
}

#[test]
fn events_that_are_lost() {
    holds(every_watch(Faults::LoseEvents(2)));
}

#[test]
fn events_that_come_twice() {
    holds(every_watch(Faults::RepeatEvents));
}

/// A leader that stands still past its lease, and goes on when another one leads, writes nothing.
#[test]
fn a_leader_that_stood_still_past_its_lease_writes_nothing() {
    run_without_operator(async |t: &Test| {
        let proxy = Proxy::start(t).await;
        // The lease of this name is the only one that the shipped role allows.
        let args = [
            "--leader-elect",
            "true",
            "--lease-namespace",
            "grayrollout-system",
            "--lease-duration-seconds",
            "3",
        ];
        t.start_operator_with(proxy.kubeconfig(), &args).await;
        t.manage(2, &grayrollout("web", &[50, 100])).await;
        t.push("web", "v2").await;
        t.held("web", 1, 1, 1).await;
        t.freeze_operator().await;
        let written = proxy.writes().len();
        t.start_operator_with(&t.cluster.operator_kubeconfig, &args).await;
        t.approve("web", 2).await;
        t.completed("web").await;
        t.push("web", "v3").await;
        t.held("web", 1, 1, 1).await;
        t.thaw_operator().await;
        // It finds that its lease is another's; whoever started it starts it anew.
        let code = t.first_operator_ends(Duration::from_secs(20)).await;
        assert_ne!(code, Some(0), "it says that it ended before it was told to");
        let late: Vec<_> = proxy.writes().split_off(written);
        let late: Vec<_> = late.iter().filter(|write| !write.path.contains("/leases")).collect();
        assert!(late.is_empty(), "{late:#?}");
    });
}
