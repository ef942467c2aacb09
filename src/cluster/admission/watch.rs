//! Watches the objects that the admission policies are made of, their metadata alone.

use std::{collections::BTreeMap, fmt::Debug, pin::pin, sync::Arc, time::Duration};

use futures::StreamExt;
use k8s_openapi::{
    ClusterResourceScope,
    api::admissionregistration::v1::{
        MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding, ValidatingAdmissionPolicy,
        ValidatingAdmissionPolicyBinding,
    },
};
use kube::{
    Api, Client, Resource, ResourceExt,
    core::{ObjectMeta, PartialObjectMeta},
    runtime::watcher::{self, Event},
};
use serde::de::DeserializeOwned;
use tokio::time::sleep;
use tracing::{debug, warn};

use super::policies::{Listing, PolicyKind, PolicyObject, is_known};
use crate::{
    cluster::{
        backoff::{Backoff, jitter},
        index::Index,
    },
    telemetry::Metrics,
};

/// The label that every one of them carries.
const SELECTOR: &str = "app.kubernetes.io/name=grayrollout";
/// The label that tells their version.
const VERSION_LABEL: &str = "grayrollout.dev/policies";
/// How long the API server keeps one watch open, in seconds.
const WATCH_SECONDS: u32 = 200;
/// Bounds of the wait between two tries.
const BACKOFF: Backoff =
    Backoff { first: Duration::from_millis(200), most: Duration::from_secs(5) };
/// After so many failures in a row it is said that they cannot be seen.
const PATIENCE: u32 = 3;
/// A cluster that lacks the kind or the right to see it is seldom changed.
const SELDOM: Duration = Duration::from_mins(1);

/// What a watch needs.
#[derive(Clone)]
pub struct PolicyWatcher {
    /// Where to watch.
    pub client: Client,
    /// Where it is told.
    pub index: Arc<Index>,
    /// What is counted.
    pub metrics: Arc<Metrics>,
}

impl PolicyWatcher {
    /// How many watches there are.
    pub const KINDS: usize = PolicyKind::ALL.len();

    /// Watches one kind. It never ends by itself; if it did, it would give the reason.
    pub async fn run(self, kind: PolicyKind) -> String {
        match kind {
            PolicyKind::Mutating => self.watch::<MutatingAdmissionPolicy>(kind).await,
            PolicyKind::MutatingBinding => {
                self.watch::<MutatingAdmissionPolicyBinding>(kind).await;
            }
            PolicyKind::Validating => self.watch::<ValidatingAdmissionPolicy>(kind).await,
            PolicyKind::ValidatingBinding => {
                self.watch::<ValidatingAdmissionPolicyBinding>(kind).await;
            }
        }
        format!("the watch of {kind:?} policies ended")
    }

    async fn watch<K>(&self, kind: PolicyKind)
    where
        K: Resource<DynamicType = (), Scope = ClusterResourceScope>
            + Clone
            + Debug
            + DeserializeOwned
            + Send
            + 'static,
    {
        let config = watcher::Config::default().timeout(WATCH_SECONDS).labels(SELECTOR);
        let api = Api::<PartialObjectMeta<K>>::all(self.client.clone());
        let mut stream = pin!(watcher::watcher(api, config));
        let (mut fresh, mut failures, mut listed) = (BTreeMap::new(), 0, false);
        while let Some(event) = stream.next().await {
            // One that fails counts too: the rollouts do not wait for it.
            if !listed && matches!(event, Ok(Event::InitDone) | Err(_)) {
                listed = true;
                self.index.listed_first();
            }
            match event {
                Ok(event) => {
                    // That a list begins does not mean that it works.
                    if !matches!(event, Event::Init) {
                        failures = 0;
                    }
                    self.take(kind, event, &mut fresh);
                }
                Err(error) => {
                    failures += 1;
                    sleep(self.failed::<K>(kind, &error, failures)).await;
                }
            }
        }
    }

    fn take<K: Resource>(
        &self,
        kind: PolicyKind,
        event: Event<PartialObjectMeta<K>>,
        fresh: &mut BTreeMap<String, PolicyObject>,
    ) {
        if let Event::InitApply(object) | Event::Apply(object) | Event::Delete(object) = &event
            && !is_known(&object.name_any())
        {
            return;
        }
        match event {
            Event::Init => fresh.clear(),
            Event::InitApply(object) => {
                fresh.insert(object.name_any(), seen(&object.metadata));
            }
            Event::InitDone => {
                let all = std::mem::take(fresh);
                self.index.policies(kind, |known| *known = Listing::Seen(all));
            }
            Event::Apply(object) => self.index.policies(kind, |known| {
                if let Listing::Seen(objects) = known {
                    objects.insert(object.name_any(), seen(&object.metadata));
                }
            }),
            Event::Delete(object) => self.index.policies(kind, |known| {
                if let Listing::Seen(objects) = known {
                    objects.remove(&object.name_any());
                }
            }),
        }
    }

    /// Takes note of a failure; how long to wait after it.
    fn failed<K>(&self, kind: PolicyKind, error: &watcher::Error, failures: u32) -> Duration
    where
        K: Resource<DynamicType = ()>,
    {
        let status = match error {
            watcher::Error::InitialListFailed(kube::Error::Api(status))
            | watcher::Error::WatchStartFailed(kube::Error::Api(status))
            | watcher::Error::WatchError(status) => Some(status),
            _ => None,
        };
        match status.map(|status| (status.code, status)) {
            Some((404, _)) => self.index.policies(kind, |known| *known = Listing::Unsupported),
            Some((403, status)) => {
                let why = status.message.clone();
                self.index.policies(kind, |known| *known = Listing::Hidden(why));
            }
            _ => {
                let resource = K::plural(&());
                let labels = [resource.as_ref()];
                self.metrics.watch_restarts.with_label_values(&labels).inc();
                // The first is mostly no more than a connection or a point in time that is gone.
                if failures >= PATIENCE {
                    let why = error.to_string();
                    self.index.policies(kind, |known| {
                        if !matches!(known, Listing::Seen(_)) {
                            *known = Listing::Hidden(why);
                        }
                    });
                }
                if failures == 1 {
                    debug!(?kind, %error, "the watch of the admission policies begins anew");
                } else {
                    warn!(?kind, %error, "the watch of the admission policies is broken");
                }
                return BACKOFF.after(failures);
            }
        }
        jitter(SELDOM)
    }
}

fn seen(metadata: &ObjectMeta) -> PolicyObject {
    let label = |labels: &BTreeMap<String, String>| labels.get(VERSION_LABEL).cloned();
    PolicyObject {
        state: (metadata.uid.clone().unwrap_or_default(), metadata.generation.unwrap_or_default()),
        version: metadata.labels.as_ref().and_then(label),
    }
}
