//! The index: everything that was seen, and what each decision looks at.
//!
//! It is synchronous. Watches and answers to our own writes push objects in; whoever decides takes
//! a snapshot out. Its lock is never held across an await.

mod admission;
mod adopt;
mod links;
mod store;
mod version;

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use jiff::Timestamp;
use tokio::sync::watch;

use super::admission::proofs::Proofs;
use super::slim::{Deployments, Kind, ObjectKey, ReplicaSets, Rollouts, Slim};
use crate::plan::{Orphan, ReplicaSet, Rollout, Snapshot, Target};

pub use version::compare as compare_versions;

use links::Links;
use store::{Change, Store};

/// One thing to decide about.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum WorkKey {
    /// A GrayRollout.
    Rollout(ObjectKey),
    /// A Deployment that no GrayRollout looks after any more.
    Orphan(ObjectKey),
    /// A Deployment whose annotation asks for a GrayRollout, or did.
    Adoption(ObjectKey),
}

impl WorkKey {
    /// Namespace and name of the GrayRollout or the Deployment.
    #[must_use]
    pub fn object(&self) -> &ObjectKey {
        match self {
            Self::Rollout(key) | Self::Orphan(key) | Self::Adoption(key) => key,
        }
    }
}

/// Who is told which decisions some news touches.
type OnTouched = Box<dyn Fn(WorkKey) + Send + Sync>;

/// Everything that was seen.
pub struct Index {
    state: Mutex<State>,
    on_touched: OnTouched,
    /// How many watches have not listed yet.
    unlisted: watch::Sender<usize>,
}

pub(super) struct State {
    rollouts: Store<Rollouts>,
    deployments: Store<Deployments>,
    replica_sets: Store<ReplicaSets>,
    links: Links,
    /// Whether new templates are held by admission.
    proofs: Proofs,
    /// What Deployments say in the annotation grayrollout.dev/stages.
    asked: HashMap<ObjectKey, Box<str>>,
    /// When an approval of this GrayRollout was first seen, until a decision has looked at it.
    approved: HashMap<ObjectKey, Instant>,
}

/// A kind that is kept in the index.
pub trait Indexed: Kind {
    #[doc(hidden)]
    #[allow(private_interfaces)]
    fn store(state: &mut State) -> &mut Store<Self>;
    #[doc(hidden)]
    #[allow(private_interfaces)]
    fn link(
        state: &mut State,
        key: &ObjectKey,
        change: Change<Self::Object>,
        touched: &mut Touched,
    );
}

/// The decisions that some news touches.
type Touched = BTreeSet<WorkKey>;

/// One listing of a kind under way.
pub struct Relist(store::Relist);

impl Index {
    /// An empty index that waits for `watches` lists, and says which decisions each piece of news
    /// touches.
    pub fn new(watches: usize, on_touched: impl Fn(WorkKey) + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State {
                rollouts: Store::new(),
                deployments: Store::new(),
                replica_sets: Store::new(),
                links: Links::default(),
                proofs: Proofs::default(),
                asked: HashMap::new(),
                approved: HashMap::new(),
            }),
            on_touched: Box::new(on_touched),
            unlisted: watch::Sender::new(watches),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere leaves at worst one object unseen until the next list.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a change and tells of what it touches, after the lock is given back.
    fn change(&self, change: impl FnOnce(&mut State, &mut Touched)) {
        let mut touched = Touched::new();
        change(&mut self.lock(), &mut touched);
        for key in touched {
            (self.on_touched)(key);
        }
    }

    /// Takes an object in, from a watch or as the answer to a request. Older news than what is
    /// known is dropped. One that is being deleted counts as gone, bar ReplicaSets, whose pods
    /// still count.
    pub fn put<K: Indexed>(&self, slim: Slim<K>) {
        self.change(|state, touched| take_in(state, slim, touched, Store::put));
    }

    /// Takes the object of this UID out; it never comes back.
    pub fn remove<K: Indexed>(&self, key: &ObjectKey, uid: &str) {
        self.change(|state, touched| {
            let change = K::store(state).remove(key, uid);
            state.note_asked::<K>(key, &change, None, touched);
            K::link(state, key, change, touched);
        });
    }

    /// Begins a list of a kind, in one namespace or in all; to be called before it is asked for.
    #[must_use]
    pub fn begin_list<K: Indexed>(&self, namespace: Option<&str>) -> Relist {
        Relist(K::store(&mut self.lock()).relist(namespace.map(str::to_owned)))
    }

    /// Takes in one object of a list.
    pub fn put_listed<K: Indexed>(&self, relist: &mut Relist, slim: Slim<K>) {
        self.change(|state, touched| {
            take_in(state, slim, touched, |store, slim| store.put_listed(&mut relist.0, slim));
        });
    }

    /// Ends a list: what was there before it and is not in it is gone.
    pub fn end_list<K: Indexed>(&self, relist: &Relist) {
        self.change(|state, touched| {
            for (key, uid) in K::store(state).vanished(&relist.0) {
                let change = K::store(state).remove(&key, &uid);
                state.note_asked::<K>(&key, &change, None, touched);
                K::link(state, &key, change, touched);
            }
        });
    }

    /// One more watch has listed for the first time.
    pub fn listed_first(&self) {
        self.unlisted.send_modify(|count| *count = count.saturating_sub(1));
    }

    /// Whether every watch has listed.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        *self.unlisted.borrow() == 0
    }

    /// Waits until every watch has listed.
    pub async fn complete(&self) {
        // It fails only when the sender is dropped, and that one lives in here.
        let _ = self.unlisted.subscribe().wait_for(|count| *count == 0).await;
    }

    /// What a decision about a GrayRollout looks at; `None` where it is gone.
    #[must_use]
    pub fn snapshot(&self, key: &ObjectKey, now: Timestamp) -> Option<Snapshot> {
        let state = self.lock();
        let rollout = state.rollouts.get(key)?.clone();
        let target = state.target_of(key, &rollout).cloned();
        let replica_sets = target
            .as_ref()
            .map(|target| state.owned(&target.uid).cloned().collect())
            .unwrap_or_default();
        Some(Snapshot {
            now,
            older_twin: state.older_twin(key, &rollout),
            answers: Vec::new(),
            begun: Vec::new(),
            admission: state.admission(key, &rollout),
            rollout,
            target,
            replica_sets,
        })
    }

    /// What a decision about a Deployment without its GrayRollout looks at; `None` where it is no
    /// orphan.
    #[must_use]
    pub fn orphan(&self, key: &ObjectKey, now: Timestamp) -> Option<Orphan> {
        let state = self.lock();
        let target = state.deployments.get(key).filter(|t| state.is_orphan(t))?;
        Some(Orphan {
            now,
            target: target.clone(),
            replica_sets: state.owned(&target.uid).cloned().collect(),
        })
    }

    /// When an approval of this GrayRollout was first seen, if that is news since the last call.
    pub fn take_approved(&self, key: &ObjectKey) -> Option<Instant> {
        self.lock().approved.remove(key)
    }

    /// The resourceVersion of an object, where it is known.
    #[must_use]
    pub fn version_of<K: Indexed>(&self, key: &ObjectKey) -> Option<String> {
        K::store(&mut self.lock()).get(key).map(|object| K::version(object).to_owned())
    }

    /// UID of the ReplicaSet of this name.
    #[must_use]
    pub fn replica_set_uid(&self, key: &ObjectKey) -> Option<String> {
        let state = self.lock();
        state.replica_sets.get(key).map(|rs| rs.uid.clone())
    }

    /// The stable revision's ReplicaSet that a GrayRollout speaks of and no watch knows: it is gone,
    /// or its watch lags behind whoever wrote the status.
    #[must_use]
    pub fn unseen_stable(&self, key: &ObjectKey) -> Option<ObjectKey> {
        let state = self.lock();
        let stable = state.rollouts.get(key)?.status.stable.as_ref()?;
        let key = ObjectKey::new(&key.namespace, stable.replica_set.as_ref()?);
        state.replica_sets.get(&key).is_none().then_some(key)
    }

    /// Every GrayRollout's key.
    #[must_use]
    pub fn rollouts(&self) -> Vec<ObjectKey> {
        let state = self.lock();
        state.rollouts.keys().cloned().collect()
    }

    /// Looks at a GrayRollout and the ReplicaSets of its Deployment, under the lock.
    pub fn look<T>(
        &self,
        key: &ObjectKey,
        look: impl FnOnce(&Rollout, &mut dyn Iterator<Item = &ReplicaSet>) -> T,
    ) -> Option<T> {
        let state = self.lock();
        let rollout = state.rollouts.get(key)?;
        let uid = state.target_of(key, rollout).map(|target| target.uid.as_str());
        Some(look(rollout, &mut state.owned(uid.unwrap_or_default())))
    }
}

fn take_in<K: Indexed>(
    state: &mut State,
    mut slim: Slim<K>,
    touched: &mut Touched,
    put: impl FnOnce(&mut Store<K>, Slim<K>) -> Change<K::Object>,
) {
    let (key, stages) = (slim.key(), slim.stages.take());
    let gone = counts_as_gone(&slim);
    let change =
        if gone { K::store(state).remove(&key, slim.uid()) } else { put(K::store(state), slim) };
    state.note_asked::<K>(&key, &change, stages.filter(|_| !gone), touched);
    K::link(state, &key, change, touched);
}

/// Whether an object is as good as gone: nothing keeps it from going any more. The pods of a
/// ReplicaSet that is being deleted still count.
fn counts_as_gone<K: Kind>(slim: &Slim<K>) -> bool {
    slim.deleting && K::KIND != ReplicaSets::KIND
}

impl State {
    fn target_of(&self, key: &ObjectKey, rollout: &Rollout) -> Option<&Target> {
        self.deployments.get(&target_key(key, rollout))
    }

    fn owned(&self, uid: &str) -> impl Iterator<Item = &ReplicaSet> {
        self.links.replica_sets_of(uid).filter_map(|key| self.replica_sets.get(key))
    }

    /// Whether the Deployment says that something is to be restored there, or was held by
    /// admission, and no GrayRollout looks after it. One that was made in the meantime takes over
    /// what its forerunner left.
    fn is_orphan(&self, target: &Target) -> bool {
        let key = || ObjectKey::new(&target.namespace, &target.name);
        let marked = target.original.is_some() || target.rollout_annotation.is_some();
        marked && self.links.rollouts_of(&key()).next().is_none()
    }

    /// The oldest of the other GrayRollouts with the same target that are older than this one.
    fn older_twin(&self, key: &ObjectKey, rollout: &Rollout) -> Option<String> {
        let age = |rollout: &Rollout| (rollout.created, rollout.uid.clone());
        self.links
            .rollouts_of(&target_key(key, rollout))
            .filter_map(|twin| self.rollouts.get(twin))
            .filter(|twin| age(twin) < age(rollout))
            .min_by_key(|twin| age(twin))
            .map(|twin| twin.name.clone())
    }
}

fn target_key(key: &ObjectKey, rollout: &Rollout) -> ObjectKey {
    ObjectKey { namespace: key.namespace.clone(), name: rollout.target_name.as_str().into() }
}

#[cfg(test)]
mod tests;
