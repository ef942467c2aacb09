//! A webhook on loopback that remembers its calls and answers as a test wants.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use axum::{
    body::Body,
    extract::State,
    http::{Request, Response, StatusCode, header},
    serve::Listener,
};
use serde_json::Value;
use tokio::{sync::watch, task::JoinHandle};

use crate::tls::{Identity, TlsListener};

/// One call.
#[derive(Clone, Debug)]
pub struct Received {
    /// The path with the query.
    pub path: String,
    /// The header Idempotency-Key.
    pub key: String,
    /// The body; null where it is no JSON.
    pub body: Value,
}

/// What is answered.
#[derive(Clone, Debug)]
pub enum Reply {
    /// A status and a body.
    Status(u16, String),
    /// Nothing, ever.
    Hang,
    /// A redirect to there.
    Redirect(String),
    /// 200 with a body of so many bytes.
    Long(usize),
    /// 200 with a body, after a while.
    Late(Duration, String),
}

impl Reply {
    /// 200 without a word.
    #[must_use]
    pub fn done() -> Self {
        Self::Status(200, String::new())
    }
}

type Rule = Box<dyn FnMut(&Received) -> Reply + Send>;

struct Shared {
    rule: Mutex<Rule>,
    calls: watch::Sender<Vec<Received>>,
}

/// A running webhook; it ends with this.
pub struct Webhook {
    shared: Arc<Shared>,
    server: JoinHandle<()>,
    listen: SocketAddr,
    scheme: &'static str,
}

impl Drop for Webhook {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Webhook {
    /// Starts one that answers every call with 200.
    pub async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let listen = listener.local_addr().expect("an address");
        Self::serve(listener, listen, "http")
    }

    /// The same over TLS.
    pub async fn start_tls(identity: &Identity) -> Self {
        let listener = TlsListener::bind(identity).await;
        let listen = listener.local_addr().expect("an address");
        Self::serve(listener, listen, "https")
    }

    fn serve<L>(listener: L, listen: SocketAddr, scheme: &'static str) -> Self
    where
        L: Listener<Addr = SocketAddr>,
    {
        let rule: Rule = Box::new(|_| Reply::done());
        let calls = watch::Sender::default();
        let shared = Arc::new(Shared { rule: Mutex::new(rule), calls });
        let router = axum::Router::new().fallback(handle).with_state(Arc::clone(&shared));
        let server = tokio::spawn(async move {
            axum::serve(listener, router).await.expect("it serves");
        });
        Self { shared, server, listen, scheme }
    }

    /// Its URL, with a path that begins with a slash.
    pub fn url(&self, path: &str) -> String {
        format!("{}://{}{path}", self.scheme, self.listen)
    }

    /// Where it listens.
    pub fn listen(&self) -> SocketAddr {
        self.listen
    }

    /// Decides from now on what is answered.
    pub fn rule(&self, rule: impl FnMut(&Received) -> Reply + Send + 'static) {
        *self.shared.rule.lock().unwrap_or_else(PoisonError::into_inner) = Box::new(rule);
    }

    /// The calls so far.
    pub fn calls(&self) -> Vec<Received> {
        self.shared.calls.borrow().clone()
    }

    /// Waits until there are more calls than this.
    pub async fn more_than(&self, calls: usize) {
        let mut all = self.shared.calls.subscribe();
        all.wait_for(|all| all.len() > calls).await.expect("the webhook is there");
    }
}

async fn handle(State(shared): State<Arc<Shared>>, request: Request<Body>) -> Response<Body> {
    let (head, body) = request.into_parts();
    let body = axum::body::to_bytes(body, usize::MAX).await.unwrap_or_default();
    let key = head.headers.get("Idempotency-Key").and_then(|key| key.to_str().ok());
    let received = Received {
        path: head.uri.to_string(),
        key: key.unwrap_or_default().to_owned(),
        body: serde_json::from_slice(&body).unwrap_or_default(),
    };
    let reply = shared.rule.lock().unwrap_or_else(PoisonError::into_inner)(&received);
    shared.calls.send_modify(|calls| calls.push(received));
    let mut response = Response::default();
    match reply {
        Reply::Status(code, text) => {
            *response.status_mut() = StatusCode::from_u16(code).expect("a status code");
            *response.body_mut() = Body::from(text);
        }
        Reply::Hang => std::future::pending().await,
        Reply::Redirect(to) => {
            *response.status_mut() = StatusCode::FOUND;
            response.headers_mut().insert(header::LOCATION, to.parse().expect("a URL"));
        }
        Reply::Long(bytes) => *response.body_mut() = Body::from(vec![b'x'; bytes]),
        Reply::Late(time, text) => {
            tokio::time::sleep(time).await;
            *response.body_mut() = Body::from(text);
        }
    }
    response
}
