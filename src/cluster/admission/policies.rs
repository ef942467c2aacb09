//! Which of the admission policies are installed, and what is wrong with them.

use std::collections::BTreeMap;

/// The version of the policies that this operator knows, as their label says it. It grows when
/// their meaning changes.
const VERSION: &str = "v1";
/// The policy by which a new template lands paused.
const HOLD: &str = "grayrollout-hold";
/// The policies to install, by the kind that they are of.
const MUTATING: [&str; 3] = [HOLD, "grayrollout-guard", "grayrollout-stamp"];
const VALIDATING: [&str; 2] = ["grayrollout-approve", "grayrollout-stages"];
/// The same where the API server knows no mutating ones.
const VALIDATING_ONLY: [&str; 3] =
    ["grayrollout-approve", "grayrollout-guard", "grayrollout-stages"];

/// Whether an object of this name is one of them.
#[must_use]
pub fn is_known(name: &str) -> bool {
    [&MUTATING[..], &VALIDATING, &VALIDATING_ONLY].iter().any(|names| names.contains(&name))
}

/// The kinds of objects that policies are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PolicyKind {
    /// MutatingAdmissionPolicy
    Mutating,
    /// MutatingAdmissionPolicyBinding
    MutatingBinding,
    /// ValidatingAdmissionPolicy
    Validating,
    /// ValidatingAdmissionPolicyBinding
    ValidatingBinding,
}

impl PolicyKind {
    /// Every kind.
    pub const ALL: [Self; 4] =
        [Self::Mutating, Self::MutatingBinding, Self::Validating, Self::ValidatingBinding];
}

/// What is known of the objects of one kind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Listing {
    /// Nothing yet.
    #[default]
    Unknown,
    /// The API server does not have this kind.
    Unsupported,
    /// They cannot be seen; why.
    Hidden(String),
    /// They were seen.
    Seen(BTreeMap<String, PolicyObject>),
}

/// What is kept of one object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PolicyObject {
    /// What tells one state of it from another: its UID and generation.
    pub state: (String, i64),
    /// The version that its label says.
    pub version: Option<String>,
}

/// Every object of the policies that was seen.
#[derive(Debug, Clone, Default)]
pub struct Policies(BTreeMap<PolicyKind, Listing>);

/// Whether a new template can be held by admission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Not known yet.
    Unknown,
    /// Not here; why.
    Absent(String),
    /// It looks so, and is to be tried.
    Installed {
        /// What is wrong beside that.
        flaw: Option<String>,
    },
}

impl Policies {
    /// Changes what is known of a kind; whether that is news.
    pub fn change(&mut self, kind: PolicyKind, change: impl FnOnce(&mut Listing)) -> bool {
        let listing = self.0.entry(kind).or_default();
        let before = listing.clone();
        change(listing);
        *listing != before
    }

    fn of(&self, kind: PolicyKind) -> &Listing {
        self.0.get(&kind).unwrap_or(&Listing::Unknown)
    }

    /// What can be said from the policies alone.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        let kinds = PolicyKind::ALL.map(|kind| self.of(kind));
        if kinds.contains(&&Listing::Unknown) {
            return Verdict::Unknown;
        }
        if let Some(Listing::Hidden(why)) = kinds.iter().find(|k| matches!(k, Listing::Hidden(_))) {
            return Verdict::Absent(format!("the admission policies cannot be seen: {why}"));
        }
        if self.has_no_mutating() {
            let mut why = "the API server has no MutatingAdmissionPolicy, which Kubernetes has \
                           since 1.36"
                .to_owned();
            for flaw in self.flaws(&VALIDATING_ONLY, PolicyKind::Validating) {
                why.push_str("; ");
                why.push_str(&flaw);
            }
            return Verdict::Absent(why);
        }
        let hold = self.flaws(&[HOLD], PolicyKind::Mutating);
        let mut flaws = self.flaws(&MUTATING, PolicyKind::Mutating);
        flaws.extend(self.flaws(&VALIDATING, PolicyKind::Validating));
        let text = flaws.join(", ");
        if hold.is_empty() {
            return Verdict::Installed { flaw: (!flaws.is_empty()).then_some(text) };
        }
        Verdict::Absent(if self.is_empty() {
            "the admission policies are not installed".to_owned()
        } else {
            text
        })
    }

    fn has_no_mutating(&self) -> bool {
        [PolicyKind::Mutating, PolicyKind::MutatingBinding]
            .iter()
            .any(|kind| *self.of(*kind) == Listing::Unsupported)
    }

    fn is_empty(&self) -> bool {
        PolicyKind::ALL.iter().all(|kind| match self.of(*kind) {
            Listing::Seen(objects) => objects.is_empty(),
            _ => true,
        })
    }

    /// What is wrong with each of these policies.
    fn flaws(&self, names: &[&str], kind: PolicyKind) -> Vec<String> {
        let binding = match kind {
            PolicyKind::Mutating => PolicyKind::MutatingBinding,
            _ => PolicyKind::ValidatingBinding,
        };
        let find = |kind, name: &str| match self.of(kind) {
            Listing::Seen(objects) => objects.get(name),
            _ => None,
        };
        let flaw = |name: &&str| {
            let Some(policy) = find(kind, name) else {
                return Some(format!("the policy {name} is not installed"));
            };
            let Some(bound) = find(binding, name) else {
                return Some(format!("the policy {name} is not bound"));
            };
            let version = [policy, bound]
                .map(|object| object.version.as_deref().unwrap_or("unknown"))
                .into_iter()
                .find(|version| *version != VERSION)?;
            Some(format!(
                "the policy {name} is of version {version}, and this operator knows {VERSION}"
            ))
        };
        names.iter().filter_map(flaw).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn installed() -> Policies {
        let mut policies = Policies::default();
        let object = PolicyObject { state: ("u".into(), 1), version: Some(VERSION.into()) };
        let seen = |names: &[&str]| {
            Listing::Seen(names.iter().map(|n| ((*n).to_owned(), object.clone())).collect())
        };
        for kind in PolicyKind::ALL {
            let names: &[&str] = match kind {
                PolicyKind::Mutating | PolicyKind::MutatingBinding => &MUTATING,
                _ => &VALIDATING,
            };
            assert!(policies.change(kind, |listing| *listing = seen(names)));
        }
        policies
    }

    fn without(kind: PolicyKind, name: &str) -> Verdict {
        let mut policies = installed();
        policies.change(kind, |listing| {
            if let Listing::Seen(objects) = listing {
                objects.remove(name).expect("it is there");
            }
        });
        policies.verdict()
    }

    fn absent(verdict: Verdict) -> String {
        match verdict {
            Verdict::Absent(why) => why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn all_installed_is_to_be_tried() {
        assert_eq!(installed().verdict(), Verdict::Installed { flaw: None });
    }

    #[test]
    fn nothing_is_said_before_every_kind_was_listed() {
        let mut policies = installed();
        policies.change(PolicyKind::ValidatingBinding, |listing| *listing = Listing::Unknown);
        assert_eq!(policies.verdict(), Verdict::Unknown);
    }

    #[test]
    fn half_installed_names_what_is_missing() {
        let why = absent(without(PolicyKind::Mutating, HOLD));
        assert_eq!(why, "the policy grayrollout-hold is not installed");
        let why = absent(without(PolicyKind::MutatingBinding, HOLD));
        assert_eq!(why, "the policy grayrollout-hold is not bound");
        let flaw = Some("the policy grayrollout-approve is not bound".to_owned());
        let verdict = without(PolicyKind::ValidatingBinding, "grayrollout-approve");
        assert_eq!(verdict, Verdict::Installed { flaw });
    }

    #[test]
    fn nothing_installed_is_said_in_short() {
        let mut policies = Policies::default();
        for kind in PolicyKind::ALL {
            policies.change(kind, |listing| *listing = Listing::Seen(BTreeMap::new()));
        }
        assert_eq!(absent(policies.verdict()), "the admission policies are not installed");
    }

    #[test]
    fn another_version_is_not_trusted() {
        let mut policies = installed();
        policies.change(PolicyKind::Mutating, |listing| {
            if let Listing::Seen(objects) = listing {
                objects.get_mut(HOLD).expect("it is there").version = Some("v2".into());
            }
        });
        let why = absent(policies.verdict());
        assert!(why.contains("grayrollout-hold is of version v2"), "{why}");
    }

    #[test]
    fn an_older_api_server_needs_the_validating_ones() {
        let mut policies = installed();
        policies.change(PolicyKind::Mutating, |listing| *listing = Listing::Unsupported);
        let why = absent(policies.verdict());
        assert!(why.contains("since 1.36"), "{why}");
        assert!(why.ends_with("the policy grayrollout-guard is not installed"), "{why}");
    }

    #[test]
    fn what_may_not_be_seen_is_said() {
        let mut policies = installed();
        policies.change(PolicyKind::Mutating, |l| *l = Listing::Hidden("forbidden".into()));
        assert!(absent(policies.verdict()).contains("cannot be seen: forbidden"));
    }
}
