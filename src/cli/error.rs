//! Failures as people read them, and the exit codes that scripts read.

use kube::core::Status;

/// Why a command did not do what it was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// It failed: exit code 1.
    Error(String),
    /// It was called in a way that makes no sense: exit code 2.
    Usage(String),
    /// What was waited for cannot happen any more: exit code 3.
    Impossible(String),
    /// It took too long: exit code 4.
    Timeout(String),
}

impl Failure {
    /// The exit code.
    #[must_use]
    pub fn code(&self) -> u8 {
        match self {
            Self::Error(_) => 1,
            Self::Usage(_) => 2,
            Self::Impossible(_) => 3,
            Self::Timeout(_) => 4,
        }
    }

    /// What to print.
    #[must_use]
    pub fn message(&self) -> &str {
        let (Self::Error(text) | Self::Usage(text) | Self::Impossible(text) | Self::Timeout(text)) =
            self;
        text
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::Error(format!("cannot read or print: {error}"))
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        Self::Error(format!("cannot read what the API server sent: {error}"))
    }
}

/// One request, in the words that rights are given in.
#[derive(Debug, Clone)]
pub struct Request {
    /// The verb, e.g. `patch`.
    pub verb: &'static str,
    /// The resource with its group and subresource, e.g. `grayrollouts.grayrollout.dev/status`.
    pub resource: &'static str,
    /// The namespace; `None` across all of them or where there is none.
    pub namespace: Option<String>,
    /// The name; `None` of a list.
    pub name: Option<String>,
}

impl Request {
    /// What a failed request means, and what to do about it.
    #[must_use]
    pub fn failure(&self, error: kube::Error) -> Failure {
        Failure::Error(match error {
            kube::Error::Api(status) => self.refused(&status),
            kube::Error::Auth(error) => {
                format!("cannot log in to the cluster: {error}; check the user in the kubeconfig")
            }
            kube::Error::SerdeError(error) => format!(
                "cannot read the answer to {} {}: {error}; the plugin and what is installed may be of different versions",
                self.verb, self.resource
            ),
            other => format!(
                "cannot reach the cluster: {}; check that it is up, and --context and KUBECONFIG",
                chain(&other)
            ),
        })
    }

    /// A request that got no answer in time.
    #[must_use]
    pub fn no_answer(&self, seconds: u64) -> Failure {
        Failure::Error(format!(
            "no answer within {seconds} s to {} {}; check that the cluster is up, and --context and KUBECONFIG",
            self.verb, self.resource
        ))
    }

    fn refused(&self, status: &Status) -> String {
        match status.code {
            401 => {
                "the cluster does not know you: log in again, or check the user in the kubeconfig"
                    .into()
            }
            403 if is_missing_right(status) => self.missing_right(),
            404 => self.missing(status),
            409 => format!(
                "{}; someone else changed it at the same time: look at it and try again",
                said(status)
            ),
            _ => said(status),
        }
    }

    fn missing_right(&self) -> String {
        let (scope, flag) = match &self.namespace {
            Some(namespace) => (format!(" in namespace {namespace}"), format!(" -n {namespace}")),
            None => (" in all namespaces".into(), " -A".into()),
        };
        format!(
            "you lack the right to {} {}{scope}; ask for it, and check with: kubectl auth can-i {} {}{flag}",
            self.verb, self.resource, self.verb, self.resource
        )
    }

    fn missing(&self, status: &Status) -> String {
        let kind = status.details.as_ref().map_or("", |details| details.name.as_str());
        match &self.name {
            Some(name) if kind == name => {
                let place = self
                    .namespace
                    .as_ref()
                    .map_or_else(String::new, |ns| format!(" in namespace {ns}"));
                let list = match self.resource.split('.').next() {
                    Some("deployments") => "kubectl get deployments",
                    _ => "kubectl gray get",
                };
                format!(
                    "there is no {}/{name}{place}; see what there is with: {list} --all-namespaces",
                    self.resource.split('.').next().unwrap_or(self.resource)
                )
            }
            _ => format!(
                "the cluster does not know {}; install GrayRollout first: kubectl apply -k config/default",
                self.resource
            ),
        }
    }
}

/// An admission policy answers 403 too, and says why; RBAC names the resource it is about.
fn is_missing_right(status: &Status) -> bool {
    status.message.contains("cannot ") && status.message.contains(" resource ")
}

/// The API server's words without its preamble: the reasons alone where it gives them.
#[must_use]
pub fn said(status: &Status) -> String {
    let causes: Vec<_> = status
        .details
        .iter()
        .flat_map(|details| &details.causes)
        .map(|cause| cause.message.trim_start_matches("Invalid value: \"object\": ").to_owned())
        .filter(|message| !message.is_empty())
        .collect();
    if causes.is_empty() { status.message.clone() } else { causes.join("; ") }
}

/// An error with its causes, each of them once.
#[must_use]
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        next = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn patch() -> Request {
        Request {
            verb: "patch",
            resource: "grayrollouts.grayrollout.dev/status",
            namespace: Some("shop".into()),
            name: Some("web".into()),
        }
    }

    fn answer(code: u16, message: &str) -> kube::Error {
        kube::Error::Api(Box::new(Status { code, message: message.into(), ..Status::default() }))
    }

    #[test]
    fn a_missing_right_is_named_by_verb_and_resource() {
        let text = "grayrollouts.grayrollout.dev \"web\" is forbidden: User \"bob\" cannot patch resource \"grayrollouts/status\" in API group";
        let failure = patch().failure(answer(403, text));
        assert_eq!(failure.code(), 1);
        let said = failure.message();
        assert!(
            said.contains("right to patch grayrollouts.grayrollout.dev/status in namespace shop"),
            "{said}"
        );
        assert!(
            said.contains("kubectl auth can-i patch grayrollouts.grayrollout.dev/status -n shop"),
            "{said}"
        );
    }

    #[test]
    fn a_policy_that_refuses_is_heard() {
        let said = patch().failure(answer(403, "denied request: approving needs the verb approve"));
        assert_eq!(said.message(), "denied request: approving needs the verb approve");
    }

    #[test]
    fn the_reasons_come_without_preamble() {
        let cause = json!({"message": "Invalid value: \"object\": nothing can be approved now"});
        let details = serde_json::from_value(json!({ "causes": [cause] })).unwrap();
        let status = Status {
            code: 422,
            message: "GrayRollout \"web\" is invalid: ...".into(),
            details: Some(details),
            ..Status::default()
        };
        let said = patch().failure(kube::Error::Api(Box::new(status)));
        assert_eq!(said.message(), "nothing can be approved now");
    }

    #[test]
    fn a_kind_that_is_not_installed_is_told_from_an_object_that_is_not_there() {
        let said = patch().failure(answer(404, "404 page not found"));
        assert!(said.message().contains("kubectl apply -k config/default"), "{said:?}");
        let details = serde_json::from_value(json!({"name": "web"})).unwrap();
        let status = Status { code: 404, details: Some(details), ..Status::default() };
        let said = patch().failure(kube::Error::Api(Box::new(status)));
        assert!(said.message().contains("no grayrollouts/web in namespace shop"), "{said:?}");
    }
}
