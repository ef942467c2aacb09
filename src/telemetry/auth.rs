//! Who may read the metrics: the API server tells whose a token is, and what they may.

use std::sync::Arc;

use axum::http::{HeaderMap, HeaderValue, Request, StatusCode, header};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::cluster::calls::{CallError, Calls};

/// How many readers are asked about at once; a flood of strangers must not become one of requests
/// to the API server.
const AT_ONCE: usize = 2;
/// A token is longer than this only in an attack.
const MAX_TOKEN: usize = 16 * 1024;

/// Asks the API server about everyone who wants to read. Nothing is remembered, so a right that is
/// taken away is gone at once.
#[derive(Clone)]
pub struct MetricsAuth {
    calls: Calls,
    at_once: Arc<Semaphore>,
}

/// Why someone may not read.
#[derive(Debug, PartialEq, Eq)]
pub struct Denied {
    /// 401, 403, or 503 where the API server could not be asked.
    pub code: StatusCode,
    /// What to do about it.
    pub message: String,
}

impl Denied {
    fn new(code: StatusCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

#[derive(Deserialize)]
struct Review<S> {
    status: S,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Authenticated {
    authenticated: bool,
    user: Value,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Authorized {
    allowed: bool,
}

impl MetricsAuth {
    /// Asks by these calls; the operator needs the ClusterRole grayrollout-metrics-auth for it.
    #[must_use]
    pub fn new(calls: Calls) -> Self {
        Self { calls, at_once: Arc::new(Semaphore::new(AT_ONCE)) }
    }

    /// Whether whoever sent these headers may get /metrics.
    ///
    /// # Errors
    ///
    /// Fails where not, or where that cannot be told.
    pub async fn check(&self, headers: &HeaderMap) -> Result<(), Denied> {
        let token = bearer(headers)?;
        let Ok(_permit) = self.at_once.try_acquire() else {
            let busy = "too many readers at once; try again";
            return Err(Denied::new(StatusCode::TOO_MANY_REQUESTS, busy));
        };
        let review = json!({
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "metadata": {},
            "spec": {"token": token},
        });
        let known: Authenticated = self.ask("tokenreviews", &review).await?;
        if !known.authenticated {
            let unknown = "the API server does not know this token";
            return Err(Denied::new(StatusCode::UNAUTHORIZED, unknown));
        }
        let review = access_review(&known.user);
        let access: Authorized = self.ask("subjectaccessreviews", &review).await?;
        if access.allowed {
            return Ok(());
        }
        let user = known.user.get("username").and_then(Value::as_str).unwrap_or_default();
        Err(Denied::new(
            StatusCode::FORBIDDEN,
            format!(
                "{user} may not get /metrics: bind it to the ClusterRole grayrollout-metrics-reader"
            ),
        ))
    }

    async fn ask<S: DeserializeOwned>(
        &self,
        resource: &'static str,
        review: &Value,
    ) -> Result<S, Denied> {
        let group = review.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
        let request = Request::post(format!("/apis/{group}/{resource}"))
            .header(header::CONTENT_TYPE, "application/json")
            .body(review.to_string().into_bytes())
            .map_err(|error| unanswered(resource, &error.to_string()))?;
        let answer: Result<Review<S>, CallError> = self.calls.read(request).await;
        answer.map(|review| review.status).map_err(|error| unanswered(resource, &error.to_string()))
    }
}

/// What the API server is asked about a user that it told of.
fn access_review(user: &Value) -> Value {
    let of = |field: &str| user.get(field).cloned().unwrap_or(Value::Null);
    json!({
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "metadata": {},
        "spec": {
            "user": of("username"),
            "uid": of("uid"),
            "groups": of("groups"),
            "extra": of("extra"),
            "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
        },
    })
}

fn unanswered(resource: &str, error: &str) -> Denied {
    Denied::new(
        StatusCode::SERVICE_UNAVAILABLE,
        format!(
            "the API server cannot be asked ({resource}: {error}); the operator needs the \
             ClusterRole grayrollout-metrics-auth"
        ),
    )
}

/// The token of the header Authorization.
fn bearer(headers: &HeaderMap) -> Result<&str, Denied> {
    let scheme_and_token =
        headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()?.split_once(' '));
    match scheme_and_token {
        Some((scheme, token))
            if scheme.eq_ignore_ascii_case("bearer")
                && !token.trim().is_empty()
                && token.len() <= MAX_TOKEN =>
        {
            Ok(token.trim())
        }
        _ => Err(Denied::new(
            StatusCode::UNAUTHORIZED,
            "send the token of a ServiceAccount or user: Authorization: Bearer TOKEN",
        )),
    }
}

/// What a refusal for want of a token names as the way in.
pub fn challenge() -> HeaderValue {
    HeaderValue::from_static("Bearer realm=\"grayrollout\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(authorization: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::AUTHORIZATION, HeaderValue::from_str(authorization).unwrap());
        headers
    }

    #[test]
    fn only_bearer_tokens_are_taken() {
        assert_eq!(bearer(&headers("Bearer abc")), Ok("abc"));
        assert_eq!(bearer(&headers("bearer  abc ")), Ok("abc"));
        let long = format!("Bearer {}", "x".repeat(MAX_TOKEN + 1));
        for bad in ["Basic abc", "Bearer ", "Bearer", "abc", "", &long] {
            let denied = bearer(&headers(bad)).unwrap_err();
            assert_eq!(denied.code, StatusCode::UNAUTHORIZED, "{bad}");
        }
        assert!(bearer(&HeaderMap::new()).is_err());
    }

    #[test]
    fn the_api_server_is_asked_about_all_that_it_told_of_the_user() {
        let user = json!({"username": "p", "uid": "1", "groups": ["g"], "extra": {"k": ["v"]}});
        let spec = &access_review(&user)["spec"];
        assert_eq!(spec["user"], "p");
        assert_eq!(spec["groups"], json!(["g"]));
        assert_eq!(spec["extra"], json!({"k": ["v"]}));
        assert_eq!(spec["nonResourceAttributes"], json!({"path": "/metrics", "verb": "get"}));
    }
}
