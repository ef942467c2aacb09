//! The pods of a Deployment as a row of cells, and who waits for what.

use grayrollout_e2e::{Json, Kind, Snapshot, reason_of};
use serde_json::Value;

use crate::screen::{Ink, Lines, Span};

/// Room for ten pods and their surge.
const CELLS: usize = 14;

/// The pods of one revision.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Pods {
    /// Ready ones.
    pub ready: usize,
    /// Those that are not ready yet.
    pub starting: usize,
}

impl Pods {
    /// All of them.
    pub fn all(self) -> usize {
        self.ready + self.starting
    }
}

/// The pods of the newest revision and of all others.
pub fn pods(now: &Snapshot, newest: &str) -> (Pods, Pods) {
    let (mut new, mut old) = (Pods::default(), Pods::default());
    let alive = now.all(Kind::Pod).filter(|pod| pod.at("/metadata/deletionTimestamp").is_null());
    for pod in alive {
        let image = pod.text("/spec/containers/0/image");
        let side = if image == newest { &mut new } else { &mut old };
        let conditions = pod.list("/status/conditions").iter();
        let ready =
            conditions.filter(|c| c.text("/type") == "Ready").any(|c| c.text("/status") == "True");
        if ready { side.ready += 1 } else { side.starting += 1 }
    }
    (new, old)
}

/// A Deployment and its GrayRollout of the same name, in lines.
pub fn picture(now: &Snapshot, name: &str, newest: &str) -> Lines {
    let (new, old) = pods(now, newest);
    let status = now.gr(name).at("/status");
    let cells = new.all() + old.all();
    let place = match status.int("/stage") {
        0 => status.text("/phase").to_owned(),
        stage => {
            let (stages, percent) = (status.int("/stages"), status.int("/desiredPercent"));
            format!("{}, stage {stage} of {stages} ({percent}%)", status.text("/phase"))
        }
    };
    let row = vec![
        Span(Ink::Plain, "    ".into()),
        Span(Ink::Green, "●".repeat(new.ready) + &"○".repeat(new.starting)),
        Span(Ink::Blue, "■".repeat(old.ready) + &"□".repeat(old.starting)),
        Span(Ink::Plain, " ".repeat(CELLS.saturating_sub(cells))),
        Span(Ink::Plain, format!("  {:>2} new {:>2} old   ", new.all(), old.all())),
        Span(Ink::Bold, place),
    ];
    let waits = vec![Span(Ink::Yellow, format!("    {}", waits(status, new, old)))];
    vec![row, waits]
}

/// What the cells mean.
pub fn legend() -> Vec<Span> {
    vec![
        Span(Ink::Plain, "    ".into()),
        Span(Ink::Green, "● new".into()),
        Span(Ink::Plain, "  ".into()),
        Span(Ink::Green, "○ new, starting".into()),
        Span(Ink::Plain, "  ".into()),
        Span(Ink::Blue, "■ old".into()),
        Span(Ink::Plain, "  ".into()),
        Span(Ink::Blue, "□ old, starting".into()),
    ]
}

fn waits(status: &Value, new: Pods, old: Pods) -> String {
    let starting = new.starting + old.starting;
    let ready = match (new.starting, old.starting) {
        (1, 0) => "1 new pod to get ready".to_owned(),
        (n, 0) => format!("{n} new pods to get ready"),
        (0, 1) => "1 pod to get ready".to_owned(),
        _ => format!("{starting} pods to get ready"),
    };
    match status.text("/phase") {
        "AwaitingApproval" => {
            let next = status.int("/stage") + 1;
            format!("the operator waits for a person to approve stage {next}")
        }
        "Completed" => "nothing waits: every pod runs the template of the Deployment".into(),
        "Progressing" if reason_of(status, "Progressing") == "Soaking" => {
            "the operator waits for the soak time to pass".into()
        }
        "Progressing" if starting > 0 => {
            format!("the operator waits for {ready} before it takes old ones away")
        }
        "Progressing" => "the operator waits for Kubernetes to act on the new sizes".into(),
        _ if starting > 0 => format!("Kubernetes waits for {ready}"),
        _ => "every pod is ready".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use grayrollout_e2e::Stored;
    use serde_json::json;
    use std::{sync::Arc, time::Duration};

    fn snapshot(objects: Vec<(Kind, Value)>) -> Snapshot {
        let mut now = Snapshot::default();
        for (at, (kind, object)) in objects.into_iter().enumerate() {
            let object = Arc::new(object.with(json!({"metadata": {"name": match kind {
                Kind::Pod => format!("pod-{at}"),
                _ => "web".into(),
            }}})));
            let at = Duration::ZERO;
            now.apply(&Stored { version: 1, at, kind, deleted: false, object });
        }
        now
    }

    fn pod(image: &str, ready: &str) -> (Kind, Value) {
        let object = json!({
            "spec": {"containers": [{"image": image}]},
            "status": {"conditions": [{"type": "Ready", "status": ready}]},
        });
        (Kind::Pod, object)
    }

    fn text(lines: &Lines) -> Vec<String> {
        lines.iter().map(|line| line.iter().map(|Span(_, text)| text.as_str()).collect()).collect()
    }

    #[test]
    fn each_pod_is_a_cell_that_tells_its_revision_and_whether_it_is_ready() {
        let status = json!({"status": {
            "phase": "Progressing", "stage": 2, "stages": 3, "desiredPercent": 50,
        }});
        let going = pod("web:v1", "True").1.with(json!({
            "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"},
        }));
        let now = snapshot(vec![
            pod("web:v2", "True"),
            pod("web:v2", "False"),
            pod("web:v1", "True"),
            pod("web:v1", "True"),
            pod("web:v1", "False"),
            (Kind::Pod, going),
            (Kind::GrayRollout, status),
        ]);
        let lines = text(&picture(&now, "web", "web:v2"));
        assert_eq!(
            lines,
            [
                "    ●○■■□            2 new  3 old   Progressing, stage 2 of 3 (50%)",
                "    the operator waits for 2 pods to get ready before it takes old ones away",
            ]
        );
    }

    #[test]
    fn a_held_stage_tells_what_a_person_can_approve() {
        let status = json!({"status": {
            "phase": "AwaitingApproval", "stage": 1, "stages": 3, "desiredPercent": 10,
        }});
        let now = snapshot(vec![pod("web:v2", "True"), (Kind::GrayRollout, status)]);
        let lines = text(&picture(&now, "web", "web:v2"));
        assert!(lines[1].contains("waits for a person to approve stage 2"), "{lines:?}");
    }
}
