//! The CustomResourceDefinition as it is installed.

use kube::CustomResourceExt;
use serde_json::{Value, json};

use super::{GrayRollout, rules::RULES};

/// The CRD: the schema of the types, with the CEL rules and bounds that types cannot express.
///
/// # Errors
///
/// Fails where a rule names a place that the schema does not have.
pub fn crd() -> Result<Value, String> {
    let mut crd = serde_json::to_value(GrayRollout::crd()).map_err(|e| e.to_string())?;
    let schema = crd
        .pointer_mut("/spec/versions/0/schema/openAPIV3Schema")
        .ok_or("the CRD has no schema")?;
    for rule in RULES {
        let place = schema
            .pointer_mut(rule.at)
            .and_then(Value::as_object_mut)
            .ok_or_else(|| format!("the schema has no {}", rule.at))?;
        if let Some(rules) =
            place.entry("x-kubernetes-validations").or_insert_with(|| json!([])).as_array_mut()
        {
            rules.push(rule.to_value());
        }
    }
    // Plain enough without, and a CRD is sent and stored whole.
    for field in [
        "checks/items",
        "conditions/items",
        "history/items",
        "hooks/items",
        "stable",
        "update",
        "split",
        "lastProgress",
        "lastStep",
    ] {
        let at = format!("/properties/status/properties/{field}");
        let items = schema.pointer_mut(&at).ok_or_else(|| format!("the schema has no {at}"))?;
        undescribe(items);
    }
    for (at, key, value) in extras() {
        schema
            .pointer_mut(at)
            .and_then(Value::as_object_mut)
            .ok_or_else(|| format!("the schema has no {at}"))?
            .insert(key.into(), value);
    }
    Ok(crd)
}

/// Takes the descriptions of a schema and of its fields away.
fn undescribe(schema: &mut Value) {
    if let Some(map) = schema.as_object_mut() {
        map.remove("description");
        for field in map.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten()
        {
            undescribe(field.1);
        }
    }
}

/// What the API server needs to know beyond the types: list kinds and bounds that keep the
/// estimated cost of the CEL rules low.
fn extras() -> Vec<(&'static str, &'static str, Value)> {
    vec![
        ("/properties/status/properties/conditions", "x-kubernetes-list-type", json!("map")),
        ("/properties/status/properties/conditions", "x-kubernetes-list-map-keys", json!(["type"])),
        ("/properties/status/properties/history", "x-kubernetes-list-type", json!("atomic")),
        ("/properties/status/properties/history", "maxItems", json!(10)),
        ("/properties/status/properties/stagePercents", "x-kubernetes-list-type", json!("atomic")),
        ("/properties/status/properties/stagePercents", "maxItems", json!(20)),
        ("/properties/spec/properties/stages", "x-kubernetes-list-type", json!("atomic")),
        ("/properties/spec/properties/checks", "x-kubernetes-list-type", json!("map")),
        ("/properties/spec/properties/checks", "x-kubernetes-list-map-keys", json!(["name"])),
        ("/properties/spec/properties/hooks", "x-kubernetes-list-type", json!("map")),
        ("/properties/spec/properties/hooks", "x-kubernetes-list-map-keys", json!(["name"])),
        (
            "/properties/spec/properties/hooks/items/properties/on",
            "x-kubernetes-list-type",
            json!("atomic"),
        ),
        ("/properties/status/properties/checks", "x-kubernetes-list-type", json!("atomic")),
        ("/properties/status/properties/checks", "maxItems", json!(10)),
        ("/properties/status/properties/hooks", "x-kubernetes-list-type", json!("atomic")),
        ("/properties/status/properties/hooks", "maxItems", json!(10)),
        ("/properties/status/properties/hookLedger", "x-kubernetes-map-type", json!("atomic")),
        ("/properties/status/properties/approval/properties/rollout", "minimum", json!(1)),
        (
            "/properties/status/properties/approval/properties/rollout",
            "maximum",
            json!(1_000_000_000),
        ),
        ("/properties/status/properties/approval/properties/stage", "minimum", json!(1)),
        ("/properties/status/properties/approval/properties/stage", "maximum", json!(20)),
        ("/properties/status/properties/approval/properties/by", "maxLength", json!(253)),
        ("/properties/status/properties/abort/properties/rollout", "minimum", json!(1)),
        ("/properties/status/properties/abort/properties/rollout", "maximum", json!(1_000_000_000)),
        ("/properties/status/properties/retry/properties/rollout", "minimum", json!(1)),
        ("/properties/status/properties/retry/properties/rollout", "maximum", json!(1_000_000_000)),
    ]
}

#[cfg(test)]
mod tests {
    /// It is sent and stored whole, and kubectl apply keeps it in an annotation once more.
    #[test]
    fn the_crd_is_small() {
        let size = include_str!("../../crds/grayrollouts.yaml").len();
        assert!(size < 40_000, "{size} bytes");
    }
}
