//! Short ways to read and build JSON.

use serde_json::Value;

static NOTHING: Value = Value::Null;

/// Reading by JSON pointer, where what is absent reads as null, 0, "" or false.
pub trait Json {
    /// The value at a JSON pointer; null where there is none.
    fn at(&self, pointer: &str) -> &Value;
    /// The number at a JSON pointer; 0 where there is none.
    fn int(&self, pointer: &str) -> i64;
    /// The text at a JSON pointer; empty where there is none.
    fn text(&self, pointer: &str) -> &str;
    /// The truth at a JSON pointer; false where there is none.
    fn flag(&self, pointer: &str) -> bool;
    /// The list at a JSON pointer; empty where there is none.
    fn list(&self, pointer: &str) -> &[Value];
    /// The annotation of an object.
    fn annotation(&self, key: &str) -> Option<&str>;
    /// The same with a JSON merge patch (RFC 7386) applied.
    #[must_use]
    fn with(self, patch: Value) -> Value;
}

impl Json for Value {
    fn at(&self, pointer: &str) -> &Value {
        self.pointer(pointer).unwrap_or(&NOTHING)
    }

    fn int(&self, pointer: &str) -> i64 {
        self.at(pointer).as_i64().unwrap_or_default()
    }

    fn text(&self, pointer: &str) -> &str {
        self.at(pointer).as_str().unwrap_or_default()
    }

    fn flag(&self, pointer: &str) -> bool {
        self.at(pointer).as_bool().unwrap_or_default()
    }

    fn list(&self, pointer: &str) -> &[Value] {
        self.at(pointer).as_array().map_or(&[], Vec::as_slice)
    }

    fn annotation(&self, key: &str) -> Option<&str> {
        self.at("/metadata/annotations").get(key)?.as_str()
    }

    fn with(mut self, patch: Value) -> Value {
        merge(&mut self, patch);
        self
    }
}

fn merge(target: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *target = patch;
        return;
    };
    if !target.is_object() {
        *target = Value::Object(serde_json::Map::new());
    }
    for (key, value) in patch {
        if value.is_null() {
            target.as_object_mut().unwrap().remove(&key);
        } else {
            merge(&mut target[key], value);
        }
    }
}

/// The collection's path in the API, e.g. of `apps/v1`, `deployments`.
pub fn path_of(api_version: &str, namespace: &str, plural: &str) -> String {
    let root = if api_version.contains('/') { "apis" } else { "api" };
    format!("/{root}/{api_version}/namespaces/{namespace}/{plural}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_merge_patch_replaces_adds_and_removes() {
        let value = json!({"a": {"b": 1, "c": 2}, "d": [1]});
        let patched = value.with(json!({"a": {"b": null, "e": 3}, "d": [2]}));
        assert_eq!(patched, json!({"a": {"c": 2, "e": 3}, "d": [2]}));
        assert_eq!(patched.int("/a/e"), 3);
        assert_eq!(patched.text("/a/none"), "");
    }
}
