//! What is printed when a test fails.

use std::{collections::BTreeMap, fmt::Write as _};

use serde_json::Value;

use crate::{Json, Kind, Snapshot, Stored, snapshot::one_line};

const CHANGES: usize = 80;
const LOG_LINES: usize = 120;

/// What went wrong, the last changes, the last state, and the end of the operator's log.
pub(crate) fn write(namespace: &str, flaws: &[String], history: &[Stored], log: &str) -> String {
    let mut out = format!("\n######## {namespace}\n");
    for flaw in flaws {
        let _ = writeln!(out, "==== {flaw}");
    }
    let _ = writeln!(out, "==== the last changes");
    let changes = changes(history);
    for change in last(&changes, CHANGES) {
        let _ = writeln!(out, "{change}");
    }
    let mut end = Snapshot::default();
    for stored in history {
        end.apply(stored);
    }
    let _ = writeln!(out, "==== the state at the end\n{end}");
    let pods: Vec<String> = end.all(Kind::Pod).map(pod_line).collect();
    for pod in last(&pods, 20) {
        let _ = writeln!(out, "    {pod}");
    }
    let _ = writeln!(out, "==== the end of the operator's log");
    let lines: Vec<&str> = log.lines().collect();
    for line in last(&lines, LOG_LINES) {
        let _ = writeln!(out, "{line}");
    }
    out
}

fn last<T>(all: &[T], count: usize) -> &[T] {
    &all[all.len().saturating_sub(count)..]
}

fn pod_line(pod: &Value) -> String {
    let ready = pod
        .list("/status/conditions")
        .iter()
        .any(|c| c.text("/type") == "Ready" && c.text("/status") == "True");
    let going = pod.text("/metadata/deletionTimestamp");
    format!(
        "pod/{} {} ready={ready} {going}",
        pod.text("/metadata/name"),
        pod.text("/status/phase")
    )
}

/// A line for every stored state that reads differently from the one before it.
fn changes(history: &[Stored]) -> Vec<String> {
    let mut before: BTreeMap<(Kind, &str), (String, &Value)> = BTreeMap::new();
    let mut lines = Vec::new();
    for stored in history.iter().filter(|stored| stored.kind != Kind::Pod) {
        let mut line = one_line(stored.kind, &stored.object);
        if stored.deleted {
            line.push_str(" deleted");
        }
        let key = (stored.kind, stored.name());
        let earlier = before.get(&key);
        if earlier.is_some_and(|(text, _)| *text == line) {
            continue;
        }
        let earlier = earlier.map(|(_, object)| *object);
        let by = crate::writer(earlier, &stored.object, &["nothing"]).unwrap_or_default();
        lines.push(format!("{:8.3} {} {line}  <- {by}", stored.at.as_secs_f32(), stored.version));
        before.insert(key, (line, &stored.object));
    }
    lines
}
