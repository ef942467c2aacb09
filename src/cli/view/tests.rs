//! The screen of each state.

use serde_json::{Value, json};

use super::*;

const STYLE: Style = Style { color: false, unicode: false };
const NOW: &str = "2026-01-01T10:10:00Z";

fn gray(status: &Value) -> GrayRollout {
    serde_json::from_value(json!({
        "apiVersion": "grayrollout.dev/v1alpha1", "kind": "GrayRollout",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"targetRef": {"name": "web"}, "stages": [
            {"percent": 10},
            {"percent": 50, "soakSeconds": 600},
            {"percent": 100, "approval": "Automatic"},
        ]},
        "status": status,
    }))
    .unwrap()
}

/// Stage 2 of a rollout of 10 pods; 3 of its 5 new pods are available.
fn moving() -> Value {
    json!({
        "phase": "Progressing", "rollout": 7, "stage": 2, "stages": 3, "replicas": 10,
        "progress": "2/3", "desiredPercent": 50, "actualPercent": 40,
        "stableRevision": "old", "updateRevision": "new",
        "startedAt": "2026-01-01T10:00:00Z", "stageStartedAt": "2026-01-01T10:09:48Z",
        "update": {"desired": 5, "current": 4, "available": 3},
        "stable": {"desired": 5, "current": 7, "available": 7},
        "approval": {"rollout": 7, "stage": 2, "by": "alice"},
        "message": "rollout 7, stage 2 of 3 (50%): moving",
    })
}

fn with(mut status: Value, change: &Value) -> Value {
    for (key, value) in change.as_object().unwrap() {
        status[key] = value.clone();
    }
    status
}

fn screen(status: &Value) -> Vec<String> {
    let gray = gray(status);
    let view = View {
        gray: &gray,
        now: NOW.parse().unwrap(),
        flags: " -n shop",
        rights: &[],
        style: STYLE,
    };
    view.lines().iter().map(|line| line.render(STYLE)).collect()
}

fn labelled<'a>(screen: &'a [String], label: &str) -> &'a str {
    let line = screen.iter().find_map(|line| line.strip_prefix(label));
    line.unwrap_or_else(|| panic!("no {label}: {screen:#?}")).trim()
}

#[test]
fn a_batch_that_waits_for_its_time() {
    let mut gray = gray(&with(
        moving(),
        &json!({
            "update": {"desired": 5, "current": 4, "available": 4},
            "lastStep": {"time": "2026-01-01T10:09:52Z", "replicas": 10, "update": 4},
        }),
    ));
    gray.spec.step_interval_seconds = Some(30);
    let lines = |now: &str| -> Vec<String> {
        let now = now.parse().unwrap();
        let view = View { gray: &gray, now, flags: "", rights: &[], style: STYLE };
        view.lines().iter().map(|line| line.render(STYLE)).collect()
    };
    let screen = lines(NOW);
    assert_eq!(labelled(&screen, "Waits for"), "the next pods to move, in 22s");
    assert!(screen.iter().any(|line| line.ends_with("next pods in 22s, entered 12s ago")));
    assert_eq!(labelled(&lines("2026-01-01T10:10:22Z"), "Waits for"), "1 new pod to be available");
}

#[test]
fn a_stage_that_moves() {
    let screen = screen(&moving());
    assert_eq!(screen[0], "web  Deployment web, namespace shop");
    assert_eq!(labelled(&screen, "Rollout"), "7: revision new, beside stable old, started 10m ago");
    assert_eq!(
        labelled(&screen, "Pods"),
        "new 3/5 available, old 7/5 available, 10 replicas; 40% new, 50% asked"
    );
    let stages: Vec<_> = screen.iter().filter(|line| line.contains("/3  ")).collect();
    assert_eq!(stages[0], "* 1/3      10%  ##..................          1          9  done");
    assert_eq!(
        stages[1],
        "> 2/3      50%  ######++++..........        3/5        7/5  entered 12s ago"
    );
    assert_eq!(stages[2], "  3/3     100%  ++++++++++++++++++++         10          0  automatic");
    assert_eq!(labelled(&screen, "Approved"), "up to stage 2 by alice");
    assert_eq!(labelled(&screen, "Waits for"), "2 new pods to be available");
    // The stage after it is entered by itself.
    assert_eq!(labelled(&screen, "Next"), "kubectl gray wait web -n shop --for completed");
}

/// What was approved ahead is not asked for again.
#[test]
fn what_comes_next_depends_on_what_is_approved() {
    let stage_1 = with(moving(), &json!({"stage": 1, "approval": null}));
    let next = "kubectl gray wait web -n shop --for";
    assert_eq!(labelled(&screen(&stage_1), "Next"), format!("{next} approval"));
    let ahead = with(stage_1, &json!({"approval": {"rollout": 7, "stage": 2}}));
    assert_eq!(labelled(&screen(&ahead), "Next"), format!("{next} completed"));
}

#[test]
fn a_stage_that_soaks() {
    let status = with(
        moving(),
        &json!({
            "stageReachedAt": "2026-01-01T10:09:50Z",
            "conditions": [{
                "type": "Progressing", "status": "True", "reason": "Soaking", "message": "",
                "lastTransitionTime": NOW,
            }],
        }),
    );
    let screen = screen(&status);
    assert_eq!(labelled(&screen, "Waits for"), "the soak of stage 2, 9m50s left");
    assert!(screen.iter().any(|line| line.ends_with("soaking, 9m50s left, entered 12s ago")));
}

#[test]
fn each_phase_names_its_next_command() {
    let stage = json!({"stage": 1, "stageReachedAt": NOW});
    for (phase, plugin, kubectl) in [
        (
            "AwaitingApproval",
            "approve web -n shop --stage 2 --rollout 7",
            r#""approval":{"rollout":7,"stage":2}"#,
        ),
        ("Paused", "resume web -n shop", r#"{"spec":{"paused":false}}"#),
        ("Stalled", "abort web -n shop --rollout 7", r#""abort":{"rollout":7}"#),
        ("RolledBack", "retry web -n shop --rollout 7", r#""retry":{"rollout":7}"#),
        ("RollingBack", "wait web -n shop --for rolledback", "RolledBack gr/web -n shop"),
    ] {
        let screen = screen(&with(with(moving(), &stage), &json!({"phase": phase})));
        assert_eq!(labelled(&screen, "Next"), format!("kubectl gray {plugin}"));
        let plain = labelled(&screen, "or ");
        assert!(plain.starts_with("kubectl ") && plain.contains(kubectl), "{phase}: {plain}");
    }
}

#[test]
fn commands_in_a_message_are_not_repeated() {
    let message = "rollout 7, stage 1 of 3: 1 of 1; approve stage 2 with: kubectl patch gr web";
    let screen = screen(&with(moving(), &json!({"message": message})));
    assert_eq!(labelled(&screen, "Phase"), "Progressing: rollout 7, stage 1 of 3: 1 of 1");
}

#[test]
fn an_approval_of_another_rollout_does_not_count() {
    let old = json!({"approval": {"rollout": 6, "stage": 3, "by": "alice"}});
    let status = with(moving(), &old);
    assert_eq!(labelled(&screen(&status), "Approved"), "by nobody yet");
    assert_eq!(approved_stage(&gray(&status), &gray(&status).status.unwrap()), 0);
}

#[test]
fn nothing_rolls_out() {
    let status = json!({
        "phase": "Completed", "rollout": 7, "replicas": 10, "stages": 3,
        "stableRevision": "new", "updateRevision": "new",
        "stable": {"desired": 10, "current": 10, "available": 9},
        "message": "revision new: 9 of 10 pods available; nothing is rolling out",
    });
    let screen = screen(&status);
    assert_eq!(labelled(&screen, "Pods"), "9/10 available, 10 replicas");
    assert!(!screen.iter().any(|line| line.starts_with('>') || line.starts_with("Approved")));
}

#[test]
fn an_operator_that_never_looked_is_named() {
    let screen = screen(&json!({}));
    assert!(labelled(&screen, "Waits for").contains("is it running?"), "{screen:#?}");
}

#[test]
fn one_line_holds_the_essence() {
    let gray = gray(&moving());
    let view =
        View { gray: &gray, now: NOW.parse().unwrap(), flags: "", rights: &[], style: STYLE };
    assert_eq!(
        view.line(),
        "web Progressing rollout 7, stage 2/3, new 3/5, old 7/5: rollout 7, stage 2 of 3 (50%): moving"
    );
}

/// The whole screen, as the documentation shows it.
#[test]
fn the_screen_in_the_documentation_is_what_is_drawn() {
    let status = json!({
        "phase": "AwaitingApproval", "rollout": 7, "stage": 1, "stages": 3, "replicas": 10,
        "progress": "1/3", "desiredPercent": 10, "actualPercent": 10,
        "stableRevision": "5d8f6c9b4", "updateRevision": "6d4f9c7b8",
        "startedAt": "2026-01-01T10:06:00Z", "stageStartedAt": "2026-01-01T10:06:00Z",
        "stageReachedAt": "2026-01-01T10:06:01Z",
        "update": {"desired": 1, "current": 1, "available": 1},
        "stable": {"desired": 9, "current": 9, "available": 9},
        "conditions": [{
            "type": "AwaitingApproval", "status": "True", "reason": "StageReached", "message": "",
            "lastTransitionTime": NOW,
        }],
        "message": "rollout 7, stage 1 of 3 (10%): 1 of 1 new pods available, 10 replicas; approve \
                    stage 2 (50%) with: kubectl patch",
    });
    let mut gray = gray(&status);
    gray.spec.stages[2].approval = None;
    let style = Style { color: false, unicode: true };
    let view =
        View { gray: &gray, now: NOW.parse().unwrap(), flags: " -n shop", rights: &[], style };
    let screen: Vec<_> = view.lines().iter().map(|line| line.render(style)).collect();
    let documented = include_str!("../../../docs/kubectl-gray.md").split("```\n").nth(2).unwrap();
    assert_eq!(
        screen.iter().map(|line| line.trim_end()).collect::<Vec<_>>().join("\n"),
        documented.trim_end()
    );
}

#[test]
fn checks_and_hooks_have_the_last_word_that_they_had() {
    let status = with(
        moving(),
        &json!({
            "checks": [{
                "name": "errors", "stage": 2, "result": "Failed", "value": "0.5", "failures": 2,
                "time": "2026-01-01T10:09:50Z", "message": "0.5 is above the most of 0.01",
            }],
            "hooks": [{
                "name": "lb", "event": "PodsRemoving", "result": "Done",
                "time": "2026-01-01T10:09:55Z", "message": "drained",
            }],
        }),
    );
    let screen = screen(&status);
    assert_eq!(
        labelled(&screen, "Check"),
        "errors Failed 2 times in a row 10s ago: 0.5 is above the most of 0.01"
    );
    assert_eq!(labelled(&screen, "Hook"), "lb PodsRemoving 5s ago: drained");
}

#[test]
fn a_url_that_the_operator_may_not_call_is_what_to_mend() {
    let why = "http://lb.example.com is not allowed: the operator calls only what its flag --allow-urls permits";
    let status = with(
        moving(),
        &json!({
            "hooks": [{
                "name": "lb", "event": "PodsRemoving", "result": "Failed", "failures": 3,
                "time": "2026-01-01T10:09:55Z", "message": why,
            }],
            "message": format!(
                "rollout 7, stage 2 of 3 (50%): moving; waiting for hook lb at PodsRemoving (revision old, from 7 to 6 pods), called 3 times: {why}"
            ),
        }),
    );
    let screen = screen(&status);
    let waits = labelled(&screen, "Waits for");
    assert!(waits.starts_with("hook lb, which the operator may not call"), "{waits}");
    assert_eq!(labelled(&screen, "Next"), "kubectl edit gr web -n shop");
}

#[test]
fn an_automatic_stage_that_waits_for_an_approval_says_so() {
    let waiting = json!({"phase": "AwaitingApproval", "stageReachedAt": NOW});
    let automatic = with(with(moving(), &waiting), &json!({"approval": null}));
    let drawn = screen(&automatic);
    let last = drawn.iter().find(|line| line.contains("3/3")).unwrap();
    assert!(last.ends_with("needs approval"), "{last}");
}
