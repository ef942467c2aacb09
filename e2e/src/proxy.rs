//! A proxy between the operator and the API server that can make things go wrong.

mod watches;

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use axum::{
    body::{Body, Bytes},
    extract::State,
    http::{HeaderName, Request, Response, StatusCode, header},
};
use futures::StreamExt;
use kube::Client;
use serde_json::{Value, json};
use tokio::{
    sync::{broadcast, watch},
    task::JoinHandle,
};

use crate::{Api, Test};

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Faults {
    /// Passed on.
    None,
    /// Answered with this status code, not passed on.
    Answer(u16),
    /// Answered with 429 and Retry-After in seconds.
    TooMany(u32),
    /// Passed on after a while.
    Late(Duration),
    /// A list is answered as it was when it was first asked for, as by a server that lags.
    FirstList,
    /// Passed on, but the answer is lost: the connection breaks.
    LoseAnswer,
    /// Neither passed on nor answered; [`Proxy::held`] tells.
    Hold,
    /// Passed on, but never answered; [`Proxy::held`] tells once it is committed.
    HoldAnswer,
    /// Passed on and answered; [`Proxy::held`] tells then.
    Tell,
    /// Not passed on: the connection breaks.
    Drop,
    /// Passed on, but only the first half of the answer comes.
    Truncate,
    /// A watch is told that the point to go on from is no longer there.
    Gone,
    /// Every event of a watch comes this much later.
    LateEvents(Duration),
    /// Of a watch, this many events in a row of four are lost.
    LoseEvents(u8),
    /// Every event of a watch comes twice.
    RepeatEvents,
}

type Rule = Box<dyn FnMut(&str, &str) -> Faults + Send>;

struct Shared {
    client: Client,
    rule: Mutex<Rule>,
    cut: broadcast::Sender<()>,
    lists: Mutex<BTreeMap<String, Bytes>>,
    writes: Mutex<Vec<Write>>,
    held: watch::Sender<bool>,
}

/// A request that writes.
#[derive(Clone, Debug)]
pub struct Write {
    /// Its method.
    pub method: String,
    /// The path, without query.
    pub path: String,
    /// The query; empty where there is none.
    pub query: String,
    /// What is sent.
    pub body: Value,
}

/// A proxy that acts with the operator's rights.
pub struct Proxy {
    shared: Arc<Shared>,
    server: JoinHandle<()>,
    kubeconfig: PathBuf,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.server.abort();
        let _ = std::fs::remove_file(&self.kubeconfig);
    }
}

impl Proxy {
    /// Starts a proxy that passes everything on.
    pub async fn start(test: &Test) -> Self {
        let operator = &test.cluster.operator_kubeconfig;
        let shared = Arc::new(Shared {
            client: Api::new(operator).await.client().clone(),
            rule: Mutex::new(Box::new(|_, _| Faults::None)),
            cut: broadcast::Sender::new(1),
            lists: Mutex::default(),
            writes: Mutex::default(),
            held: watch::Sender::new(false),
        });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let listen = listener.local_addr().expect("an address");
        let router = axum::Router::new().fallback(handle).with_state(Arc::clone(&shared));
        let server = tokio::spawn(async move {
            axum::serve(listener, router).await.expect("it serves");
        });
        let kubeconfig = test.cluster.dir.join(format!("proxy-{}.yaml", test.namespace));
        std::fs::write(&kubeconfig, config(listen).to_string()).expect("a kubeconfig");
        Self { shared, server, kubeconfig }
    }

    /// The kubeconfig for an operator behind this proxy.
    pub fn kubeconfig(&self) -> &std::path::Path {
        &self.kubeconfig
    }

    /// Decides from now on, by method and path with query, what becomes of each request.
    pub fn rule(&self, rule: impl FnMut(&str, &str) -> Faults + Send + 'static) {
        *lock(&self.shared.rule) = Box::new(rule);
        self.shared.held.send_replace(false);
    }

    /// Lets everything pass again.
    pub fn heal(&self) {
        self.rule(|_, _| Faults::None);
    }

    /// Breaks every open answer, which are the watches.
    pub fn cut_watches(&self) {
        let _ = self.shared.cut.send(());
    }

    /// Waits for a request that is held, or told of, under the present rule.
    pub async fn held(&self) {
        let mut held = self.shared.held.subscribe();
        held.wait_for(|held| *held).await.expect("the proxy is there");
    }

    /// All requests that write and were passed on so far.
    pub fn writes(&self) -> Vec<Write> {
        lock(&self.shared.writes).clone()
    }
}

fn config(listen: SocketAddr) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "proxy", "cluster": {"server": format!("http://{listen}")}}],
        "users": [{"name": "operator", "user": {}}],
        "contexts": [{"name": "proxy", "context": {"cluster": "proxy", "user": "operator"}}],
        "current-context": "proxy",
    })
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn handle(State(shared): State<Arc<Shared>>, request: Request<Body>) -> Response<Body> {
    let method = request.method().as_str().to_owned();
    let path = request.uri().to_string();
    let fault = lock(&shared.rule)(&method, &path);

    match fault {
        Faults::Answer(code) => return refusal(code, None),
        Faults::TooMany(seconds) => return refusal(429, Some(seconds)),
        Faults::Late(time) => tokio::time::sleep(time).await,
        Faults::Hold => return shared.hold().await,
        Faults::Drop => return broken(),
        Faults::Gone if is_watch(&path) => return answer(StatusCode::OK, watches::gone()),
        _ => {}
    }
    let list = method == "GET" && !is_watch(&path);
    let key = path.split('?').next().unwrap_or_default().to_owned();
    if list && fault == Faults::FirstList {
        let first = lock(&shared.lists).get(&key).cloned();
        if let Some(first) = first {
            return answer(StatusCode::OK, Body::from(first));
        }
    }
    match shared.pass(request, list.then_some(key)).await {
        Ok(_) if fault == Faults::LoseAnswer => broken(),
        Ok(_) if fault == Faults::HoldAnswer => shared.hold().await,
        Ok(response) if fault == Faults::Tell => tell(shared, response),
        Ok(response) if is_watch(&path) => {
            let (head, body) = response.into_parts();
            Response::from_parts(head, watches::disturbed(body, fault, shared.cut.subscribe()))
        }
        Ok(response) if fault == Faults::Truncate => truncated(response).await,
        Ok(response) => response,
        Err(error) => refusal_with(502, &error, None),
    }
}

/// The same answer, which is told of when it is through.
fn tell(shared: Arc<Shared>, response: Response<Body>) -> Response<Body> {
    let (head, body) = response.into_parts();
    let end = futures::stream::poll_fn(move |_| {
        shared.held.send_replace(true);
        std::task::Poll::Ready(None)
    });
    Response::from_parts(head, Body::from_stream(body.into_data_stream().chain(end)))
}

fn is_watch(path: &str) -> bool {
    path.contains("watch=")
}

impl Shared {
    async fn hold(&self) -> Response<Body> {
        self.held.send_replace(true);
        std::future::pending().await
    }

    async fn pass(
        self: &Arc<Self>,
        request: Request<Body>,
        list: Option<String>,
    ) -> Result<Response<Body>, String> {
        let (mut head, body) = request.into_parts();
        let uri = head.uri.path_and_query().ok_or("no path")?.as_str();
        head.uri = uri.parse().map_err(|_| "no path".to_owned())?;
        for name in [header::HOST, header::CONNECTION, header::AUTHORIZATION] {
            head.headers.remove(name);
        }
        let body =
            axum::body::to_bytes(body, usize::MAX).await.map_err(|error| error.to_string())?;
        if head.method != "GET" {
            lock(&self.writes).push(Write {
                method: head.method.to_string(),
                path: head.uri.path().to_owned(),
                query: head.uri.query().unwrap_or_default().to_owned(),
                body: serde_json::from_slice(&body).unwrap_or_default(),
            });
        }
        let body = kube::client::Body::from(body.to_vec());
        let answered = self.client.send(Request::from_parts(head, body)).await;
        let (mut head, body) = answered.map_err(|error| error.to_string())?.into_parts();
        for name in [header::CONNECTION, header::TRANSFER_ENCODING] {
            head.headers.remove(name);
        }
        let body = Body::new(body);
        if let Some(key) = list {
            let bytes =
                axum::body::to_bytes(body, usize::MAX).await.map_err(|error| error.to_string())?;
            lock(&self.lists).entry(key).or_insert_with(|| bytes.clone());
            return Ok(Response::from_parts(head, Body::from(bytes)));
        }
        Ok(Response::from_parts(head, body))
    }
}

fn answer(status: StatusCode, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let json = header::HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}

/// The first half of an answer, as if it were all.
async fn truncated(response: Response<Body>) -> Response<Body> {
    let (mut head, body) = response.into_parts();
    let Ok(bytes) = axum::body::to_bytes(body, usize::MAX).await else {
        return broken();
    };
    head.headers.remove(header::CONTENT_LENGTH);
    Response::from_parts(head, Body::from(bytes.slice(..bytes.len() / 2)))
}

/// An answer whose body breaks off.
fn broken() -> Response<Body> {
    let body = futures::stream::once(async { Err::<Bytes, _>(axum::Error::new("lost")) });
    answer(StatusCode::OK, Body::from_stream(body))
}

fn refusal(code: u16, retry_after: Option<u32>) -> Response<Body> {
    refusal_with(code, "made up by the test", retry_after)
}

fn refusal_with(code: u16, message: &str, retry_after: Option<u32>) -> Response<Body> {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure",
        "message": message, "reason": "InternalError", "code": code,
    });
    let code = StatusCode::from_u16(code).expect("a status code");
    let mut response = answer(code, Body::from(status.to_string()));
    if let Some(seconds) = retry_after {
        let name = HeaderName::from_static("retry-after");
        response.headers_mut().insert(name, seconds.into());
    }
    response
}
