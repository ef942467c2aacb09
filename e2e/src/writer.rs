//! Who wrote a stored state, told from managedFields.

use serde_json::Value;

use crate::Json;

/// The operator's field manager.
pub const OPERATOR: &str = "grayrollout";

/// The field manager whose write led from `before` to `after`, where it can be told.
///
/// `changed` is a field that differs, as a path of plain names such as `["spec", "replicas"]`. The
/// API server lets a value belong to whoever set it last, so its owner is the writer; nobody where
/// it has no owner, which happens after writes to the subresource scale. For a value that was
/// removed it is the manager whose entry is new or has a newer time.
pub fn writer<'a>(before: Option<&Value>, after: &'a Value, changed: &[&str]) -> Option<&'a str> {
    let entries = after.list("/metadata/managedFields");
    let owners = entries.iter().filter(|entry| owns(entry, changed));
    if let Some(owner) = newest(owners) {
        return Some(owner);
    }
    if changed.iter().try_fold(after, |at, name| at.get(*name)).is_some() {
        return None;
    }
    let none = Value::Null;
    let earlier = before.unwrap_or(&none).list("/metadata/managedFields");
    let touched = entries.iter().filter(|entry| {
        !earlier.iter().any(|old| same_entry(old, entry) && old.at("/time") == entry.at("/time"))
    });
    if let Some(writer) = newest(touched) {
        return Some(writer);
    }
    // Within one second a second write of the same manager leaves no newer time. A manager that
    // owns nothing has no entry; it is who changes this alone.
    let alone = before.is_some_and(|before| without(before, changed) == without(after, changed));
    if alone { None } else { newest(entries.iter()) }
}

/// The object without a field, and without what every write changes.
fn without(object: &Value, field: &[&str]) -> Value {
    let mut rest = object.clone();
    let bookkeeping = ["managedFields", "resourceVersion", "generation"];
    let bookkeeping = bookkeeping.iter().map(|name| vec!["metadata", *name]);
    for path in bookkeeping.chain([field.to_vec()]) {
        let Some((last, parents)) = path.split_last() else { continue };
        let parent = parents.iter().try_fold(&mut rest, |at, name| at.get_mut(*name));
        if let Some(parent) = parent.and_then(Value::as_object_mut) {
            parent.remove(*last);
        }
    }
    rest
}

fn same_entry(one: &Value, other: &Value) -> bool {
    ["/manager", "/operation", "/subresource"].iter().all(|field| one.at(field) == other.at(field))
}

fn owns(entry: &Value, path: &[&str]) -> bool {
    let mut at = entry.at("/fieldsV1");
    for name in path {
        match at.get(format!("f:{name}")) {
            Some(below) => at = below,
            None => return false,
        }
    }
    true
}

fn newest<'a>(entries: impl Iterator<Item = &'a Value>) -> Option<&'a str> {
    entries.max_by_key(|entry| entry.text("/time")).map(|entry| entry.text("/manager"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(entries: &[(&str, &str, Value)]) -> Value {
        let entries: Vec<Value> = entries
            .iter()
            .map(|(manager, time, fields)| {
                json!({"manager": manager, "operation": "Update", "time": time, "fieldsV1": fields})
            })
            .collect();
        json!({"metadata": {"managedFields": entries}})
    }

    #[test]
    fn the_owner_of_a_changed_field_wrote_it() {
        let size = json!({"f:spec": {"f:replicas": {}}});
        let after = object(&[
            (OPERATOR, "2026-01-01T00:00:01Z", size),
            ("kube-controller-manager", "2026-01-01T00:00:02Z", json!({"f:status": {}})),
        ]);
        assert_eq!(writer(None, &after, &["spec", "replicas"]), Some(OPERATOR));
    }

    #[test]
    fn a_value_without_an_owner_was_written_by_nobody_known() {
        let after = object(&[(OPERATOR, "2026-01-01T00:00:01Z", json!({"f:status": {}}))])
            .with(json!({"spec": {"replicas": 3}}));
        assert_eq!(writer(None, &after, &["spec", "replicas"]), None);
    }

    #[test]
    fn who_removes_a_single_field_and_owns_nothing_is_not_known() {
        let entries = [(OPERATOR, "2026-01-01T00:00:01Z", json!({"f:spec": {"f:paused": {}}}))];
        let before = object(&entries).with(json!({"spec": {"paused": true, "replicas": 3}}));
        let entries = [(OPERATOR, "2026-01-01T00:00:01Z", json!({"f:spec": {}}))];
        let after = object(&entries).with(json!({"spec": {"replicas": 3}}));
        assert_eq!(writer(Some(&before), &after, &["spec", "paused"]), None);
        let more = after.with(json!({"spec": {"replicas": 3, "strategy": "other"}}));
        assert_eq!(writer(Some(&before), &more, &["spec", "paused"]), Some(OPERATOR));
    }

    #[test]
    fn a_removed_field_is_told_by_the_time() {
        let before =
            object(&[(OPERATOR, "2026-01-01T00:00:01Z", json!({"f:spec": {"f:paused": {}}}))]);
        let after = object(&[
            (OPERATOR, "2026-01-01T00:00:01Z", json!({"f:spec": {}})),
            ("kubectl-patch", "2026-01-01T00:00:01Z", json!({"f:spec": {}})),
        ]);
        assert_eq!(writer(Some(&before), &after, &["spec", "paused"]), Some("kubectl-patch"));
    }
}
