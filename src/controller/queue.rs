//! What to decide about next: one decision at a time per object, in the order they became due.

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

use crate::cluster::index::WorkKey;

/// The queue. Times are those of the runtime, so that tests can turn them.
#[derive(Default)]
pub struct Queue {
    state: Mutex<State>,
    /// Wakes whoever waits in [`Queue::next`].
    changed: Notify,
}

#[derive(Default)]
struct State {
    /// What is due, in the order it became so.
    ready: VecDeque<WorkKey>,
    /// What becomes due later.
    later: BTreeSet<(Instant, WorkKey)>,
    items: HashMap<WorkKey, Item>,
}

struct Item {
    place: Place,
    /// When it becomes due by itself; its entry in `later`.
    due: Option<Instant>,
    /// Nothing makes it due before this: it has failed.
    not_before: Option<Instant>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// It waits to become due.
    Waiting,
    /// It is due.
    Ready,
    /// It is being decided about.
    Running,
    /// It is being decided about, and something has changed meanwhile.
    RunningStale,
}

/// When a decision is to be made again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Again {
    /// Never, unless something changes: the object is gone.
    Never,
    /// At once, after the others that are due.
    Now,
    /// After this time, or as soon as something changes.
    After(Duration),
    /// After this time, whatever changes before.
    NotBefore(Duration),
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something changed: it is due as soon as it may be.
    pub fn wake(&self, key: &WorkKey) {
        self.lock().wake(key, Instant::now());
        self.changed.notify_one();
    }

    /// Waits for the next one that is due. Until [`Queue::done`] it is not given out again.
    pub async fn next(&self) -> WorkKey {
        loop {
            let until = match self.lock().take(Instant::now()) {
                Ok(key) => return key,
                Err(until) => until,
            };
            match until {
                Some(until) => tokio::select! {
                    () = self.changed.notified() => {}
                    () = sleep_until(until) => {}
                },
                None => self.changed.notified().await,
            }
        }
    }

    /// A decision is made.
    pub fn done(&self, key: &WorkKey, again: Again) {
        self.lock().done(key, again, Instant::now());
        self.changed.notify_one();
    }
}

impl State {
    fn wake(&mut self, key: &WorkKey, now: Instant) {
        let item = self.items.entry(key.clone()).or_insert(Item {
            place: Place::Waiting,
            due: None,
            not_before: None,
        });
        match item.place {
            Place::Ready | Place::RunningStale => {}
            Place::Running => item.place = Place::RunningStale,
            Place::Waiting => match item.not_before.filter(|time| *time > now) {
                Some(time) => self.schedule(key, time),
                None => self.make_ready(key),
            },
        }
    }

    /// It is due at this time, or earlier if it was so already.
    fn schedule(&mut self, key: &WorkKey, time: Instant) {
        let Some(item) = self.items.get_mut(key) else {
            return;
        };
        if item.due.is_some_and(|due| due <= time) {
            return;
        }
        if let Some(due) = item.due.replace(time) {
            self.later.remove(&(due, key.clone()));
        }
        self.later.insert((time, key.clone()));
    }

    fn make_ready(&mut self, key: &WorkKey) {
        let Some(item) = self.items.get_mut(key) else {
            return;
        };
        if let Some(due) = item.due.take() {
            self.later.remove(&(due, key.clone()));
        }
        item.place = Place::Ready;
        self.ready.push_back(key.clone());
    }

    /// The next one that is due, or when the next one will be.
    fn take(&mut self, now: Instant) -> Result<WorkKey, Option<Instant>> {
        while let Some((due, key)) = self.later.first().cloned() {
            if due > now {
                break;
            }
            self.make_ready(&key);
        }
        let Some(key) = self.ready.pop_front() else {
            return Err(self.later.first().map(|(due, _)| *due));
        };
        if let Some(item) = self.items.get_mut(&key) {
            item.place = Place::Running;
        }
        Ok(key)
    }

    fn done(&mut self, key: &WorkKey, again: Again, now: Instant) {
        let Some(item) = self.items.get_mut(key) else {
            return;
        };
        let stale = item.place == Place::RunningStale;
        item.place = Place::Waiting;
        item.not_before = match again {
            Again::NotBefore(wait) => Some(now + wait),
            _ => None,
        };
        match again {
            Again::Never if !stale => {
                self.items.remove(key);
            }
            Again::NotBefore(wait) => self.schedule(key, now + wait),
            Again::After(wait) if !stale => self.schedule(key, now + wait),
            Again::Never | Again::Now | Again::After(_) => self.make_ready(key),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::slim::ObjectKey;

    fn key(name: &str) -> WorkKey {
        WorkKey::Rollout(ObjectKey::new("shop", name))
    }

    const SECOND: Duration = Duration::from_secs(1);

    fn take(state: &mut State, now: Instant) -> Option<WorkKey> {
        state.take(now).ok()
    }

    #[tokio::test(start_paused = true)]
    async fn one_object_is_decided_about_once_at_a_time() {
        let (mut state, now) = (State::default(), Instant::now());
        state.wake(&key("a"), now);
        state.wake(&key("a"), now);
        assert_eq!(take(&mut state, now), Some(key("a")));
        assert_eq!(take(&mut state, now), None, "it was asked for twice");
        state.wake(&key("a"), now);
        assert_eq!(take(&mut state, now), None, "it is being decided about");
        state.done(&key("a"), Again::After(60 * SECOND), now);
        assert_eq!(take(&mut state, now), Some(key("a")), "it changed meanwhile");
    }

    #[tokio::test(start_paused = true)]
    async fn a_busy_object_goes_behind_the_others() {
        let (mut state, now) = (State::default(), Instant::now());
        for name in ["a", "b", "c"] {
            state.wake(&key(name), now);
        }
        assert_eq!(take(&mut state, now), Some(key("a")));
        state.done(&key("a"), Again::Now, now);
        let order: Vec<_> = std::iter::from_fn(|| take(&mut state, now)).collect();
        assert_eq!(order, [key("b"), key("c"), key("a")]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_failed_object_waits_whatever_changes() {
        let (mut state, now) = (State::default(), Instant::now());
        state.wake(&key("a"), now);
        take(&mut state, now);
        state.wake(&key("a"), now);
        state.done(&key("a"), Again::NotBefore(5 * SECOND), now);
        state.wake(&key("a"), now);
        assert_eq!(take(&mut state, now + 4 * SECOND), None);
        assert_eq!(take(&mut state, now + 5 * SECOND), Some(key("a")));
        state.done(&key("a"), Again::After(60 * SECOND), now + 5 * SECOND);
        state.wake(&key("a"), now + 6 * SECOND);
        assert_eq!(
            take(&mut state, now + 6 * SECOND),
            Some(key("a")),
            "once it went well a change counts at once"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_comes_before_the_planned_time_and_takes_its_place() {
        let (mut state, now) = (State::default(), Instant::now());
        state.wake(&key("a"), now);
        take(&mut state, now);
        state.done(&key("a"), Again::After(60 * SECOND), now);
        state.wake(&key("a"), now + SECOND);
        assert_eq!(take(&mut state, now + SECOND), Some(key("a")));
        state.done(&key("a"), Again::After(90 * SECOND), now + SECOND);
        assert_eq!(take(&mut state, now + 60 * SECOND), None, "the old time is void");
        assert_eq!(take(&mut state, now + 91 * SECOND), Some(key("a")));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_gone_leaves_nothing_behind() {
        let (mut state, now) = (State::default(), Instant::now());
        state.wake(&key("a"), now);
        take(&mut state, now);
        state.done(&key("a"), Again::Never, now);
        assert!(state.items.is_empty() && state.later.is_empty() && state.ready.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_ends_with_a_change_or_with_time() {
        let queue = std::sync::Arc::new(Queue::default());
        let waiting = tokio::spawn({
            let queue = queue.clone();
            async move { queue.next().await }
        });
        tokio::task::yield_now().await;
        queue.wake(&key("a"));
        assert_eq!(waiting.await.unwrap(), key("a"));

        queue.done(&key("a"), Again::After(30 * SECOND));
        let began = Instant::now();
        assert_eq!(queue.next().await, key("a"));
        assert_eq!(began.elapsed().as_secs(), 30);
    }
}
