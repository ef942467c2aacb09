//! The fingerprint of a pod template, taken while decoding.

use std::fmt;

use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use xxhash_rust::xxh3::xxh3_128_with_seed;

use crate::plan::TemplateHash;

/// The label that the Deployment controller, and we, add to a ReplicaSet's template.
pub const POD_TEMPLATE_HASH: &str = "pod-template-hash";

/// What is kept of a pod template.
///
/// Decoding walks the template once and builds no tree of values: the order of fields does not
/// matter, a null counts as absent, and the label pod-template-hash is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Template {
    /// Its fingerprint.
    pub hash: TemplateHash,
    /// Whether it carries the label pod-template-hash.
    pub labelled: bool,
}

impl<'de> Deserialize<'de> for Template {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut labelled = false;
        let node = Node { place: Place::Template, labelled: &mut labelled };
        let hash = node.deserialize(deserializer)?.unwrap_or_default();
        Ok(Self { hash: TemplateHash(hash), labelled })
    }
}

impl Default for Template {
    /// The template that is not there.
    fn default() -> Self {
        Self { hash: TemplateHash(0), labelled: false }
    }
}

/// Seeds that keep kinds of values apart: 1, 1.0, "1" and [1] all differ.
#[derive(Clone, Copy)]
enum Tag {
    Bool = 1,
    Int,
    Float,
    Text,
    Key,
    Entry,
    Map,
    Seq,
    Null,
}

fn digest(tag: Tag, bytes: &[u8]) -> u128 {
    xxh3_128_with_seed(bytes, tag as u64)
}

fn pair(tag: Tag, a: u128, b: u128) -> u128 {
    let mut bytes = [0; 32];
    let (left, right) = bytes.split_at_mut(16);
    left.copy_from_slice(&a.to_le_bytes());
    right.copy_from_slice(&b.to_le_bytes());
    digest(tag, &bytes)
}

/// Where in the template a value stands, as far as it matters for the label to leave out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Template,
    Metadata,
    Labels,
    Elsewhere,
}

/// Turns a value into its digest; `None` for null.
struct Node<'a> {
    place: Place,
    labelled: &'a mut bool,
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = Option<u128>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = Option<u128>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_none<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Self::Value, E> {
        Ok(Some(digest(Tag::Bool, &[u8::from(value)])))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Self::Value, E> {
        Ok(Some(digest(Tag::Int, &i128::from(value).to_le_bytes())))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Self::Value, E> {
        Ok(Some(digest(Tag::Int, &i128::from(value).to_le_bytes())))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Self::Value, E> {
        Ok(Some(digest(Tag::Float, &value.to_bits().to_le_bytes())))
    }

    fn visit_str<E>(self, value: &str) -> Result<Self::Value, E> {
        Ok(Some(digest(Tag::Text, value.as_bytes())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut sum = 0;
        let mut count: u128 = 0;
        loop {
            let node = Node { place: Place::Elsewhere, labelled: &mut *self.labelled };
            let Some(item) = seq.next_element_seed(node)? else {
                break;
            };
            // In a list a null holds a place, so it counts.
            sum = pair(Tag::Entry, sum, item.unwrap_or_else(|| digest(Tag::Null, &[])));
            count += 1;
        }
        Ok(Some(pair(Tag::Seq, sum, count)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut sum: u128 = 0;
        let mut count: u128 = 0;
        while let Some(key) = map.next_key_seed(Key { place: self.place })? {
            let Some((key, place)) = key else {
                *self.labelled = true;
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            let node = Node { place, labelled: &mut *self.labelled };
            if let Some(value) = map.next_value_seed(node)? {
                // A sum does not depend on the order of its terms.
                sum = sum.wrapping_add(pair(Tag::Entry, key, value));
                count += 1;
            }
        }
        Ok(Some(pair(Tag::Map, sum, count)))
    }
}

/// Turns a key into its digest and the place of its value; `None` for the label to leave out.
struct Key {
    place: Place,
}

impl<'de> DeserializeSeed<'de> for Key {
    type Value = Option<(u128, Place)>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Key {
    type Value = Option<(u128, Place)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
        let place = match (self.place, key) {
            (Place::Labels, POD_TEMPLATE_HASH) => return Ok(None),
            (Place::Template, "metadata") => Place::Metadata,
            (Place::Metadata, "labels") => Place::Labels,
            _ => Place::Elsewhere,
        };
        Ok(Some((digest(Tag::Key, key.as_bytes()), place)))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn hash(value: &Value) -> TemplateHash {
        template(value).hash
    }

    fn template(value: &Value) -> Template {
        serde_json::from_str(&value.to_string()).unwrap()
    }

    fn pod() -> Value {
        json!({
            "metadata": {"creationTimestamp": null, "labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": "web:1", "ports": [{"containerPort": 80}]}]}
        })
    }

    #[test]
    fn the_fingerprint_never_changes_between_versions() {
        assert_eq!(
            hash(&pod()).to_string(),
            "79cfd699ac800459502d0d77a4f64af7",
            "a status written by an earlier version would speak of another template"
        );
    }

    #[test]
    fn the_label_of_the_controller_is_left_out_and_reported() {
        let plain = pod();
        let mut labelled = pod();
        labelled["metadata"]["labels"]["pod-template-hash"] = json!("abc");
        assert_eq!(hash(&plain), hash(&labelled));
        assert!(!template(&plain).labelled);
        assert!(template(&labelled).labelled);
    }

    #[test]
    fn the_same_word_elsewhere_counts() {
        let mut annotated = pod();
        annotated["metadata"]["annotations"] = json!({"pod-template-hash": "abc"});
        let mut selected = pod();
        selected["spec"]["nodeSelector"] = json!({"pod-template-hash": "abc"});
        let mut deeper = pod();
        deeper["spec"]["metadata"] = json!({"labels": {"pod-template-hash": "abc"}});
        for other in [annotated, selected, deeper] {
            assert_ne!(hash(&pod()), hash(&other));
            assert!(!template(&other).labelled);
        }
    }

    #[test]
    fn a_null_counts_as_absent_but_holds_its_place_in_a_list() {
        let mut with_null = pod();
        with_null["spec"]["securityContext"] = Value::Null;
        assert_eq!(hash(&pod()), hash(&with_null));
        assert_ne!(
            hash(&json!({"a": [1]})),
            hash(&json!({"a": [null, 1]})),
            "a list with a null is another list"
        );
    }

    #[test]
    fn fields_of_newer_servers_count() {
        let mut newer = pod();
        newer["spec"]["containers"][0]["brandNew"] = json!({"deep": [true]});
        assert_ne!(hash(&pod()), hash(&newer));
    }

    #[test]
    fn values_that_look_alike_differ() {
        let alike = [
            json!({"a": 1}),
            json!({"a": 1.0}),
            json!({"a": "1"}),
            json!({"a": true}),
            json!({"a": [1]}),
            json!({"a": [[1]]}),
            json!({"a": {}}),
            json!({"a": []}),
            json!({"a": ""}),
            json!({}),
            json!({"a": {"b": 1}}),
            json!({"b": {"a": 1}}),
            json!({"a": 1, "b": 2}),
            json!({"a": 2, "b": 1}),
            json!({"a": [1, 2]}),
            json!({"a": [2, 1]}),
            json!({"a": {"b": 1}, "c": {}}),
            json!({"a": {}, "c": {"b": 1}}),
        ];
        let mut seen = HashMap::new();
        for value in alike {
            if let Some(other) = seen.insert(hash(&value), value.clone()) {
                panic!("{value} and {other} have the same fingerprint");
            }
        }
    }

    #[test]
    fn a_tree_of_values_gives_the_same_as_text() {
        let from_tree = Template::deserialize(&pod()).unwrap();
        assert_eq!(from_tree, template(&pod()));
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            "[a-z]{0,4}".prop_map(Value::from),
        ];
        leaf.prop_recursive(6, 64, 6, |inner| {
            let key = prop_oneof![
                Just("metadata".to_owned()),
                Just("labels".to_owned()),
                Just("pod-template-hash".to_owned()),
                "[a-z]{0,3}",
            ];
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                proptest::collection::vec((key, inner), 0..6)
                    .prop_map(|entries| Value::Object(entries.into_iter().collect())),
            ]
        })
    }

    /// The same JSON with every map written backwards.
    fn backwards(value: &Value) -> String {
        match value {
            Value::Array(items) => {
                let items: Vec<_> = items.iter().map(backwards).collect();
                format!("[{}]", items.join(","))
            }
            Value::Object(map) => {
                let entries: Vec<_> = map
                    .iter()
                    .rev()
                    .map(|(key, value)| format!("{}:{}", json!(key), backwards(value)))
                    .collect();
                format!("{{{}}}", entries.join(","))
            }
            scalar => scalar.to_string(),
        }
    }

    /// What the fingerprint speaks of: no nulls in maps, no label of the controller.
    fn canonical(value: &Value, path: &[&str]) -> Value {
        match value {
            Value::Array(items) => items.iter().map(|item| canonical(item, &["[]"])).collect(),
            Value::Object(map) => map
                .iter()
                .filter(|(key, value)| {
                    let label = path == ["metadata", "labels"] && *key == "pod-template-hash";
                    !value.is_null() && !label
                })
                .map(|(key, value)| {
                    let path = [path, &[key.as_str()]].concat();
                    (key.clone(), canonical(value, &path))
                })
                .collect(),
            scalar => scalar.clone(),
        }
    }

    proptest! {
        #[test]
        fn the_order_of_fields_does_not_matter(value in any_json()) {
            let reversed: Template = serde_json::from_str(&backwards(&value)).unwrap();
            prop_assert_eq!(reversed, template(&value));
        }

        #[test]
        fn two_templates_are_equal_exactly_where_their_fingerprints_are(
            a in any_json(), b in any_json()
        ) {
            prop_assert_eq!(hash(&a) == hash(&b), canonical(&a, &[]) == canonical(&b, &[]));
            prop_assert_eq!(hash(&a), hash(&canonical(&a, &[])));
        }
    }
}
