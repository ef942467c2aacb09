//! What checks and hooks must look like, as CEL for the API server, and the same in the process.

#![allow(clippy::trivially_copy_pass_by_ref)] // garde passes its context by reference

use std::collections::BTreeSet;

use super::{Check, Hook, HookEvent};

/// The variables of queries and URLs.
pub const VARIABLES: [&str; 7] =
    ["namespace", "name", "deployment", "updateRevision", "stableRevision", "stage", "percent"];

/// A rule and what it tells.
type CelRule = (&'static str, &'static str);

pub(super) const IS_NAME: CelRule = (
    "self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",
    "a name is lower case letters, digits and hyphens, not at its ends",
);

pub(super) const IS_URL: CelRule = (
    "self.matches('^https?://[^/?#@\\\\s]+([/?][^#\\\\s]*)?$') && self.matches('^([^$]|[$]+([^${]|$)|[$]+[{](namespace|name|deployment|updateRevision|stableRevision|stage|percent)[}])*$')",
    "it must be a URL (http or https, no user, fragment or spaces) with no variables but ${namespace} ${name} ${deployment} ${updateRevision} ${stableRevision} ${stage} ${percent}",
);

pub(super) const KNOWS_VARIABLES: CelRule = (
    "self.matches('^([^$]|[$]+([^${]|$)|[$]+[{](namespace|name|deployment|updateRevision|stableRevision|stage|percent)[}])*$')",
    "an unknown variable; there are ${namespace} ${name} ${deployment} ${updateRevision} ${stableRevision} ${stage} ${percent}",
);

/// Lower case letters, digits and hyphens.
pub(super) fn is_name(name: &str, _: &()) -> garde::Result {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let good = name.starts_with(plain)
        && name.ends_with(plain)
        && name.chars().all(|c| plain(c) || c == '-');
    told(good, IS_NAME)
}

/// A URL with known variables.
pub(super) fn is_url(url: &str, context: &()) -> garde::Result {
    let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
    // As the regular expressions of the API server have it.
    let space = |c: char| matches!(c, ' ' | '\t' | '\n' | '\r' | '\u{c}');
    let good = rest.is_some_and(|rest| {
        let host = rest.split(['/', '?']).next().unwrap_or_default();
        !host.is_empty() && !host.contains('@') && !rest.contains(|c| c == '#' || space(c))
    });
    told(good && knows_variables(url, context).is_ok(), IS_URL)
}

/// Nothing like a variable that is none.
pub(super) fn knows_variables(text: &str, _: &()) -> garde::Result {
    let good = text.match_indices("${").all(|(at, _)| {
        let rest = text.get(at + 2..).unwrap_or_default();
        rest.split_once('}').is_some_and(|(name, _)| VARIABLES.contains(&name))
    });
    told(good, KNOWS_VARIABLES)
}

/// No event twice.
pub(super) fn are_different(events: &[HookEvent], _: &()) -> garde::Result {
    let distinct: BTreeSet<_> = events.iter().collect();
    told(distinct.len() == events.len(), ("", "each event can be named once"))
}

/// No name twice.
pub(super) fn names_differ(hooks: &[Hook], _: &()) -> garde::Result {
    let distinct: BTreeSet<_> = hooks.iter().map(|hook| &hook.name).collect();
    told(distinct.len() == hooks.len(), ("", "every name must be unique in its list"))
}

/// Checks of which each can be measured and can pass, at a stage that there is.
pub(super) fn checks_fit(stages: usize) -> impl Fn(&[Check], &()) -> garde::Result {
    move |checks, ()| {
        let distinct: BTreeSet<_> = checks.iter().map(|check| &check.name).collect();
        told(distinct.len() == checks.len(), ("", "every name must be unique in its list"))?;
        for check in checks {
            let from = usize::try_from(check.from_stage).unwrap_or(0);
            told(from <= stages, ("", "fromStage names a stage that does not exist"))?;
            let one = check.prometheus.is_some() != check.webhook.is_some();
            told(one, ("", "a check has either prometheus or webhook"))?;
            let Some(query) = &check.prometheus else { continue };
            let bounds = match (query.min, query.max) {
                (None, None) => false,
                (Some(min), Some(max)) => min <= max,
                _ => true,
            };
            told(bounds, ("", "prometheus needs min, max or both, min not above max"))?;
        }
        Ok(())
    }
}

fn told(good: bool, (_, why): CelRule) -> garde::Result {
    if good { Ok(()) } else { Err(garde::Error::new(why)) }
}
