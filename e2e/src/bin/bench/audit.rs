//! The requests that the API server served, from its audit log.

use std::{
    collections::BTreeMap,
    io::{Read, Seek, SeekFrom},
    time::{Duration, Instant},
};

use grayrollout_e2e::{Json, Test};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

const POLL: Duration = Duration::from_millis(100);
/// The operator's user.
const OPERATOR: &str = "system:serviceaccount:grayrollout-system:grayrollout";

/// One request that was answered.
pub struct Request {
    /// When it came in.
    pub received: Timestamp,
    /// When its answer was complete.
    pub answered: Timestamp,
    /// The verb, such as `patch`.
    pub verb: String,
    /// The resource, with its subresource after a slash.
    pub resource: String,
    /// The object's name; empty where the server chose one.
    pub name: String,
    /// Whether the operator sent it.
    pub ours: bool,
    /// Whether the native Deployment controller sent it.
    pub native: bool,
    /// The HTTP status code of the answer.
    pub code: i64,
}

impl Request {
    fn read(event: &Value) -> Option<Self> {
        let time = |pointer| event.text(pointer).parse().ok();
        let target = event.at("/objectRef");
        let mut resource = target.text("/resource").to_owned();
        if !target.text("/subresource").is_empty() {
            resource = format!("{resource}/{}", target.text("/subresource"));
        }
        Some(Self {
            received: time("/requestReceivedTimestamp")?,
            answered: time("/stageTimestamp")?,
            verb: event.text("/verb").to_owned(),
            resource,
            name: target.text("/name").to_owned(),
            ours: event.text("/user/username") == OPERATOR,
            native: event.text("/userAgent").contains("deployment-controller"),
            code: event.int("/responseStatus/code"),
        })
    }

    /// Whether it asks for a change.
    pub fn writes(&self) -> bool {
        !matches!(self.verb.as_str(), "get" | "list" | "watch")
    }

    /// Whether it changed something.
    pub fn wrote(&self) -> bool {
        self.writes() && (200..300).contains(&self.code)
    }

    /// It in a timeline that counts from `start`.
    pub fn since(&self, start: Timestamp) -> Value {
        let who = match (self.ours, self.native) {
            (true, _) => "operator",
            (_, true) => "deployment controller",
            _ => "other",
        };
        json!({
            "receivedMs": millis(start, self.received),
            "answeredMs": millis(start, self.answered),
            "who": who,
            "request": format!("{} {} {}", self.verb, self.resource, self.name),
            "code": self.code,
        })
    }
}

/// The time between two moments.
pub fn millis(from: Timestamp, to: Timestamp) -> f64 {
    to.duration_since(from).as_secs_f64() * 1000.0
}

/// A place in the audit log to read on from.
pub struct Mark(u64);

impl Mark {
    /// The log's end.
    pub fn now(test: &Test) -> Self {
        let log = std::fs::metadata(&test.cluster.audit_log);
        Self(log.expect("the audit log is there").len())
    }

    /// The requests in the test's namespace since then, in the order in which they came in.
    pub fn requests(&self, test: &Test) -> Vec<Request> {
        self.requests_in(test, &test.namespace)
    }

    /// Waits until there was no such write for a while, and counts those since then.
    pub async fn quiet(
        &self,
        test: &Test,
        during: Duration,
        of: impl Fn(&Request) -> bool,
    ) -> BTreeMap<String, usize> {
        let (mut seen, mut since) = (BTreeMap::new(), Instant::now());
        while since.elapsed() < during {
            tokio::time::sleep(POLL).await;
            let requests = self.requests(test);
            let counts = count(requests.iter().filter(|request| of(request) && request.writes()));
            if counts != seen {
                (seen, since) = (counts, Instant::now());
            }
        }
        seen
    }

    /// The requests in another namespace, and in those that have its name and a part's.
    pub fn requests_in(&self, test: &Test, namespace: &str) -> Vec<Request> {
        let within = |name: &str| {
            name.strip_prefix(namespace)
                .is_some_and(|part| part.is_empty() || part.starts_with('-'))
        };
        let mut log = std::fs::File::open(&test.cluster.audit_log).expect("the audit log opens");
        let mut bytes = Vec::new();
        log.seek(SeekFrom::Start(self.0)).expect("it is at least that long");
        log.read_to_end(&mut bytes).expect("it can be read");
        let mut requests: Vec<Request> = String::from_utf8_lossy(&bytes)
            .lines()
            // The last line may be half written.
            .filter_map(|line| serde_json::from_str::<Value>(line).ok())
            .filter(|event| {
                event.text("/stage") == "ResponseComplete"
                    && within(event.text("/objectRef/namespace"))
            })
            .filter_map(|event| Request::read(&event))
            .collect();
        requests.sort_by_key(|request| request.received);
        requests
    }
}

/// How many requests there are of each kind, such as `patch replicasets`.
pub fn count<'a>(requests: impl Iterator<Item = &'a Request>) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for request in requests {
        *counts.entry(format!("{} {}", request.verb, request.resource)).or_default() += 1;
    }
    counts
}
