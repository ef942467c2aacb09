//! Whether a value has the shape of a CRD's structural schema: the part of OpenAPI that Kubernetes
//! allows there, with its own integers or strings, which JSON Schema does not know.

use serde_json::{Map, Value};

use super::schema::Complaint;

/// Finds everything that does not fit; fields that the schema does not know do not either.
///
/// Null counts as absent, as it does where the API server prunes it.
pub fn check(schema: &Value, value: &Value, path: &str, complaints: &mut Vec<Complaint>) {
    let before = complaints.len();
    let mut complain = |message: String| {
        complaints.push(Complaint { path: path.to_owned(), message });
    };
    let wanted = wanted(schema);
    if !wanted.is_empty() && !wanted.contains(&kind(value)) {
        complain(format!("it must be of type {}, not {}", wanted.join(" or "), kind(value)));
        return;
    }
    if let Some(values) = schema.get("enum").and_then(Value::as_array)
        && !values.contains(value)
    {
        let values: Vec<_> = values.iter().filter_map(Value::as_str).collect();
        complain(format!("{value} is not supported; choose one of {}", values.join(", ")));
    }
    let measured = match value {
        Value::Number(number) => number.as_f64().map(|size| (size, "minimum", "maximum", "it")),
        Value::String(text) => {
            Some((size(text.chars().count()), "minLength", "maxLength", "its length"))
        }
        Value::Array(items) => {
            Some((size(items.len()), "minItems", "maxItems", "the number of its items"))
        }
        _ => None,
    };
    if let Some((size, least, most, what)) = measured {
        let bound = |name: &str| schema.get(name).and_then(Value::as_f64);
        if let Some(least) = bound(least).filter(|least| size < *least) {
            complain(format!("{what} must be at least {least}, not {size}"));
        }
        if let Some(most) = bound(most).filter(|most| size > *most) {
            complain(format!("{what} must be at most {most}, not {size}"));
        }
    }
    match value {
        Value::Object(fields) => check_fields(schema, fields, path, complaints),
        Value::Array(items) if complaints.len() == before => {
            check_names(schema, items, path, complaints);
            if let Some(schema) = schema.get("items") {
                for (index, item) in items.iter().enumerate() {
                    check(schema, item, &format!("{path}[{index}]"), complaints);
                }
            }
        }
        _ => {}
    }
}

/// A list that is a map by some key has no key twice.
fn check_names(schema: &Value, items: &[Value], path: &str, complaints: &mut Vec<Complaint>) {
    let key = schema.pointer("/x-kubernetes-list-map-keys/0").and_then(Value::as_str);
    let Some(key) = key else { return };
    for (index, item) in items.iter().enumerate() {
        let name = item.get(key);
        if name.is_some() && items.iter().take(index).any(|other| other.get(key) == name) {
            let message = format!("every {key} must be unique in its list");
            complaints.push(Complaint { path: format!("{path}[{index}].{key}"), message });
        }
    }
}

fn check_fields(
    schema: &Value,
    fields: &Map<String, Value>,
    path: &str,
    complaints: &mut Vec<Complaint>,
) {
    // Without properties any field goes, as in metadata here.
    let Some(known) = schema.get("properties").and_then(Value::as_object) else { return };
    let below = |field: &str| {
        if path.is_empty() { field.to_owned() } else { format!("{path}.{field}") }
    };
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    for field in required.filter_map(Value::as_str) {
        if fields.get(field).is_none_or(Value::is_null) {
            complaints.push(Complaint { path: below(field), message: "it is required".into() });
        }
    }
    for (field, value) in fields {
        match known.get(field) {
            Some(_) if value.is_null() => {}
            Some(schema) => check(schema, value, &below(field), complaints),
            None => complaints.push(Complaint {
                path: below(field),
                message: "there is no such field; correct or remove it".into(),
            }),
        }
    }
}

/// The types that a schema allows; empty where it allows all.
fn wanted(schema: &Value) -> Vec<&str> {
    if schema.get("x-kubernetes-int-or-string") == Some(&Value::Bool(true)) {
        return vec!["integer", "string"];
    }
    schema.get("type").and_then(Value::as_str).into_iter().collect()
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_i64() || number.is_u64() => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[allow(clippy::cast_precision_loss)] // a file has at most 16 MiB
fn size(count: usize) -> f64 {
    count as f64
}
