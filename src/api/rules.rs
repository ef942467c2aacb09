//! The CEL rules of the CRD: what the API server refuses, and what it tells the user to do.

use serde_json::{Value, json};

use super::webhook_rules::{IS_NAME, IS_URL, KNOWS_VARIABLES};

/// One CEL rule at a place in the schema.
pub(super) struct Rule {
    /// JSON pointer below the root schema.
    pub at: &'static str,
    expression: &'static str,
    message: &'static str,
    /// A CEL expression for a message with values; it goes before `message`.
    message_expression: Option<&'static str>,
    /// Whether the rule sees the old object where there is one, and runs where there is none.
    optional_old_self: bool,
}

impl Rule {
    /// The rule as an entry of x-kubernetes-validations.
    pub fn to_value(&self) -> Value {
        let mut rule = json!({ "rule": self.expression, "message": self.message });
        if let (Some(map), Some(expression)) = (rule.as_object_mut(), self.message_expression) {
            map.insert("messageExpression".into(), json!(expression));
        }
        if let (Some(map), true) = (rule.as_object_mut(), self.optional_old_self) {
            map.insert("optionalOldSelf".into(), json!(true));
        }
        rule
    }

    const fn new(at: &'static str, expression: &'static str, message: &'static str) -> Self {
        Self { at, expression, message, message_expression: None, optional_old_self: false }
    }
}

/// A request written into the status counts only in the write that changes it, so that one that
/// stays in place never blocks the operator's own writes.
macro_rules! unless_unchanged {
    ($field:literal, $rule:literal) => {
        concat!(
            "!has(self.status) || !has(self.status.",
            $field,
            ") || ",
            "(oldSelf.hasValue() && has(oldSelf.value().status) && ",
            "has(oldSelf.value().status.",
            $field,
            ") && ",
            "oldSelf.value().status.",
            $field,
            " == self.status.",
            $field,
            ") || (",
            $rule,
            ")"
        )
    };
}

/// Every rule.
pub(super) const RULES: &[Rule] = &[
    Rule::new(
        "/properties/spec/properties/targetRef",
        "self == oldSelf",
        "targetRef cannot be changed: delete this GrayRollout and create another for the other Deployment",
    ),
    Rule::new(
        "/properties/spec/properties/targetRef",
        "self.apiVersion == 'apps/v1' && self.kind == 'Deployment'",
        "only a Deployment can be rolled out: leave apiVersion and kind out, or set them to apps/v1 and Deployment",
    ),
    Rule::new(
        "/properties/spec/properties/stages",
        "size(self) == 0 || self[size(self) - 1].percent == 100",
        "the last stage must have percent: 100",
    ),
    // Every write of a status evaluates it too, so what is unchanged is not looked at pair by pair.
    Rule {
        at: "/properties/spec/properties/stages",
        expression: "oldSelf.hasValue() && oldSelf.value() == self || \
             self.map(s, s.percent).isSorted() && \
             self.all(a, self.exists_one(b, b.percent == a.percent))",
        message: "every stage must have a higher percent than the one before it",
        message_expression: None,
        optional_old_self: true,
    },
    Rule::new(
        "/properties/spec/properties/maxSurge",
        "type(self) == int ? self >= 0 && self <= 1000000 : self.matches('^[0-9]{1,4}%$')",
        "maxSurge must be a number of pods, 0 or more, or a percentage such as \"25%\"",
    ),
    Rule::new(
        "/properties/spec/properties/maxUnavailable",
        "type(self) == int ? self >= 0 && self <= 1000000 : self.matches('^([0-9]{1,2}|100)%$')",
        "maxUnavailable must be a number of pods, 0 or more, or a percentage from \"0%\" to \"100%\"",
    ),
    Rule::new(
        "/properties/spec",
        "!has(self.maxSurge) || !has(self.maxUnavailable) || \
         !(type(self.maxSurge) == int ? self.maxSurge == 0 : self.maxSurge.matches('^0+%$')) || \
         !(type(self.maxUnavailable) == int ? self.maxUnavailable == 0 : self.maxUnavailable.matches('^0+%$'))",
        "maxSurge and maxUnavailable cannot both be 0: no pod could ever be replaced; raise one of them or leave maxUnavailable out",
    ),
    Rule::new(
        "/properties/spec",
        "!has(self.approval) || self.approval.stage <= size(self.stages)",
        "approval.stage names a stage that does not exist: there are fewer stages than that",
    ),
    Rule::new(
        "/properties/spec",
        "!has(self.checks) || self.checks.all(c, c.fromStage <= size(self.stages))",
        "fromStage of a check names a stage that does not exist: there are fewer stages than that",
    ),
    Rule::new(
        "/properties/spec/properties/checks/items",
        "has(self.prometheus) != has(self.webhook)",
        "a check has either prometheus or webhook: set one of the two",
    ),
    Rule::new("/properties/spec/properties/checks/items/properties/name", IS_NAME.0, IS_NAME.1),
    Rule::new("/properties/spec/properties/hooks/items/properties/name", IS_NAME.0, IS_NAME.1),
    Rule::new(
        "/properties/spec/properties/checks/items/properties/prometheus",
        "has(self.min) ? !has(self.max) || self.min <= self.max : has(self.max)",
        "prometheus needs min, max or both to pass within, and min must not be above max",
    ),
    Rule::new(
        "/properties/spec/properties/checks/items/properties/prometheus/properties/query",
        KNOWS_VARIABLES.0,
        KNOWS_VARIABLES.1,
    ),
    Rule::new(
        "/properties/spec/properties/checks/items/properties/prometheus/properties/address",
        IS_URL.0,
        IS_URL.1,
    ),
    Rule::new(
        "/properties/spec/properties/checks/items/properties/webhook/properties/url",
        IS_URL.0,
        IS_URL.1,
    ),
    Rule::new(
        "/properties/spec/properties/hooks/items/properties/webhook/properties/url",
        IS_URL.0,
        IS_URL.1,
    ),
    Rule::new(
        "/properties/spec/properties/hooks/items/properties/on",
        "self.all(a, self.exists_one(b, b == a))",
        "each event can be named once",
    ),
    Rule {
        at: "",
        expression: unless_unchanged!(
            "approval",
            "has(self.status.rollout) && has(self.status.stage) && has(self.status.stages) && \
             self.status.approval.rollout == self.status.rollout && \
             self.status.approval.stage <= self.status.stages && \
             has(self.status.phase) && \
             self.status.phase in ['Progressing', 'AwaitingApproval', 'Paused', 'Stalled']"
        ),
        message: "nothing can be approved now: no rollout is under way",
        message_expression: Some(
            "has(self.status.rollout) && has(self.status.stage) && has(self.status.stages) && \
             has(self.status.phase) && \
             self.status.phase in ['Progressing', 'AwaitingApproval', 'Paused', 'Stalled'] \
             ? 'status.approval must name the rollout under way and one of its stages: rollout: %d, stage: 1 to %d'\
             .format([self.status.rollout, self.status.stages]) \
             : 'nothing can be approved now: the phase is %s'\
             .format([has(self.status.phase) ? self.status.phase : 'not known yet'])",
        ),
        optional_old_self: true,
    },
    Rule {
        at: "",
        expression: unless_unchanged!(
            "abort",
            "has(self.status.rollout) && has(self.status.stage) && \
             self.status.abort.rollout == self.status.rollout && \
             has(self.status.phase) && \
             self.status.phase in ['Progressing', 'AwaitingApproval', 'Paused', 'Stalled', 'RollingBack']"
        ),
        message: "nothing can be aborted now: no rollout is under way",
        message_expression: Some(
            "has(self.status.rollout) && has(self.status.stage) && has(self.status.phase) && \
             self.status.phase in ['Progressing', 'AwaitingApproval', 'Paused', 'Stalled', 'RollingBack'] \
             ? 'status.abort must name the rollout under way: rollout: %d'.format([self.status.rollout]) \
             : 'nothing can be aborted now: the phase is %s; to go back, set the earlier template again (kubectl gray undo)'\
             .format([has(self.status.phase) ? self.status.phase : 'not known yet'])",
        ),
        optional_old_self: true,
    },
    Rule {
        at: "",
        expression: unless_unchanged!(
            "retry",
            "has(self.status.rollout) && self.status.retry.rollout == self.status.rollout && \
             has(self.status.phase) && self.status.phase in ['Stalled', 'RollingBack', 'RolledBack']"
        ),
        message: "nothing can be retried now: no rollout was aborted or failed",
        message_expression: Some(
            "has(self.status.rollout) && has(self.status.phase) && \
             self.status.phase in ['Stalled', 'RollingBack', 'RolledBack'] \
             ? 'status.retry must name the rollout that was aborted or failed: rollout: %d'.format([self.status.rollout]) \
             : 'only an aborted or failed rollout can be retried: the phase is %s'\
             .format([has(self.status.phase) ? self.status.phase : 'not known yet'])",
        ),
        optional_old_self: true,
    },
];
