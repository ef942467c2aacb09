//! Calls to the world outside: webhooks and Prometheus, for checks and hooks.
//!
//! Nothing is decided here. What a plan wants to be called is under way until it is answered; the
//! answers wait here for the next plan, which is made at once.

mod allow;
mod client;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use jiff::Timestamp;
use tokio::{sync::Semaphore, task::AbortHandle, time::timeout};
use tracing::debug;

use crate::{
    cluster::{leadership::Leadership, slim::ObjectKey},
    plan::{Answer, Call, CallRequest, Outcome, Purpose},
    telemetry::Metrics,
};

pub use allow::{AllowList, Pattern};
use client::HttpClient;

/// Most calls at once.
const CALLS_AT_ONCE: usize = 256;
/// Most calls at once for one rollout, so that slow endpoints of one leave room for the others.
const CALLS_OF_ONE: usize = 4;

/// Carries out calls.
#[derive(Clone)]
pub struct Outbound(Arc<Shared>);

struct Shared {
    client: HttpClient,
    allowed: AllowList,
    leadership: Leadership,
    metrics: Arc<Metrics>,
    permits: Semaphore,
    desks: Mutex<HashMap<ObjectKey, Desk>>,
    on_answer: Box<dyn Fn(&ObjectKey) + Send + Sync>,
}

/// The calls of one rollout.
struct Desk {
    uid: String,
    permits: Arc<Semaphore>,
    calls: HashMap<String, State>,
}

enum State {
    UnderWay(AbortHandle),
    Answered(Answer),
}

impl Outbound {
    /// Calls only what is allowed, and only while `leadership` lasts; says whose call is answered.
    pub fn new(
        allowed: AllowList,
        leadership: Leadership,
        metrics: Arc<Metrics>,
        on_answer: impl Fn(&ObjectKey) + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(Shared {
            client: HttpClient::default(),
            allowed,
            leadership,
            metrics,
            permits: Semaphore::new(CALLS_AT_ONCE),
            desks: Mutex::default(),
            on_answer: Box::new(on_answer),
        }))
    }

    /// The ids of the calls that were begun for a rollout of this UID, and the answers so far.
    #[must_use]
    pub fn state(&self, key: &ObjectKey, uid: &str) -> (Vec<String>, Vec<Answer>) {
        let desks = self.0.lock();
        let Some(desk) = desks.get(key).filter(|desk| desk.uid == uid) else {
            return (Vec::new(), Vec::new());
        };
        let answered = |state: &State| match state {
            State::Answered(answer) => Some(answer.clone()),
            State::UnderWay(_) => None,
        };
        let begun = desk.calls.keys().cloned().collect();
        (begun, desk.calls.values().filter_map(answered).collect())
    }

    /// Begins the calls that are not under way or answered yet, and drops all others.
    pub fn set(&self, key: &ObjectKey, uid: &str, calls: &[Call]) {
        let mut desks = self.0.lock();
        if calls.is_empty() {
            if let Some(desk) = desks.remove(key) {
                desk.end();
            }
            return;
        }
        let fresh = || Desk {
            uid: uid.to_owned(),
            permits: Arc::new(Semaphore::new(CALLS_OF_ONE)),
            calls: HashMap::new(),
        };
        let desk = desks.entry(key.clone()).or_insert_with(fresh);
        if desk.uid != uid {
            std::mem::replace(desk, fresh()).end();
        }
        desk.calls.retain(|id, state| {
            let wanted = calls.iter().any(|call| call.id == *id);
            if let (false, State::UnderWay(task)) = (wanted, &*state) {
                task.abort();
            }
            wanted
        });
        for call in calls {
            if !desk.calls.contains_key(&call.id) {
                let work =
                    self.0.clone().carry_out(key.clone(), desk.permits.clone(), call.clone());
                let task = tokio::spawn(work).abort_handle();
                desk.calls.insert(call.id.clone(), State::UnderWay(task));
            }
        }
    }
}

impl Desk {
    fn end(self) {
        for state in self.calls.into_values() {
            if let State::UnderWay(task) = state {
                task.abort();
            }
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectKey, Desk>> {
        self.desks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn carry_out(self: Arc<Self>, key: ObjectKey, own: Arc<Semaphore>, call: Call) {
        // Both stay open for as long as there are calls.
        let (Ok(_own), Ok(_one)) = (own.acquire().await, self.permits.acquire().await) else {
            return;
        };
        if self.leadership.lasts().is_none() {
            return;
        }
        let (begun, clock) = (Timestamp::now(), Instant::now());
        let request = self.request(&key.namespace, &call.request);
        let outcome = timeout(call.timeout, request).await.unwrap_or_else(|_| {
            Outcome::None(format!("no answer within {} s", call.timeout.as_secs()))
        });
        let kind = match (&call.request, call.purpose) {
            (CallRequest::Query { .. }, _) => "query",
            (_, Purpose::Check) => "check",
            (_, Purpose::Hook(_)) => "hook",
        };
        let duration = self.metrics.outbound_duration.with_label_values(&[kind]);
        duration.observe(clock.elapsed().as_secs_f64());
        debug!(%key, id = call.id, ?outcome, "called");
        let answer = Answer { id: call.id, begun, ended: Timestamp::now(), outcome };
        if let Some(state) = self.lock().get_mut(&key).and_then(|d| d.calls.get_mut(&answer.id)) {
            *state = State::Answered(answer);
        }
        (self.on_answer)(&key);
    }

    async fn request(&self, namespace: &str, request: &CallRequest) -> Outcome {
        match request {
            CallRequest::Query { address, query } => {
                let url = client::query_url(address, query);
                match self.allowed.admit(&url, namespace) {
                    Ok(url) => self.client.query(url).await,
                    Err(why) => Outcome::None(why),
                }
            }
            CallRequest::Post { url, key, body } => match self.allowed.admit(url, namespace) {
                Ok(url) => self.client.post(url, key, body).await,
                Err(why) => Outcome::None(why),
            },
        }
    }
}

#[cfg(test)]
mod tests;
