//! Counts given as a number of pods or as a percentage, as in a Deployment's strategy.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// A number of pods (`2`) or a share of `spec.replicas` (`"25%"`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum IntOrPercent {
    /// A number of pods, 0 or more.
    Count(i32),
    /// A percentage such as `"25%"`.
    Percent(String),
}

impl IntOrPercent {
    /// Resolves to a number of pods out of `replicas`, rounding a percentage up.
    ///
    /// `None` where the text is no percentage or the number is negative.
    #[must_use]
    pub fn round_up(&self, replicas: i32) -> Option<i32> {
        self.resolve(replicas, 99)
    }

    /// Resolves to a number of pods out of `replicas`, rounding a percentage down.
    ///
    /// `None` where the text is no percentage or the number is negative.
    #[must_use]
    pub fn round_down(&self, replicas: i32) -> Option<i32> {
        self.resolve(replicas, 0)
    }

    fn resolve(&self, replicas: i32, add: i64) -> Option<i32> {
        let count = match self {
            Self::Count(count) => i64::from(*count),
            Self::Percent(text) => {
                let percent = i64::from(text.strip_suffix('%')?.parse::<u32>().ok()?);
                percent.checked_mul(i64::from(replicas))?.checked_add(add)? / 100
            }
        };
        i32::try_from(count).ok().filter(|count| *count >= 0)
    }
}

impl From<i32> for IntOrPercent {
    fn from(count: i32) -> Self {
        Self::Count(count)
    }
}

impl std::fmt::Display for IntOrPercent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Count(count) => write!(f, "{count}"),
            Self::Percent(text) => f.write_str(text),
        }
    }
}

impl JsonSchema for IntOrPercent {
    fn schema_name() -> Cow<'static, str> {
        "IntOrPercent".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "x-kubernetes-int-or-string": true })
    }

    fn inline_schema() -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_round_as_the_deployment_controller_does() {
        let quarter = IntOrPercent::Percent("25%".into());
        assert_eq!(quarter.round_up(10), Some(3));
        assert_eq!(quarter.round_down(10), Some(2));
        assert_eq!(quarter.round_up(0), Some(0));
        assert_eq!(IntOrPercent::Count(4).round_up(10), Some(4));
    }

    #[test]
    fn what_is_no_share_resolves_to_nothing() {
        for bad in ["", "25", "x%", "-5%", "99999999999999999999%"] {
            assert_eq!(IntOrPercent::Percent(bad.into()).round_up(10), None, "{bad}");
        }
        assert_eq!(IntOrPercent::Count(-1).round_up(10), None);
    }
}
