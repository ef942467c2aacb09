//! Pod templates of revisions, and how they differ.

use serde_json::Value;
use similar::TextDiff;

use super::{
    error::Failure,
    output::yaml,
    screen::{Line, Tone},
    session::Session,
};
use crate::{cluster::slim::POD_TEMPLATE_HASH, cluster::slim::Template, plan::TemplateHash};

/// Unchanged lines around a change, and the most lines of a difference that are shown.
const AROUND: usize = 2;
const MOST_LINES: usize = 30;

/// The pod template of a revision of a Deployment; `None` where its ReplicaSet is gone.
///
/// # Errors
///
/// Fails where ReplicaSets may not be listed.
pub async fn template(
    session: &Session,
    target: &str,
    revision: &str,
) -> Result<Option<Value>, Failure> {
    let sets = session.replica_sets(&format!("{POD_TEMPLATE_HASH}={revision}")).await?;
    let of_target = |set: &&Value| {
        set.pointer("/metadata/ownerReferences").and_then(Value::as_array).is_some_and(|owners| {
            owners.iter().any(|owner| {
                owner.get("kind").and_then(Value::as_str) == Some("Deployment")
                    && owner.get("name").and_then(Value::as_str) == Some(target)
            })
        })
    };
    let set = sets.iter().find(of_target);
    Ok(set.and_then(|set| set.pointer("/spec/template")).map(without_hash))
}

/// A ReplicaSet's template as the Deployment had it.
#[must_use]
pub fn without_hash(template: &Value) -> Value {
    let mut template = template.clone();
    if let Some(labels) = template.pointer_mut("/metadata/labels").and_then(Value::as_object_mut) {
        labels.remove(POD_TEMPLATE_HASH);
    }
    template
}

/// The fingerprint of a pod template, as the operator takes it.
#[must_use]
pub fn fingerprint(template: &Value) -> Option<TemplateHash> {
    serde_json::from_value::<Template>(template.clone()).ok().map(|template| template.hash)
}

/// The images of a pod template, one after the other.
#[must_use]
pub fn images(template: &Value) -> String {
    let containers = template.pointer("/spec/containers").and_then(Value::as_array);
    let images = containers.into_iter().flatten().filter_map(|c| c.get("image")?.as_str());
    images.collect::<Vec<_>>().join(",")
}

/// How two pod templates differ, as a short diff of their YAML; empty where they do not.
///
/// # Errors
///
/// Fails where a template cannot be written as YAML.
pub fn diff(before: &Value, after: &Value) -> Result<Vec<Line>, Failure> {
    let (before, after) = (yaml(&before)?, yaml(&after)?);
    let diff = TextDiff::from_lines(before.as_str(), after.as_str());
    let text = diff.unified_diff().context_radius(AROUND).to_string();
    let mut lines: Vec<_> = text
        .lines()
        .map(|line| {
            let tone = match line.chars().next() {
                Some('+') => Tone::Good,
                Some('-') => Tone::Bad,
                Some('@') => Tone::Faint,
                _ => Tone::Plain,
            };
            Line::new().with(tone, format!("  {line}"))
        })
        .collect();
    if lines.len() > MOST_LINES {
        let more = lines.len() - MOST_LINES;
        lines.truncate(MOST_LINES);
        lines.push(Line::new().with(Tone::Faint, format!("  and {more} more lines")));
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn template(image: &str) -> Value {
        json!({
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "app", "image": image}], "restartPolicy": "Always"},
        })
    }

    #[test]
    fn a_diff_names_what_changed_and_nothing_else() {
        let lines = diff(&template("app:v1"), &template("app:v2")).unwrap();
        let text: Vec<_> = lines.iter().map(Line::text).collect();
        let changed: Vec<_> =
            text.iter().filter(|line| line.starts_with("  +") || line.starts_with("  -")).collect();
        assert_eq!(changed.len(), 2, "{text:?}");
        assert!(changed[0].contains("app:v1") && changed[1].contains("app:v2"), "{text:?}");
        assert!(diff(&template("app:v1"), &template("app:v1")).unwrap().is_empty());
    }

    #[test]
    fn a_long_diff_is_cut_and_says_so() {
        let env =
            |value: &str| (0..50).map(|i| json!({"name": i, "value": value})).collect::<Value>();
        let lines = diff(&json!({"env": env("a")}), &json!({"env": env("b")})).unwrap();
        assert_eq!(lines.len(), MOST_LINES + 1);
        assert!(lines[MOST_LINES].text().ends_with("more lines"));
    }

    #[test]
    fn the_hash_label_is_no_part_of_a_template() {
        let mut labelled = template("app:v1");
        labelled["metadata"]["labels"][POD_TEMPLATE_HASH] = json!("abc");
        assert_eq!(without_hash(&labelled), template("app:v1"));
        assert_eq!(fingerprint(&labelled), fingerprint(&template("app:v1")));
        assert_ne!(fingerprint(&labelled), fingerprint(&template("app:v2")));
        assert_eq!(images(&labelled), "app:v1");
    }
}
