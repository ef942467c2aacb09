//! Hooks: what they are told, in what order, and what waits for them.

use std::collections::BTreeSet;

use grayrollout::{
    api::{FailurePolicy, HistoryResult, HookEvent, HookResult, OnFailure, Phase, Reason},
    plan::{CallRequest, Outcome, Purpose},
};
use serde_json::Value;

use super::Story;
use crate::{
    actors::Act,
    fair::Sim,
    generate::{Step, hook, moody},
    histories::{finish, take},
    world::{Arrived, Setup, World, done, refused},
};

const ALL: [HookEvent; 9] = HookEvent::ALL;

fn setup(percents: &[i32], on: &[HookEvent], policy: FailurePolicy) -> Setup {
    Setup::new(percents).replicas(4).with(|spec| {
        spec.hooks = vec![hook("lb", on, policy)];
        spec.progress_deadline_seconds = Some(60);
    })
}

fn event(arrived: &Arrived) -> HookEvent {
    match arrived.call.purpose {
        Purpose::Hook(event) => event,
        Purpose::Check => panic!("a check"),
    }
}

fn body(arrived: &Arrived) -> &Value {
    match &arrived.call.request {
        CallRequest::Post { body, .. } => body,
        CallRequest::Query { .. } => panic!("a query"),
    }
}

fn told(world: &World) -> Vec<String> {
    let counts =
        |arrived: &Arrived| match (body(arrived)["from"].as_i64(), body(arrived)["to"].as_i64()) {
            (Some(from), Some(to)) => format!(" {from}-{to}"),
            _ => String::new(),
        };
    world.endpoint.arrived.iter().map(|a| format!("{}{}", event(a).as_str(), counts(a))).collect()
}

/// Every call of pods that are about to move comes before they do, and of pods that have moved
/// once they have.
fn counts_are_true(story: &mut Story) {
    let revisions = [1, 2].map(|version| {
        let sets = &story.world().cluster.replica_sets;
        sets.iter().find(|set| set.template == version).map(|set| set.hash.clone())
    });
    for arrived in story.world().endpoint.arrived.clone() {
        let body = body(&arrived).clone();
        let of =
            revisions.iter().position(|revision| revision.as_deref() == body["revision"].as_str());
        let Some((size, ready)) = of.map(|at| arrived.pods[at]) else { continue };
        let (from, to) = (body["from"].as_i64().unwrap(), body["to"].as_i64().unwrap());
        let (size, ready) = (i64::from(size), i64::from(ready));
        let holds = match event(&arrived) {
            HookEvent::PodsAdding => size == from && from < to,
            HookEvent::PodsRemoving => size == from && to < from,
            HookEvent::PodsAdded => size >= to && ready >= to && from < to,
            HookEvent::PodsRemoved => size == to && to < from,
            _ => true,
        };
        story.check(holds, &format!("true counts: {body} at {:?}", arrived.pods));
    }
}

#[test]
fn every_step_is_told_in_order_and_once() {
    let mut story = Story::new(&setup(&[50, 100], &ALL, FailurePolicy::Block));
    story.0.strict = true;
    story.act(Act::Template(2)).held_at(1).sizes(&[2, 2]).approve().completed(2);
    counts_are_true(&mut story);
    let told = told(story.world());
    assert_eq!(told[..4], ["StageStarting", "PodsAdding 0-1", "PodsAdded 0-1", "PodsRemoving 4-3"]);
    let position = |what: &str| told.iter().position(|t| t == what).expect(what);
    let starts: Vec<_> = told.iter().filter(|t| *t == "StageStarting").collect();
    assert_eq!(starts.len(), 2, "{told:?}");
    assert!(position("PodsRemoving 4-3") < position("PodsRemoved 4-3"), "{told:?}");
    assert!(position("PodsAdded 3-4") < position("Completed"), "{told:?}");
    assert_eq!(told.iter().filter(|t| *t == "StageReached").count(), 2, "{told:?}");
    assert!(told.contains(&"PodsRemoved 1-0".to_owned()), "{told:?}");
    let keys: BTreeSet<_> = story.world().endpoint.arrived.iter().map(|a| &a.key).collect();
    assert_eq!(keys.len(), told.len(), "a step is told once");
    let url = match &story.world().endpoint.arrived[0].call.request {
        CallRequest::Post { url, .. } => url.clone(),
        CallRequest::Query { .. } => String::new(),
    };
    assert_eq!(url, "http://lb/1");
    let status = story.status();
    assert_eq!(status.hooks[0].result, HookResult::Done);
}

#[test]
fn without_hooks_a_status_knows_nothing_of_them() {
    let mut story = Story::new(&Setup::new(&[50, 100]));
    story.act(Act::Template(2)).held_at(1);
    let status = story.status();
    story.check(
        status.hook_ledger.is_none() && status.hooks.is_empty() && status.checks.is_empty(),
        "a status without hooks and checks",
    );
}

#[test]
fn what_a_hook_refuses_waits_and_all_else_goes_on() {
    let mut story =
        Story::new(&setup(&[50, 100], &[HookEvent::PodsRemoving], FailurePolicy::Block));
    story.0.world.endpoint.answer = |_, _| refused();
    story.act(Act::Template(2)).until(Phase::Stalled).sizes(&[4, 1]);
    let status = story.status();
    let message = status.message.clone().unwrap_or_default();
    story.check(
        message.contains("hook lb at PodsRemoving") && message.contains("not now"),
        &format!("a message that says why: {message}"),
    );
    story.check(status.hooks[0].failures > 3, "its failures");
    let calls = story.world().endpoint.arrived.len();
    story.check(calls < 20, &format!("{calls} calls in a minute"));
    story.0.world.endpoint.answer = |_, _| done();
    story.held_at(1).sizes(&[2, 2]);
    story.0.world.endpoint.answer = |_, _| refused();
    story.act(Act::Abort).rolled_back(1);
}

#[test]
fn a_hook_that_blocks_can_make_it_go_back() {
    let setup = setup(&[50, 100], &[HookEvent::StageStarting], FailurePolicy::Block)
        .with(|spec| spec.on_failure = OnFailure::Rollback);
    let mut story = Story::new(&setup);
    story.0.world.endpoint.answer = |_, _| refused();
    story.act(Act::Template(2)).rolled_back(1);
    let status = story.status();
    story.check(status.history[0].result == HistoryResult::Failed, "a failed rollout");
    story.check(story.world().size(2) == 0, "no new pod ever");
}

/// Without surge the stable revision gets a pod before the ones that nobody approved can go.
#[test]
fn new_pods_that_nobody_approved_go_though_a_hook_refuses_the_stage() {
    let setup =
        setup(&[25, 100], &[HookEvent::StageStarting], FailurePolicy::Block).surge("0", "1");
    let mut story = Story::new(&setup);
    story.0.world.endpoint.answer = |_, _| refused();
    story.act(Act::Template(2)).run(10).act(Act::Abort).act(Act::Replicas(0)).run(10);
    story.act(Act::Resume).act(Act::Retry).act(Act::Replicas(4));
    story.until_that("the stable revision has its share", |world| world.size(1) == 3);
    story.sizes(&[3, 1]);
}

#[test]
fn failures_that_are_ignored_hold_nothing() {
    let mut story = Story::new(&setup(&[50, 100], &ALL, FailurePolicy::Ignore));
    story.0.world.endpoint.answer = |_, _| refused();
    story.act(Act::Template(2)).held_at(1).approve().completed(2);
    counts_are_true(&mut story);
    let arrived = &story.world().endpoint.arrived;
    let keys: BTreeSet<_> = arrived.iter().map(|a| &a.key).collect();
    let calls = arrived.len();
    let distinct = keys.len();
    story.check(distinct == calls, "each step is called once");
}

/// While the status of the other ReplicaSet is old nothing may go; the permission outlives that.
#[test]
fn a_granted_removal_is_asked_for_once() {
    let setup = setup(&[50, 100], &[HookEvent::PodsRemoving], FailurePolicy::Block);
    let setup = setup.replicas(10).surge("25%", "25%").with(|spec| {
        spec.max_unavailable = Some(grayrollout::api::IntOrPercent::Count(1));
    });
    let mut story = Story::new(&setup);
    story.act(Act::Template(2)).held_at(1).run(3000).act(Act::Template(1));
    // The ReplicaSet controller lags behind what grows.
    story.passes(8);
    story.completed(1);
    let arrived = &story.world().endpoint.arrived;
    let keys: BTreeSet<_> = arrived.iter().map(|arrived| &arrived.key).collect();
    let (calls, keys) = (arrived.len(), keys.len());
    story.check(calls == keys, &format!("{calls} calls for {keys} steps"));
}

/// Pods that are about to end count where the rollout waits for them, whatever a hook holds.
#[test]
fn what_a_hook_holds_makes_no_room_for_new_pods() {
    let mut setup = Setup::new(&[10, 50, 100]).surge("25%", "25%").replicas(0).with(|spec| {
        let [one, two] = ["h1", "h2"];
        let on = [HookEvent::PodsRemoving, HookEvent::RolledBack];
        spec.hooks =
            vec![hook(one, &on[..1], FailurePolicy::Ignore), hook(two, &on, FailurePolicy::Ignore)];
    });
    (setup.start_ms, setup.stop_ms) = (300, 300);
    let mut sim = Sim::new(&setup);
    sim.world.endpoint.answer = moody;
    let act = Step::Act;
    let steps = [
        act(Act::Replicas(10)),
        act(Act::WaitForTermination(true)),
        act(Act::Template(2)),
        Step::Fair(10),
        act(Act::ApproveNext),
        act(Act::Abort),
        Step::Fair(30),
        act(Act::Resume),
        Step::Fair(1000),
        act(Act::Pause(false)),
        Step::Fair(3011),
        act(Act::Retry),
        act(Act::Resume),
    ];
    let told = steps.iter().try_for_each(|step| take(&mut sim, step));
    let told = told.and_then(|()| finish(&mut sim));
    sim.tell(told);
}

/// Fewer replicas are nothing that a stage waits for.
#[test]
fn replicas_are_followed_though_a_hook_refuses_the_stage() {
    for on in
        [&[HookEvent::StageStarting][..], &[HookEvent::StageStarting, HookEvent::PodsRemoving]]
    {
        let setup = setup(&[10, 50, 100], on, FailurePolicy::Block).surge("25%", "25%").replicas(2);
        let mut setup = setup.with(|spec| {
            spec.max_surge = Some(grayrollout::api::IntOrPercent::Count(0));
        });
        (setup.start_ms, setup.stop_ms) = (300, 300);
        let mut story = Story::new(&setup);
        story.0.world.endpoint.answer = |_, _| refused();
        story.run(10).act(Act::Resume).act(Act::Template(2)).run(10).act(Act::Replicas(1));
        story.run(4000).sizes(&[1, 0]);
    }
}

/// On the way back nothing waits for hooks to take note of pods, from the first decision on.
#[test]
fn the_way_back_counts_pods_that_no_hook_has_noted() {
    let setup = setup(&[25, 100], &[HookEvent::PodsAdded], FailurePolicy::Block).surge("0", "1");
    let mut setup = setup.replicas(1);
    (setup.start_ms, setup.stop_ms) = (300, 300);
    let mut story = Story::new(&setup);
    story.0.world.endpoint.answer = |_, _| refused();
    story.run(10).act(Act::Resume).act(Act::Template(2)).run(1000);
    story.act(Act::Template(1)).until(Phase::Completed).run(3000).sizes(&[1, 0]);
}

/// The native controller gives a lone ReplicaSet everything, so the hook is called for all of it.
#[test]
fn a_lone_revision_gets_no_less_than_the_native_controller_would_give_it() {
    let mut story = Story::new(&setup(&[25, 100], &[HookEvent::PodsAdding], FailurePolicy::Block));
    story.0.world.endpoint.latency_ms = 200;
    story.act(Act::Template(2)).run(10).act(Act::DeleteSet(0)).run(2000);
    counts_are_true(&mut story);
    story.sizes(&[0, 4]);
}

/// What the native controller will give to the last revision is asked for alone, not in turn with
/// what there is room for until then: neither would ever be granted.
#[test]
fn the_last_pods_are_asked_for_in_one_way() {
    let mut setup = Setup::new(&[100]).surge("25%", "25%").replicas(2).with(|spec| {
        let on = [HookEvent::PodsAdding, HookEvent::PodsRemoving];
        spec.hooks = vec![hook("h1", &on, FailurePolicy::Block)];
        spec.max_surge = Some(grayrollout::api::IntOrPercent::Count(0));
    });
    (setup.start_ms, setup.stop_ms) = (300, 300);
    let mut sim = Sim::new(&setup);
    sim.world.endpoint.answer = moody;
    for act in [Act::Template(2), Act::ScaleSet(0, 3), Act::Replicas(10)] {
        sim.act(&act);
    }
    let told = finish(&mut sim);
    sim.tell(told);
}

/// Hooks that hang for their whole timeout delay the way back by one timeout each, not by one for
/// each batch of pods.
#[test]
fn an_abort_waits_for_no_second_timeout() {
    let setup = setup(&[50, 100], &ALL, FailurePolicy::Block).replicas(20);
    let mut story = Story::new(&setup);
    story.act(Act::Template(2)).held_at(1);
    story.0.world.endpoint.latency_ms = 10_000;
    story.0.world.endpoint.answer = |_, _| Outcome::None("no answer within 10 s".into());
    story.act(Act::Abort);
    let began = story.world().cluster.now;
    story.until_that("no new pod is left", |world| world.size(2) == 0);
    let took = story.world().cluster.now - began;
    story.check(took < 40_000, &format!("the way back took {took} ms"));
    // What nobody waits for is told so often, and then no more.
    story.until(Phase::RolledBack).run(600_000).rolled_back(1);
    let calls = story.world().endpoint.arrived.iter();
    let calls = calls.filter(|arrived| event(arrived) == HookEvent::RolledBack).count();
    story.check(calls == 10, &format!("{calls} calls to tell of the end"));
}

#[test]
fn an_abort_does_not_wait_for_a_call_under_way() {
    let mut story =
        Story::new(&setup(&[50, 100], &[HookEvent::PodsRemoving], FailurePolicy::Block));
    story.0.world.endpoint.latency_ms = 30_000;
    story.act(Act::Template(2));
    story.until_that("a call is under way", |world| !world.endpoint.arrived.is_empty());
    story.0.world.endpoint.latency_ms = 20;
    story.act(Act::Abort);
    let began = story.world().cluster.now;
    story.until(Phase::RolledBack);
    let took = story.world().cluster.now - began;
    story.check(took < 5000, &format!("the way back took {took} ms"));
}

/// Added pods count only once the hook has taken note of them.
#[test]
fn old_pods_stay_until_the_new_ones_are_noted() {
    let mut story = Story::new(&setup(&[50, 100], &[HookEvent::PodsAdded], FailurePolicy::Block));
    story.0.world.endpoint.answer = |_, before| if before < 4 { refused() } else { done() };
    story.act(Act::Template(2));
    story.until_that("the new pod is available", |world| world.ready(2) == 1).run(3000);
    story.sizes(&[4, 1]);
    story.held_at(1).sizes(&[2, 2]);
}

/// The operator crashes at every call: once it has arrived, and once it is answered. The end is
/// the same, no step is missing, and what is told twice has the same key.
#[test]
fn crashes_lose_no_step_and_repeat_only_with_the_same_key() {
    // When pods are gone is told at one stage or the next.
    let steps = |story: &Story| -> BTreeSet<String> { told(story.world()).into_iter().collect() };
    let run = |crash_at: Option<(usize, bool)>| {
        let mut story = Story::new(&setup(&[50, 100], &ALL, FailurePolicy::Block));
        story.act(Act::Automatic(true)).act(Act::Template(2));
        if let Some((nth, answered)) = crash_at {
            let reached = move |world: &World| world.endpoint.arrived.len() > nth;
            story.until_that("so many calls", reached);
            if answered {
                story.0.world.cluster.now += 25;
            }
            story.0.operators[0] = crate::operator::Operator::default();
            let world = story.0.world.clone();
            story.0.operators[0].observe_all(&world);
            story.0.observe(0, crate::operator::Kind::Gray);
        }
        story.completed(2);
        counts_are_true(&mut story);
        story
    };
    let clean = run(None);
    let (clean, most) = (steps(&clean), clean.world().endpoint.arrived.len());
    for nth in 0..most {
        for answered in [false, true] {
            let mut story = run(Some((nth, answered)));
            let arrived = &story.world().endpoint.arrived;
            let keys: BTreeSet<_> = arrived.iter().map(|a| &a.key).collect();
            let (after, calls, keys) = (steps(&story), arrived.len(), keys.len());
            story.check(after == clean, &format!("crash at {nth}: {after:?} instead of {clean:?}"));
            story.check(
                keys <= most && calls <= most + 1,
                &format!("crash at {nth}: {calls} calls"),
            );
        }
    }
}

#[test]
fn the_reason_stays_the_deadline_s() {
    let mut story =
        Story::new(&setup(&[50, 100], &[HookEvent::StageReached], FailurePolicy::Block));
    story.0.world.endpoint.answer = |_, _| refused();
    story.act(Act::Template(2)).until(Phase::Stalled);
    let status = story.status();
    let stalled = status.conditions.iter().any(|c| c.reason == Reason::ProgressDeadlineExceeded);
    story.check(stalled, "Stalled by the deadline");
    story.0.world.endpoint.answer = |_, _| done();
    story.held_at(1).approve().completed(2);
}
