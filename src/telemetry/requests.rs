//! Counts and bounds the requests to the API server, as a layer of the client.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use http::{Method, Request, Response};
use tower::{BoxError, Layer, Service};

use super::Metrics;

/// For how long the API server may take to begin its answer. It bounds the lists and watches too,
/// which nothing else does.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// Wraps the client's stack.
#[derive(Clone)]
pub struct RequestsLayer(pub Arc<Metrics>);

impl<S> Layer<S> for RequestsLayer {
    type Service = Requests<S>;

    fn layer(&self, inner: S) -> Requests<S> {
        Requests { inner, metrics: self.0.clone() }
    }
}

/// The client's stack with counting.
pub struct Requests<S> {
    inner: S,
    metrics: Arc<Metrics>,
}

impl<S, A, B> Service<Request<A>> for Requests<S>
where
    S: Service<Request<A>, Response = Response<B>>,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    B: 'static,
{
    type Response = Response<B>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<B>, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Request<A>) -> Self::Future {
        let metrics = self.metrics.clone();
        let (verb, resource) = classify(&request);
        let answer = self.inner.call(request);
        Box::pin(async move {
            let began = Instant::now();
            let result = match tokio::time::timeout(ANSWER_TIMEOUT, answer).await {
                Ok(result) => result.map_err(Into::into),
                Err(elapsed) => Err(elapsed.into()),
            };
            let code = match &result {
                Ok(response) => response.status().as_u16().to_string(),
                Err(_) => "none".to_owned(),
            };
            let labels = [verb, &resource, &code];
            metrics.requests.with_label_values(&labels).inc();
            metrics
                .request_duration
                .with_label_values(&[verb, &resource])
                .observe(began.elapsed().as_secs_f64());
            result
        })
    }
}

/// The verb and the resource of a request, as RBAC names them.
fn classify<A>(request: &Request<A>) -> (&'static str, String) {
    let mut parts = request.uri().path().split('/').filter(|p| !p.is_empty());
    // api/v1 or apis/GROUP/VERSION come before the resource.
    let skipped = if parts.next() == Some("apis") { 2 } else { 1 };
    let mut parts = parts.skip(skipped).peekable();
    let mut resource = parts.next().unwrap_or("none");
    if resource == "namespaces" {
        // The namespace's name, and what is in it.
        parts.next();
        resource = parts.next().unwrap_or(resource);
    }
    let named = parts.next().is_some();
    let resource = match parts.next() {
        Some(subresource) => format!("{resource}/{subresource}"),
        None => resource.to_owned(),
    };
    let query = request.uri().query().unwrap_or_default();
    let watches = query.split('&').any(|part| part == "watch=true");
    let verb = match *request.method() {
        Method::GET if named => "get",
        Method::GET if watches => "watch",
        Method::GET => "list",
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        _ => "other",
    };
    (verb, resource)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(method: Method, uri: &str) -> (&'static str, String) {
        let request = Request::builder().method(method).uri(uri).body(());
        classify(&request.unwrap())
    }

    #[test]
    fn requests_are_named_as_rbac_names_them() {
        let cases = [
            (Method::GET, "/apis/apps/v1/deployments?&limit=500", "list", "deployments"),
            (
                Method::GET,
                "https://host:6443/apis/apps/v1/namespaces/shop/replicasets?&watch=true&resourceVersion=1",
                "watch",
                "replicasets",
            ),
            (Method::GET, "/apis/apps/v1/namespaces/shop/deployments/web", "get", "deployments"),
            (
                Method::PATCH,
                "/apis/apps/v1/namespaces/shop/replicasets/web-1",
                "patch",
                "replicasets",
            ),
            (
                Method::PATCH,
                "/apis/grayrollout.dev/v1alpha1/namespaces/shop/grayrollouts/web/status?",
                "patch",
                "grayrollouts/status",
            ),
            (Method::POST, "/api/v1/namespaces/shop/pods?", "create", "pods"),
            (Method::GET, "/version", "list", "none"),
        ];
        for (method, uri, verb, resource) in cases {
            assert_eq!(of(method, uri), (verb, resource.to_owned()), "{uri}");
        }
    }
}
