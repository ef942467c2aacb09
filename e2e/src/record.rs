//! A record of every stored state in one namespace, and the states as they are now.

use std::{
    sync::{Arc, Mutex, MutexGuard},
    time::{Duration, Instant},
};

use futures::TryStreamExt;
use kube::core::WatchEvent;
use serde_json::Value;
use tokio::{sync::watch, task::JoinHandle};

use crate::{Api, Json, Kind, Snapshot, path_of};

/// One stored state of one object.
#[derive(Clone)]
pub struct Stored {
    /// The revision of the store: one order for all kinds, as there is one etcd.
    pub version: u64,
    /// When it was seen, since the record began.
    pub at: Duration,
    /// Its kind.
    pub kind: Kind,
    /// Whether this is the object's end.
    pub deleted: bool,
    /// The object.
    pub object: Arc<Value>,
}

impl Stored {
    /// The object's name.
    pub fn name(&self) -> &str {
        self.object.text("/metadata/name")
    }
}

#[derive(Default)]
struct Seen {
    history: Vec<Stored>,
    now: Snapshot,
    failure: Option<String>,
}

struct Shared {
    began: Instant,
    seen: Mutex<Seen>,
    changes: watch::Sender<()>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// Watches a namespace from before anything is in it.
pub struct Record {
    shared: Arc<Shared>,
    tasks: Vec<JoinHandle<()>>,
    api: Api,
    namespace: String,
}

/// Looks at the present state.
#[derive(Clone)]
pub struct Observer(Arc<Shared>);

impl Observer {
    /// Looks at the present state.
    pub fn look<T>(&self, at: impl FnOnce(&Snapshot) -> T) -> T {
        at(&self.0.lock().now)
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl Record {
    /// Begins to watch. What is in the namespace already counts as stored now.
    pub async fn begin(api: &Api, namespace: &str) -> Self {
        let shared = Arc::new(Shared {
            began: Instant::now(),
            seen: Mutex::default(),
            changes: watch::Sender::new(()),
        });
        let mut tasks = Vec::new();
        for kind in Kind::ALL {
            let (version, plural) = kind.resource();
            let path = path_of(version, namespace, plural);
            let list = api.get(&path).await.expect("a list");
            for item in list.list("/items") {
                shared.take(kind, false, item.clone());
            }
            let from = list.text("/metadata/resourceVersion").to_owned();
            let (shared, api) = (Arc::clone(&shared), api.clone());
            tasks.push(tokio::spawn(async move {
                let failure = shared.follow(&api, kind, &path, from).await;
                shared.lock().failure.get_or_insert(failure);
                shared.changes.send_replace(());
            }));
        }
        Self { shared, tasks, api: api.clone(), namespace: namespace.to_owned() }
    }

    /// Time since the record began.
    pub fn elapsed(&self) -> Duration {
        self.shared.began.elapsed()
    }

    /// The moment that the record counts from.
    pub fn began(&self) -> Instant {
        self.shared.began
    }

    /// Every stored state so far, in the order of the store.
    pub fn history(&self) -> Vec<Stored> {
        let mut history = self.shared.lock().history.clone();
        history.sort_by_key(|stored| stored.version);
        history
    }

    /// The revision of the newest stored state seen.
    pub fn newest(&self) -> u64 {
        let seen = self.shared.lock();
        seen.history.iter().map(|stored| stored.version).max().unwrap_or(0)
    }

    /// A look at the present state at any later time, for servers that depend on it.
    pub fn observer(&self) -> Observer {
        Observer(Arc::clone(&self.shared))
    }

    /// Looks at the present state.
    pub fn look<T>(&self, at: impl FnOnce(&Snapshot) -> T) -> T {
        at(&self.shared.lock().now)
    }

    /// Waits until the present state meets a condition; `Err` when it does not in time.
    ///
    /// # Errors
    ///
    /// Where the deadline passes, or states were lost.
    pub async fn until(
        &self,
        within: Duration,
        mut met: impl FnMut(&Snapshot) -> bool,
    ) -> Result<(), String> {
        let mut changes = self.shared.changes.subscribe();
        let deadline = tokio::time::Instant::now() + within;
        loop {
            {
                let seen = self.shared.lock();
                if let Some(failure) = &seen.failure {
                    return Err(failure.clone());
                }
                if met(&seen.now) {
                    return Ok(());
                }
            }
            let changed = tokio::time::timeout_at(deadline, changes.changed()).await;
            if changed.is_err() {
                return Err(format!("not within {} s", within.as_secs_f32()));
            }
        }
    }

    /// Waits until everything stored up to now has been seen.
    ///
    /// # Errors
    ///
    /// Where it is not seen in time.
    pub async fn catch_up(&self) -> Result<(), String> {
        for kind in [Kind::Deployment, Kind::ReplicaSet, Kind::GrayRollout] {
            let (version, plural) = kind.resource();
            let path = path_of(version, &self.namespace, plural);
            let list = self.api.get(&path).await.map_err(|e| e.to_string())?;
            let number = |object: &Value| -> u64 {
                object.text("/metadata/resourceVersion").parse().unwrap_or(0)
            };
            let items = list.list("/items");
            self.until(Duration::from_secs(10), |now| {
                let seen = items.iter().all(|item| {
                    now.has_ended(item.text("/metadata/uid"))
                        || now
                            .get(kind, item.text("/metadata/name"))
                            .is_some_and(|it| number(it) >= number(item))
                });
                let gone = |it: &Value| {
                    items
                        .iter()
                        .any(|item| item.text("/metadata/name") == it.text("/metadata/name"))
                        || number(it) > number(&list)
                };
                seen && now.all(kind).all(gone)
            })
            .await
            .map_err(|why| format!("the watch of {plural} did not catch up: {why}"))?;
        }
        Ok(())
    }
}

impl Shared {
    fn take(&self, kind: Kind, deleted: bool, object: Value) {
        let stored = Stored {
            version: object
                .text("/metadata/resourceVersion")
                .parse()
                .expect("resourceVersion is a number"),
            at: self.began.elapsed(),
            kind,
            deleted,
            object: Arc::new(object),
        };
        let mut seen = self.lock();
        seen.now.apply(&stored);
        seen.history.push(stored);
        drop(seen);
        self.changes.send_replace(());
    }

    /// Follows one kind; returns only when states were lost.
    async fn follow(&self, api: &Api, kind: Kind, path: &str, mut from: String) -> String {
        loop {
            let uri = format!("{path}?watch=1&allowWatchBookmarks=true&resourceVersion={from}");
            let request = http::Request::get(uri).body(Vec::new()).expect("a request");
            let Ok(events) = api.client().request_events::<Value>(request).await else {
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            let mut events = std::pin::pin!(events);
            while let Ok(Some(event)) = events.try_next().await {
                let (deleted, object) = match event {
                    WatchEvent::Added(object) | WatchEvent::Modified(object) => (false, object),
                    WatchEvent::Deleted(object) => (true, object),
                    WatchEvent::Bookmark(mark) => {
                        from = mark.metadata.resource_version;
                        continue;
                    }
                    WatchEvent::Error(status) => {
                        return format!("the watch of {path} lost states: {}", status.message);
                    }
                };
                object.text("/metadata/resourceVersion").clone_into(&mut from);
                self.take(kind, deleted, object);
            }
        }
    }
}
