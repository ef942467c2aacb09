//! The variables of queries and URLs, escaped for where they stand.

use std::fmt::Write;

use super::{Rollout, Target};
use crate::api::GrayRolloutStatus;

/// The values of the variables.
pub struct Variables<'a> {
    rollout: &'a Rollout,
    target: &'a Target,
    status: &'a GrayRolloutStatus,
    stage: String,
    percent: String,
}

impl<'a> Variables<'a> {
    /// The values at a stage.
    pub fn new(
        rollout: &'a Rollout,
        target: &'a Target,
        status: &'a GrayRolloutStatus,
        (stage, percent): (i32, i32),
    ) -> Self {
        let (stage, percent) = (stage.to_string(), percent.to_string());
        Self { rollout, target, status, stage, percent }
    }

    fn value(&self, name: &str) -> Option<&str> {
        Some(match name {
            "namespace" => &self.rollout.namespace,
            "name" => &self.rollout.name,
            "deployment" => &self.target.name,
            "updateRevision" => self.status.update_revision.as_deref().unwrap_or_default(),
            "stableRevision" => self.status.stable_revision.as_deref().unwrap_or_default(),
            "stage" => &self.stage,
            "percent" => &self.percent,
            _ => return None,
        })
    }

    /// A URL with its variables filled in.
    pub fn in_url(&self, url: &str) -> String {
        self.fill(url, percent_encoded)
    }

    /// A query in PromQL with its variables filled in.
    pub fn in_query(&self, query: &str) -> String {
        self.fill(query, quoted)
    }

    /// What looks like a variable and is none stays as it is: the API server refuses it.
    fn fill(&self, text: &str, escape: fn(&str) -> String) -> String {
        let mut filled = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("${") {
            filled.push_str(before);
            let known = after.split_once('}');
            if let Some((value, tail)) = known.and_then(|(name, t)| Some((self.value(name)?, t))) {
                filled.push_str(&escape(value));
                rest = tail;
            } else {
                filled.push_str("${");
                rest = after;
            }
        }
        filled.push_str(rest);
        filled
    }
}

/// As one part of a URL.
#[must_use]
pub fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            encoded.push(char::from(byte));
        } else {
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

/// Inside of quotes, double or single.
fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' | '"' | '\'' => quoted.extend(['\\', c]),
            '\n' => quoted.push_str("\\n"),
            c => quoted.push(c),
        }
    }
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_end_a_string_or_a_path_is_escaped() {
        assert_eq!(percent_encoded("a/b?c#d e"), "a%2Fb%3Fc%23d%20e");
        assert_eq!(percent_encoded("web-1.x_y~z"), "web-1.x_y~z");
        assert_eq!(quoted("a\"b\\c'd\ne"), "a\\\"b\\\\c\\'d\\ne");
    }
}
