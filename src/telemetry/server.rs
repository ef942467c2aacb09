//! The endpoints /metrics, /healthz and /readyz.

use std::{collections::BTreeSet, convert::Infallible, sync::Arc};

use axum::{
    Router,
    body::Body,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use futures::stream;
use tokio::net::TcpListener;

use super::{
    Health, Metrics, MetricsAuth,
    auth::{Denied, challenge},
    objects,
};
use crate::cluster::index::Index;

/// What the endpoints speak of.
#[derive(Clone)]
pub struct Status {
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// What is broken.
    pub health: Arc<Health>,
    /// What was seen.
    pub index: Arc<Index>,
    /// Who may read the metrics; anyone if there is none.
    pub auth: Option<MetricsAuth>,
}

/// Answers on the listener.
///
/// # Errors
///
/// Fails where the listener does.
pub async fn serve(listener: TcpListener, status: Status) -> std::io::Result<()> {
    let router = Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .with_state(status);
    axum::serve(listener, router).await
}

async fn metrics(State(status): State<Status>, headers: HeaderMap) -> Response {
    if let Some(auth) = &status.auth
        && let Err(denied) = auth.check(&headers).await
    {
        return denied.into_response();
    }
    let process = match status.metrics.encode() {
        Ok(text) => text,
        Err(error) => {
            return (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response();
        }
    };
    // After the text was made, so that their last counts are told once.
    let rollouts = status.index.rollouts();
    let live: BTreeSet<&str> = rollouts.iter().map(|key| &*key.namespace).collect();
    status.metrics.keep_namespaces(&live);
    let pieces = std::iter::once(process).chain(objects::pieces(status.index));
    let body = Body::from_stream(stream::iter(pieces.map(Ok::<_, Infallible>)));
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], body).into_response()
}

impl IntoResponse for Denied {
    fn into_response(self) -> Response {
        let mut response = (self.code, self.message + "\n").into_response();
        if self.code == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge());
        }
        response
    }
}

async fn healthz(State(status): State<Status>) -> (StatusCode, String) {
    let complaints = status.health.complaints();
    if complaints.is_empty() {
        (StatusCode::OK, "ok\n".to_owned())
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, complaints.join("\n") + "\n")
    }
}

async fn readyz(State(status): State<Status>) -> (StatusCode, &'static str) {
    if status.index.is_complete() {
        (StatusCode::OK, "ok\n")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "not every watch has listed yet\n")
    }
}
