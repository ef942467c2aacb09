//! What the API server would refuse of a GrayRollout: the schema and the CEL rules of the CRD,
//! evaluated here.

use std::collections::HashMap;

use kube_cel::{
    CompiledSchema, KubeCelExt, apply_defaults,
    cel::{self, Context, extractors::This},
    compile_schema,
};
use serde_json::{Value, json};

use super::{error::Failure, shape};
use crate::api::GROUP;

/// The CRD's rules, ready to be asked.
pub struct Schema {
    schema: Value,
    rules: CompiledSchema,
}

/// One complaint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Complaint {
    /// Path of the field, e.g. `spec.stages[1].percent`.
    pub path: String,
    /// What is wrong.
    pub message: String,
}

impl Schema {
    /// The schema of this version of the CRD.
    ///
    /// # Errors
    ///
    /// Fails where the CRD that is built in is broken.
    pub fn new() -> Result<Self, Failure> {
        let broken =
            |why: String| Failure::Error(format!("the built-in CRD cannot be used: {why}"));
        let crd = crate::api::crd().map_err(broken)?;
        let schema = crd
            .pointer("/spec/versions/0/schema/openAPIV3Schema")
            .ok_or_else(|| broken("it has no schema".into()))?;
        let mut schema = schema.clone();
        if let Some(properties) = schema.pointer_mut("/properties").and_then(Value::as_object_mut) {
            let version = format!("{GROUP}/v1alpha1");
            properties.insert("apiVersion".into(), json!({ "type": "string", "enum": [version] }));
            properties.insert("kind".into(), json!({ "type": "string" }));
            properties.insert("metadata".into(), json!({ "type": "object" }));
        }
        Ok(Self { rules: compile_schema(&schema), schema })
    }

    /// Everything that a new object would be refused for.
    #[must_use]
    pub fn check(&self, object: &Value) -> Vec<Complaint> {
        // The API server drops the status of a new object, and what is null.
        let mut object = object.clone();
        if let Some(fields) = object.as_object_mut() {
            fields.remove("status");
        }
        let mut complaints = Vec::new();
        let named = |field| object.pointer(field).is_some_and(Value::is_string);
        if !named("/metadata/name") && !named("/metadata/generateName") {
            let message = "it is required".into();
            complaints.push(Complaint { path: "metadata.name".into(), message });
        }
        shape::check(&self.schema, &object, "", &mut complaints);
        // As in the API server, rules are asked only of what has the right shape.
        if complaints.is_empty() {
            let object = apply_defaults(&self.schema, &object);
            ask(&self.rules, &object, "", &language(), &mut complaints);
        }
        complaints
    }
}

/// CEL with the functions of Kubernetes, and `type`, which the interpreter does not have.
fn language() -> Context<'static> {
    let mut language = Context::default().with_all();
    language.add_function("type", |value: cel::Value| value.type_of().to_string());
    // Of a new object there is no earlier one.
    language.add_function("hasValue", |This(_): This<cel::Value>| false);
    language.add_variable_from_value("oldSelf", cel::Value::Null);
    for name in ["bool", "int", "string", "list", "map"] {
        language.add_variable_from_value(name, name);
    }
    language
}

/// Asks the rules of a value and of all below it. Rules about a change have nothing to compare.
fn ask(
    rules: &CompiledSchema,
    value: &Value,
    path: &str,
    language: &Context<'_>,
    complaints: &mut Vec<Complaint>,
) {
    if value.is_null() {
        return;
    }
    let mut scope = language.new_inner_scope();
    scope.add_variable_from_value("self", of_json(value));
    for rule in &rules.validations {
        let answer = match rule {
            Ok(rule) if rule.is_transition_rule && rule.rule.optional_old_self != Some(true) => {
                continue;
            }
            Ok(rule) => rule.program.execute(&scope).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        let message = match answer {
            Ok(cel::Value::Bool(true)) => continue,
            Ok(_) => rule.as_ref().ok().and_then(|rule| rule.rule.message.clone()),
            Err(why) => Some(format!("a rule cannot be evaluated: {why}")),
        };
        let message = message.unwrap_or_else(|| "a rule of the CRD is broken".into());
        complaints.push(Complaint { path: path.to_owned(), message });
    }
    let mut fields: Vec<_> = rules.properties.iter().collect();
    fields.sort_by_key(|(field, _)| *field);
    for (field, below) in fields {
        if let Some(value) = value.get(field) {
            let dot = if path.is_empty() { "" } else { "." };
            ask(below, value, &format!("{path}{dot}{field}"), language, complaints);
        }
    }
    for (below, items) in rules.items.iter().zip(value.as_array()) {
        for (index, item) in items.iter().enumerate() {
            ask(below, item, &format!("{path}[{index}]"), language, complaints);
        }
    }
}

/// A value as CEL sees it: whole numbers are ints, and null is absent.
fn of_json(value: &Value) -> cel::Value {
    match value {
        Value::Null => cel::Value::Null,
        Value::Bool(value) => cel::Value::Bool(*value),
        Value::Number(number) => match number.as_i64() {
            Some(int) => cel::Value::Int(int),
            None => cel::Value::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
        Value::String(text) => text.as_str().into(),
        Value::Array(items) => items.iter().map(of_json).collect::<Vec<_>>().into(),
        Value::Object(fields) => {
            let present = fields.iter().filter(|(_, value)| !value.is_null());
            let map: HashMap<String, cel::Value> =
                present.map(|(key, value)| (key.clone(), of_json(value))).collect();
            map.into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gray(spec: &Value) -> Value {
        json!({
            "apiVersion": "grayrollout.dev/v1alpha1", "kind": "GrayRollout",
            "metadata": {"name": "web", "labels": {"a": "b"}}, "spec": spec,
        })
    }

    fn complaints(spec: &Value) -> Vec<(String, String)> {
        let found = Schema::new().unwrap().check(&gray(spec));
        found.into_iter().map(|complaint| (complaint.path, complaint.message)).collect()
    }

    fn stages(percents: &[i32]) -> Value {
        let stages: Value = percents.iter().map(|p| json!({"percent": p})).collect();
        json!({"targetRef": {"name": "web"}, "stages": stages})
    }

    fn with(mut spec: Value, field: &str, value: Value) -> Value {
        spec[field] = value;
        spec
    }

    #[test]
    fn what_is_right_passes() {
        for spec in [
            stages(&[10, 50, 100]),
            stages(&[100]),
            with(stages(&[10, 100]), "maxSurge", json!("25%")),
            with(stages(&[10, 100]), "maxSurge", json!(2)),
            with(stages(&[10, 100]), "maxSurge", Value::Null),
            with(stages(&[10, 100]), "onFailure", json!("Rollback")),
            json!({
                "targetRef": {"name": "web"},
                "stages": [{"percent": 10, "approval": "Required", "soakSeconds": 60}, {"percent": 100}],
            }),
        ] {
            assert_eq!(complaints(&spec), [], "{spec}");
        }
    }

    #[test]
    fn shapes_are_refused_at_their_place() {
        for (spec, path) in [
            (with(stages(&[10, 100]), "pausd", json!(true)), "spec.pausd"),
            (with(stages(&[10, 100]), "paused", json!("yes")), "spec.paused"),
            (with(stages(&[10, 100]), "onFailure", json!("Panic")), "spec.onFailure"),
            (stages(&[0, 100]), "spec.stages[0].percent"),
            (stages(&[10, 101]), "spec.stages[1].percent"),
            (stages(&[]), "spec.stages"),
            (json!({"stages": [{"percent": 100}]}), "spec.targetRef"),
            (with(stages(&[10, 100]), "maxSurge", json!([])), "spec.maxSurge"),
        ] {
            let found = complaints(&spec);
            assert_eq!(found.len(), 1, "{spec}: {found:?}");
            assert_eq!(found[0].0, path, "{found:?}");
        }
    }

    #[test]
    fn the_rules_of_the_crd_are_asked() {
        for (spec, said) in [
            (stages(&[10, 50]), "the last stage must have percent: 100"),
            (stages(&[50, 10, 100]), "higher percent than the one before"),
            (stages(&[10, 10, 100]), "higher percent than the one before"),
            (with(stages(&[10, 100]), "maxSurge", json!("25")), "maxSurge must be"),
            (with(stages(&[10, 100]), "maxUnavailable", json!("101%")), "maxUnavailable must be"),
            (
                with(with(stages(&[10, 100]), "maxSurge", json!(0)), "maxUnavailable", json!("0%")),
                "cannot both be 0",
            ),
            (
                with(
                    stages(&[10, 100]),
                    "approval",
                    json!({"rollout": 1, "revision": "a", "stage": 3}),
                ),
                "approval.stage names a stage that does not exist",
            ),
            (
                with(
                    stages(&[10, 100]),
                    "targetRef",
                    json!({"name": "web", "kind": "StatefulSet"}),
                ),
                "only a Deployment can be rolled out",
            ),
        ] {
            let found = complaints(&spec);
            assert_eq!(found.len(), 1, "{spec}: {found:?}");
            assert!(found[0].1.contains(said), "{found:?}");
        }
    }

    #[test]
    fn version_and_name_are_looked_at() {
        let mut object = gray(&stages(&[10, 100]));
        object["apiVersion"] = json!("grayrollout.dev/v1");
        object["metadata"] = json!({});
        let found = Schema::new().unwrap().check(&object);
        let paths: Vec<_> = found.iter().map(|complaint| complaint.path.as_str()).collect();
        assert_eq!(paths, ["metadata.name", "apiVersion"]);
    }

    #[test]
    fn a_status_in_a_file_is_no_concern() {
        let mut object = gray(&stages(&[10, 100]));
        object["status"] = json!({"approval": {"rollout": 3, "stage": 2}});
        assert_eq!(Schema::new().unwrap().check(&object), []);
    }
}
