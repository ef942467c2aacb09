//! The cached objects of one kind, and which news of them counts.

use std::{
    cmp::Ordering,
    collections::{HashMap, HashSet, VecDeque},
    time::{Duration, Instant},
};

use super::version::compare;
use crate::cluster::slim::{Kind, ObjectKey, Slim};

/// For how long a deleted object's UID is remembered. It outlasts every request, and with it every
/// late answer that still shows the object.
const TOMBSTONE: Duration = Duration::from_mins(2);

/// The objects of one kind.
pub(super) struct Store<K: Kind> {
    entries: HashMap<ObjectKey, Entry<K>>,
    /// UIDs of deleted objects: a UID never comes back, so news of it is old news.
    gone: HashSet<Box<str>>,
    gone_since: VecDeque<(Instant, Box<str>)>,
    /// Counts every change, so that a relist can tell what was put after it began.
    clock: u64,
}

struct Entry<K: Kind> {
    /// Boxed, since a map keeps up to twice the room that it needs.
    object: Box<K::Object>,
    put_at: u64,
}

impl<K: Kind> Entry<K> {
    fn uid(&self) -> &str {
        K::uid(&self.object)
    }
}

/// What a piece of news did to the store.
pub(super) enum Change<T> {
    /// Nothing: it was old, or known already.
    None,
    /// The object is new, or takes the place of another one of the same name.
    New {
        /// The one whose place it takes.
        replaced: Option<T>,
    },
    /// The object changed.
    Updated {
        /// What it was.
        before: T,
    },
    /// The object is gone.
    Removed {
        /// What it was.
        before: T,
    },
}

/// One listing of a kind in one namespace, or in all.
pub(super) struct Relist {
    namespace: Option<String>,
    began_at: u64,
    seen: HashSet<ObjectKey>,
}

impl<K: Kind> Store<K> {
    pub fn new() -> Self {
        Self {
            entries: HashMap::new(),
            gone: HashSet::new(),
            gone_since: VecDeque::new(),
            clock: 0,
        }
    }

    pub fn get(&self, key: &ObjectKey) -> Option<&K::Object> {
        self.entries.get(key).map(|entry| &*entry.object)
    }

    pub fn keys(&self) -> impl Iterator<Item = &ObjectKey> {
        self.entries.keys()
    }

    /// Takes an object in, from a watch event or as the answer to a request.
    pub fn put(&mut self, slim: Slim<K>) -> Change<K::Object> {
        self.take_in(slim, None)
    }

    fn take_in(&mut self, slim: Slim<K>, relist_began: Option<u64>) -> Change<K::Object> {
        let key = slim.key();
        if self.gone.contains(slim.uid()) {
            return Change::None;
        }
        let cached = self.entries.get(&key);
        let is_another = cached.is_some_and(|entry| entry.uid() != slim.uid());
        if let Some(entry) = cached {
            // A list is the truth about everything that was not put after it began, whatever the
            // versions say: after a restore from a backup they start again lower.
            let listed = relist_began.is_some_and(|began| entry.put_at <= began);
            let order = compare(slim.version(), K::version(&entry.object));
            let old = matches!(order, Some(Ordering::Less | Ordering::Equal));
            if old && (!listed || order == Some(Ordering::Equal)) {
                return Change::None;
            }
            if is_another {
                let uid = entry.uid().into();
                self.bury(uid);
            }
        }
        self.clock += 1;
        let entry = Entry { object: Box::new(slim.object), put_at: self.clock };
        match self.entries.insert(key, entry) {
            Some(before) if !is_another => Change::Updated { before: *before.object },
            replaced => Change::New { replaced: replaced.map(|entry| *entry.object) },
        }
    }

    /// Takes the object of this UID out, and keeps it out.
    pub fn remove(&mut self, key: &ObjectKey, uid: &str) -> Change<K::Object> {
        self.bury(uid.into());
        if self.entries.get(key).is_none_or(|entry| entry.uid() != uid) {
            return Change::None;
        }
        match self.entries.remove(key) {
            Some(entry) => Change::Removed { before: *entry.object },
            None => Change::None,
        }
    }

    fn bury(&mut self, uid: Box<str>) {
        let now = Instant::now();
        while let Some((since, _)) = self.gone_since.front()
            && now.duration_since(*since) > TOMBSTONE
        {
            if let Some((_, old)) = self.gone_since.pop_front() {
                self.gone.remove(&old);
            }
        }
        if self.gone.insert(uid.clone()) {
            self.gone_since.push_back((now, uid));
        }
    }

    pub fn relist(&self, namespace: Option<String>) -> Relist {
        Relist { namespace, began_at: self.clock, seen: HashSet::new() }
    }

    /// Takes in one object of a list.
    pub fn put_listed(&mut self, relist: &mut Relist, slim: Slim<K>) -> Change<K::Object> {
        relist.seen.insert(slim.key());
        self.take_in(slim, Some(relist.began_at))
    }

    /// What was there before the list began and is not in it.
    pub fn vanished(&self, relist: &Relist) -> Vec<(ObjectKey, Box<str>)> {
        self.entries
            .iter()
            .filter(|(key, entry)| {
                relist.namespace.as_deref().is_none_or(|n| n == &*key.namespace)
                    && entry.put_at <= relist.began_at
                    && !relist.seen.contains(*key)
            })
            .map(|(key, entry)| (key.clone(), entry.uid().into()))
            .collect()
    }
}
