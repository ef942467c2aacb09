//! Pod templates of revisions, and how they differ.

use serde_json::Value;

use super::{
    error::Failure,
    screen::{Line, Tone},
    session::Session,
};
use crate::{cluster::slim::POD_TEMPLATE_HASH, cluster::slim::Template, plan::TemplateHash};

/// Most lines of a difference that are shown.
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
    find(session, target, &format!("{POD_TEMPLATE_HASH}={revision}"), |_| true).await
}

/// The pod template of the revision with the number that the native controller gave it, in the
/// annotation deployment.kubernetes.io/revision; `None` where there is none.
///
/// # Errors
///
/// Fails where ReplicaSets may not be listed.
pub async fn numbered(
    session: &Session,
    target: &str,
    number: i64,
) -> Result<Option<Value>, Failure> {
    let number = number.to_string();
    let numbered = |set: &Value| {
        let said = set.pointer("/metadata/annotations/deployment.kubernetes.io~1revision");
        said.and_then(Value::as_str) == Some(number.as_str())
    };
    find(session, target, "", numbered).await
}

/// The pod template of the first of a Deployment's ReplicaSets with these labels that fits.
async fn find(
    session: &Session,
    target: &str,
    labels: &str,
    fits: impl Fn(&Value) -> bool,
) -> Result<Option<Value>, Failure> {
    let sets = session.replica_sets(labels).await?;
    let set = sets.iter().find(|set| is_of(set, target) && fits(set));
    Ok(set.and_then(|set| set.pointer("/spec/template")).map(without_hash))
}

/// Whether a ReplicaSet is a Deployment's.
fn is_of(set: &Value, target: &str) -> bool {
    set.pointer("/metadata/ownerReferences").and_then(Value::as_array).is_some_and(|owners| {
        owners.iter().any(|owner| {
            owner.get("kind").and_then(Value::as_str) == Some("Deployment")
                && owner.get("name").and_then(Value::as_str) == Some(target)
        })
    })
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

/// How two pod templates differ: a line for what was, a line for what is, for each field; empty
/// where they do not.
#[must_use]
pub fn diff(before: &Value, after: &Value) -> Vec<Line> {
    let mut lines = Vec::new();
    compare(Some(before), Some(after), "", &mut lines);
    if lines.len() > MOST_LINES {
        let more = lines.len() - MOST_LINES;
        lines.truncate(MOST_LINES);
        lines.push(Line::new().with(Tone::Faint, format!("  and {more} more lines")));
    }
    lines
}

fn compare(before: Option<&Value>, after: Option<&Value>, path: &str, lines: &mut Vec<Line>) {
    if before == after {
        return;
    }
    let parts = (before.and_then(parts_of), after.and_then(parts_of));
    if let (Some(before), Some(after)) = parts {
        for (key, value) in &before {
            let there = after.iter().find(|(other, _)| other == key).map(|(_, value)| *value);
            compare(Some(value), there, &below(path, key), lines);
        }
        let added = after.iter().filter(|(key, _)| before.iter().all(|(other, _)| other != key));
        for (key, value) in added {
            compare(None, Some(value), &below(path, key), lines);
        }
        return;
    }
    let line = |tone, sign: char, value: &Value| {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        Line::new().with(tone, format!("  {sign} {path}: {value}"))
    };
    lines.extend(before.map(|value| line(Tone::Bad, '-', value)));
    lines.extend(after.map(|value| line(Tone::Good, '+', value)));
}

/// The fields of an object, or the items of a list whose items all have names, as containers do.
fn parts_of(value: &Value) -> Option<Vec<(&str, &Value)>> {
    match value {
        Value::Object(fields) => Some(fields.iter().map(|(k, v)| (k.as_str(), v)).collect()),
        Value::Array(items) => {
            items.iter().map(|item| Some((item.get("name")?.as_str()?, item))).collect()
        }
        _ => None,
    }
}

fn below(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
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

    fn texts(before: &Value, after: &Value) -> Vec<String> {
        diff(before, after).iter().map(Line::text).collect()
    }

    #[test]
    fn a_diff_names_what_changed_and_nothing_else() {
        assert_eq!(
            texts(&template("app:v1"), &template("app:v2")),
            ["  - spec.containers.app.image: app:v1", "  + spec.containers.app.image: app:v2"]
        );
        assert_eq!(texts(&template("app:v1"), &template("app:v1")), Vec::<String>::new());
    }

    #[test]
    fn what_came_and_what_went() {
        let mut after = template("app:v1");
        after["metadata"] = json!({"annotations": {"a": "b"}});
        after["spec"]["containers"][0]["args"] = json!(["-v", "2"]);
        assert_eq!(
            texts(&template("app:v1"), &after),
            [
                r#"  - metadata.labels: {"app":"web"}"#,
                r#"  + metadata.annotations: {"a":"b"}"#,
                r#"  + spec.containers.app.args: ["-v","2"]"#,
            ]
        );
    }

    #[test]
    fn a_long_diff_is_cut_and_says_so() {
        let env = |value: &str| {
            let one = |i: i32| json!({"name": i.to_string(), "value": value});
            (0..50).map(one).collect::<Value>()
        };
        let lines = texts(&json!({"env": env("a")}), &json!({"env": env("b")}));
        assert_eq!(lines.len(), MOST_LINES + 1);
        assert_eq!(lines[MOST_LINES], "  and 70 more lines");
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
