//! How slow the machine is just now, so that deadlines of a second or two mean what they say on a
//! busy one too.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use serde_json::json;
use tokio::task::JoinHandle;

use crate::{Api, path_of};

/// A write every so often, whose time is taken.
pub(crate) struct Lag {
    worst: Arc<AtomicU64>,
    task: JoinHandle<()>,
}

impl Drop for Lag {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Lag {
    /// Starts to write to a ConfigMap of its own.
    pub fn watch(api: &Api, namespace: &str) -> Self {
        let worst = Arc::new(AtomicU64::new(0));
        let (api, maximum) = (api.clone(), Arc::clone(&worst));
        let collection = path_of("v1", namespace, "configmaps");
        let task = tokio::spawn(async move {
            let path = format!("{collection}/lag");
            let made = json!({"metadata": {"name": "lag"}});
            let _ = api.post(&collection, &made).await;
            for round in 0.. {
                let began = Instant::now();
                let patch = json!({"data": {"round": format!("{round}")}});
                let _ = api.patch(&path, &patch).await;
                let took = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
                maximum.fetch_max(took, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_millis(400)).await;
            }
        });
        Self { worst, task }
    }

    /// What a chain of some writes, each seen by a watch, may take longer than it should.
    pub fn slack(&self) -> Duration {
        Duration::from_micros(self.worst.load(Ordering::Relaxed)) * 6
    }
}
