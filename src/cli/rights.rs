//! What the user may do, told before it is tried.

use serde_json::Value;

/// What the commands need, as RBAC says it: who may do what.
const NEEDS: &[(&str, &str, &str, &str)] = &[
    ("grayrollout.dev", "grayrollouts/status", "patch", "approve, abort and retry"),
    ("grayrollout.dev", "grayrollouts", "patch", "pause and resume"),
    ("apps", "deployments", "patch", "undo and restart"),
];

/// The commands that are not the user's, by the answer to a SelfSubjectRulesReview; empty where
/// none is known to be missing.
#[must_use]
pub fn missing(review: &Value, name: &str) -> Vec<String> {
    let rules = review.pointer("/status/resourceRules").and_then(Value::as_array);
    let complete = review.pointer("/status/incomplete").and_then(Value::as_bool) == Some(false);
    let (Some(rules), true) = (rules, complete) else { return Vec::new() };
    NEEDS
        .iter()
        .filter(|(group, resource, verb, _)| {
            !rules.iter().any(|rule| allows(rule, group, resource, verb, name))
        })
        .map(|(group, resource, verb, commands)| {
            format!("{commands} are not yours: they need the right to {verb} {resource} ({group})")
        })
        .collect()
}

fn allows(rule: &Value, group: &str, resource: &str, verb: &str, name: &str) -> bool {
    let lists = |field: &str, wanted: &[&str]| {
        rule.get(field).and_then(Value::as_array).is_some_and(|given| {
            given
                .iter()
                .any(|value| value.as_str().is_some_and(|v| v == "*" || wanted.contains(&v)))
        })
    };
    let any_name = rule.get("resourceNames").and_then(Value::as_array).is_none_or(Vec::is_empty);
    let subresource = resource.split_once('/').map(|(_, sub)| format!("*/{sub}"));
    let subresource = subresource.as_deref().unwrap_or(resource);
    lists("apiGroups", &[group])
        && lists("resources", &[resource, subresource])
        && lists("verbs", &[verb])
        && (any_name || lists("resourceNames", &[name]))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn review(rules: &Value) -> Value {
        json!({"status": {"incomplete": false, "resourceRules": rules}})
    }

    fn rule(group: &str, resource: &str, verbs: &[&str]) -> Value {
        json!({"apiGroups": [group], "resources": [resource], "verbs": verbs})
    }

    #[test]
    fn a_reader_is_told_what_is_not_theirs() {
        let rules = json!([rule("grayrollout.dev", "grayrollouts", &["get", "list", "watch"])]);
        let told = missing(&review(&rules), "web");
        assert_eq!(told.len(), 3);
        assert!(
            told[0].contains("approve") && told[0].contains("patch grayrollouts/status"),
            "{told:?}"
        );
    }

    #[test]
    fn an_approver_lacks_only_the_rest() {
        let rules = json!([rule("grayrollout.dev", "grayrollouts/status", &["patch"])]);
        let told = missing(&review(&rules), "web");
        assert_eq!(told.len(), 2);
        assert!(told.iter().all(|text| !text.contains("approve")), "{told:?}");
    }

    #[test]
    fn wildcards_and_names_count() {
        assert!(missing(&review(&json!([rule("*", "*", &["*"])])), "web").is_empty());
        let named = json!({
            "apiGroups": ["*"], "resources": ["*"], "verbs": ["*"], "resourceNames": ["other"]
        });
        assert_eq!(missing(&review(&json!([named])), "web").len(), 3);
    }

    #[test]
    fn nothing_is_claimed_of_an_incomplete_answer() {
        let review = json!({"status": {"incomplete": true, "resourceRules": []}});
        assert!(missing(&review, "web").is_empty());
    }
}
