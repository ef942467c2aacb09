//! JSON merge patches (RFC 7386).

use serde_json::{Map, Value};

/// The merge patch that turns `from` into `to`. A null in `to` counts as absent, as it does for
/// the API server.
#[must_use]
pub fn between(from: &Value, to: &Value) -> Value {
    let (Value::Object(from), Value::Object(to)) = (from, to) else {
        return to.clone();
    };
    let mut patch = Map::new();
    for (key, old) in from {
        if to.get(key).is_none_or(Value::is_null) && !old.is_null() {
            patch.insert(key.clone(), Value::Null);
        }
    }
    for (key, new) in to {
        let old = from.get(key).unwrap_or(&Value::Null);
        if old != new && !new.is_null() {
            patch.insert(key.clone(), between(old, new));
        }
    }
    Value::Object(patch)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// RFC 7386 as its section 2 defines it.
    fn applied(target: Value, patch: &Value) -> Value {
        let Value::Object(changes) = patch else {
            return patch.clone();
        };
        let mut target = match target {
            Value::Object(map) => map,
            _ => Map::new(),
        };
        for (key, change) in changes {
            if change.is_null() {
                target.remove(key);
            } else {
                let old = target.remove(key).unwrap_or_default();
                target.insert(key.clone(), applied(old, change));
            }
        }
        Value::Object(target)
    }

    #[test]
    fn what_is_only_in_the_old_object_is_removed() {
        let from = json!({"spec": {"a": 1, "b": {"c": 2}}, "list": [1, 2]});
        let to = json!({"spec": {"b": {}}, "list": [2]});
        let patch = between(&from, &to);
        assert_eq!(patch, json!({"spec": {"a": null, "b": {"c": null}}, "list": [2]}));
        assert_eq!(applied(from, &patch), to);
    }

    fn any_object() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<bool>().prop_map(Value::from),
            any::<i8>().prop_map(Value::from),
            "[ab]{0,2}".prop_map(Value::from),
            proptest::collection::vec(any::<i8>(), 0..3).prop_map(Value::from),
        ];
        let value = leaf.prop_recursive(4, 32, 4, |inner| {
            proptest::collection::vec(("[a-c]", inner), 0..4)
                .prop_map(|entries| Value::Object(entries.into_iter().collect()))
        });
        proptest::collection::vec(("[a-c]", value), 0..4)
            .prop_map(|entries| Value::Object(entries.into_iter().collect()))
    }

    proptest! {
        #[test]
        fn the_patch_gives_exactly_the_other_object(from in any_object(), to in any_object()) {
            prop_assert_eq!(applied(from.clone(), &between(&from, &to)), to);
        }
    }
}
