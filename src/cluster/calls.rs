//! Requests to the API server: bounded in time, and with errors that say what to do next.

use std::time::Duration;

use http::{Request, Response, StatusCode, header::RETRY_AFTER};
use kube::{
    Client, Config,
    client::{Body, ClientBuilder},
    core::{Status, request, response::reason},
};
use serde::de::DeserializeOwned;
use thiserror::Error;
use tokio::time::timeout;

use super::leadership::Leadership;
use crate::telemetry::RequestsLayer;

/// Longest time of one request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest time to reach the API server.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest silence on a connection. It is above the watches' own timeout of 200 s, and bounds a
/// list that stops in the middle.
const READ_TIMEOUT: Duration = Duration::from_secs(230);

/// Why a request came to nothing.
#[derive(Debug, Error)]
pub enum CallError {
    /// The object is no longer as it was planned for.
    #[error("{0}")]
    Conflict(String),
    /// There is no such object.
    #[error("{0}")]
    NotFound(String),
    /// There is one of that name already.
    #[error("{0}")]
    AlreadyExists(String),
    /// The API server asks to wait.
    #[error("{message}; the API server asks to wait {} s", after.as_secs())]
    Throttled {
        /// For how long.
        after: Duration,
        /// What it said.
        message: String,
    },
    /// The API server does not want it: no right to it, a quota, a policy, or not valid.
    #[error("{message}")]
    Refused {
        /// The HTTP status.
        code: u16,
        /// What it said.
        message: String,
    },
    /// The API server failed.
    #[error("the API server failed with {code}: {message}")]
    Server {
        /// The HTTP status.
        code: u16,
        /// What it said.
        message: String,
    },
    /// No answer in time.
    #[error("no answer from the API server within {} s", .0.as_secs_f32())]
    Timeout(Duration),
    /// The API server could not be reached, or its answer not be read.
    #[error("{0}")]
    Transport(String),
    /// The lease may be another's by now, so nothing is written.
    #[error("not written: this process does not lead any more")]
    NotLeading,
}

impl CallError {
    /// The kind of error in one word, for metrics.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Conflict(_) => "Conflict",
            Self::NotFound(_) => "NotFound",
            Self::AlreadyExists(_) => "AlreadyExists",
            Self::Throttled { .. } => "Throttled",
            Self::Refused { code: 403, .. } => "Forbidden",
            Self::Refused { .. } => "Invalid",
            Self::Server { .. } => "ServerError",
            Self::Timeout(_) => "Timeout",
            Self::Transport(_) => "Transport",
            Self::NotLeading => "NotLeading",
        }
    }
}

impl From<request::Error> for CallError {
    fn from(error: request::Error) -> Self {
        Self::Refused { code: 0, message: error.to_string() }
    }
}

/// Connects to the cluster that KUBECONFIG names, or to the one this process runs in.
///
/// # Errors
///
/// Fails where neither is there, or cannot be used.
pub async fn connect(layer: &RequestsLayer) -> Result<Client, String> {
    let mut config = Config::infer().await.map_err(|error| {
        format!("no cluster: {error}; set KUBECONFIG, or run inside of a cluster")
    })?;
    // Its own retry can hold a request back for minutes.
    config.default_retry = false;
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    config.read_timeout = Some(READ_TIMEOUT);
    config.reset_reader_on_write = true;
    let builder = ClientBuilder::try_from(config).map_err(|error| error.to_string())?;
    Ok(builder.with_layer(layer).build())
}

/// Sends requests.
#[derive(Clone)]
pub struct Calls {
    client: Client,
    leadership: Leadership,
}

impl Calls {
    /// Writes go out only while `leadership` lasts.
    #[must_use]
    pub fn new(client: Client, leadership: Leadership) -> Self {
        Self { client, leadership }
    }

    /// Reads.
    ///
    /// # Errors
    ///
    /// See [`CallError`].
    pub async fn read<T: DeserializeOwned>(
        &self,
        request: Request<Vec<u8>>,
    ) -> Result<T, CallError> {
        self.send(request, REQUEST_TIMEOUT).await
    }

    /// Writes, if this process leads, and for no longer than it surely does.
    ///
    /// # Errors
    ///
    /// See [`CallError`].
    pub async fn write<T: DeserializeOwned>(
        &self,
        request: Request<Vec<u8>>,
    ) -> Result<T, CallError> {
        let lasts = self.leadership.lasts().ok_or(CallError::NotLeading)?;
        self.send(request, REQUEST_TIMEOUT.min(lasts)).await
    }

    async fn send<T: DeserializeOwned>(
        &self,
        request: Request<Vec<u8>>,
        limit: Duration,
    ) -> Result<T, CallError> {
        let exchange = async {
            let answer = self.client.send(request.map(Body::from)).await;
            let (parts, body) = answer.map_err(|e| transport(&e))?.into_parts();
            let bytes = body.collect_bytes().await.map_err(|e| transport(&e))?;
            if parts.status.is_success() {
                return serde_json::from_slice(&bytes).map_err(|error| {
                    CallError::Transport(format!("the answer cannot be read: {error}"))
                });
            }
            Err(failure(&Response::from_parts(parts, &bytes)))
        };
        timeout(limit, exchange).await.unwrap_or(Err(CallError::Timeout(limit)))
    }
}

fn transport(error: &kube::Error) -> CallError {
    CallError::Transport(format!("the API server cannot be reached: {error}"))
}

/// What an answer that is no success means.
fn failure(answer: &Response<impl AsRef<[u8]>>) -> CallError {
    let status: Status = serde_json::from_slice(answer.body().as_ref()).unwrap_or_else(|_| {
        let text = String::from_utf8_lossy(answer.body().as_ref());
        Status::failure(text.trim(), "")
    });
    let message = status.message.clone();
    let code = answer.status();
    let after = answer
        .headers()
        .get(RETRY_AFTER)
        .and_then(|value| value.to_str().ok()?.parse().ok())
        .map(Duration::from_secs);
    match code {
        StatusCode::CONFLICT if status.is_already_exists() => CallError::AlreadyExists(message),
        StatusCode::CONFLICT => CallError::Conflict(message),
        StatusCode::NOT_FOUND if names_an_object(&status) => CallError::NotFound(message),
        StatusCode::NOT_FOUND => CallError::Server { code: code.as_u16(), message },
        StatusCode::TOO_MANY_REQUESTS => {
            CallError::Throttled { after: after.unwrap_or(Duration::from_secs(1)), message }
        }
        _ if code.is_client_error() => CallError::Refused { code: code.as_u16(), message },
        _ => match after {
            Some(after) => CallError::Throttled { after, message },
            None => CallError::Server { code: code.as_u16(), message },
        },
    }
}

/// Whether a 404 is about an object. A server that does not know the resource yet, or whatever
/// stands before it, answers 404 as well.
fn names_an_object(status: &Status) -> bool {
    let named = status.details.as_ref().is_some_and(|details| !details.name.is_empty());
    named && status.reason == reason::NOT_FOUND
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(code: u16, retry_after: Option<&str>, body: &str) -> CallError {
        let mut builder = Response::builder().status(code);
        if let Some(after) = retry_after {
            builder = builder.header(RETRY_AFTER, after);
        }
        failure(&builder.body(body.as_bytes().to_vec()).unwrap())
    }

    #[test]
    fn conflicts_and_taken_names_are_told_apart() {
        let taken = answer(409, None, r#"{"reason":"AlreadyExists","message":"taken"}"#);
        assert!(matches!(taken, CallError::AlreadyExists(_)), "{taken:?}");
        let stale = answer(409, None, r#"{"reason":"Conflict","message":"stale"}"#);
        assert!(matches!(stale, CallError::Conflict(_)), "{stale:?}");
    }

    #[test]
    fn only_a_404_that_names_it_says_that_an_object_is_gone() {
        let gone = r#"{"reason":"NotFound","message":"gone","details":{"name":"web"}}"#;
        assert!(matches!(answer(404, None, gone), CallError::NotFound(_)));
        for unknown in [
            "404 page not found",
            "",
            r#"{"reason":"NotFound","message":"the server could not find the requested resource"}"#,
            r#"{"reason":"NotFound","message":"no such kind","details":{"kind":"grayrollouts"}}"#,
            r#"{"reason":"Expired","message":"odd","details":{"name":"web"}}"#,
        ] {
            let error = answer(404, None, unknown);
            assert!(matches!(error, CallError::Server { code: 404, .. }), "{unknown}: {error:?}");
        }
    }

    #[test]
    fn the_server_says_how_long_to_wait() {
        let busy = answer(429, Some("7"), "Too many requests, please try again later.");
        let CallError::Throttled { after, message } = busy else {
            panic!("{busy:?}");
        };
        assert_eq!(after, Duration::from_secs(7));
        assert!(message.starts_with("Too many requests"));
        let starting = answer(503, Some("2"), "");
        assert!(matches!(starting, CallError::Throttled { after, .. } if after.as_secs() == 2));
    }

    #[test]
    fn odd_answers_are_errors_all_the_same() {
        let odd = answer(500, Some("soon"), "\u{0}<html>");
        assert!(matches!(odd, CallError::Server { code: 500, .. }), "{odd:?}");
        let refused = answer(403, None, r#"{"message":"exceeded quota"}"#);
        assert_eq!(refused.to_string(), "exceeded quota");
        assert_eq!(refused.reason(), "Forbidden");
    }
}
