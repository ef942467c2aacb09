//! What is remembered of one object between decisions, and how long it waits after a failure.

use std::time::{Duration, Instant};

use super::queue::Again;
use crate::{
    api::{ConditionStatus, ConditionType, GrayRolloutStatus, Reason},
    cluster::{backoff::Backoff, calls::CallError, slim::ObjectKey},
};

/// How many conflicts in a row are planned again at once.
const AT_ONCE: u32 = 3;
/// The wait after more conflicts than that.
const CONFLICT: Backoff =
    Backoff { first: Duration::from_millis(50), most: Duration::from_secs(1) };
/// The wait after any other failure.
const FAILURE: Backoff =
    Backoff { first: Duration::from_millis(250), most: Duration::from_secs(20) };
/// A status that only tells of counts is written this long after the first of them changed.
const SOON: Duration = Duration::from_millis(500);
/// And longer where the API server is slow: so many times what the last write of a status took.
const SOON_TIMES: u32 = 20;
/// But no longer than this.
const SOON_MOST: Duration = Duration::from_secs(5);
/// How many decisions with writes one object may have within a second. It is well above what a
/// rollout needs, and bounds a quarrel with another writer.
const WRITES_PER_SECOND: u32 = 50;
/// An object that a person has to mend is looked at no more often than this by itself.
const ODD: Duration = Duration::from_secs(20);

/// What is remembered of one object.
#[derive(Debug, Default)]
pub struct Memo {
    /// UID of the object that this speaks of.
    uid: String,
    failures: u32,
    conflicts: u32,
    /// Since when a status that may wait has waited.
    pub soon_since: Option<Instant>,
    /// How long the API server took for the last status.
    status_took: Duration,
    /// When the approval was seen whose first ReplicaSet write is still to come.
    pub approved: Option<Instant>,
    /// What a Deployment's owner was told last and still holds.
    told: Option<String>,
    /// The ReplicaSet that was looked for without a watch.
    unseen: Option<ObjectKey>,
    /// The present second, and how many decisions with writes were in it.
    writes: Option<(Instant, u32)>,
}

impl Memo {
    /// Another object of the same name begins anew.
    pub fn meet(&mut self, uid: &str) {
        if self.uid != uid {
            *self = Self { uid: uid.to_owned(), ..Self::default() };
        }
    }

    /// Whether there is nothing worth remembering.
    pub fn is_blank(&self) -> bool {
        let lately = |(since, _): (Instant, u32)| since.elapsed() < Duration::from_secs(1);
        self.failures == 0
            && self.conflicts == 0
            && self.soon_since.is_none()
            && self.approved.is_none()
            && self.told.is_none()
            && self.unseen.is_none()
            && !self.writes.is_some_and(lately)
    }

    /// A decision was carried out.
    pub fn succeeded(&mut self) {
        self.failures = 0;
        self.conflicts = 0;
    }

    /// A decision failed; when to try again.
    pub fn failed(&mut self) -> Again {
        self.failures = self.failures.saturating_add(1);
        Again::NotBefore(FAILURE.after(self.failures))
    }

    /// Counts a conflict; whether to plan again at once.
    pub fn may_try_at_once(&mut self) -> bool {
        self.conflicts = self.conflicts.saturating_add(1);
        self.conflicts <= AT_ONCE
    }

    /// Counts a decision with writes; how long to rest where there were too many.
    pub fn rest_after_write(&mut self, now: Instant) -> Option<Duration> {
        let second = Duration::from_secs(1);
        let (since, count) = match self.writes {
            Some((since, count)) if now.duration_since(since) < second => (since, count + 1),
            _ => (now, 1),
        };
        self.writes = Some((since, count));
        (count >= WRITES_PER_SECOND).then(|| second.saturating_sub(now.duration_since(since)))
    }

    /// Notes how long a status write took; whether there was one.
    pub fn wrote_status(&mut self, took: Option<Duration>) -> bool {
        self.status_took = took.unwrap_or(self.status_took);
        took.is_some()
    }

    /// Whether what holds now is news; `None` where there is nothing to tell.
    pub fn is_news(&mut self, message: Option<&str>) -> bool {
        let news = message.is_some() && self.told.as_deref() != message;
        self.told = message.map(ToOwned::to_owned);
        news
    }

    /// The ReplicaSet that no watch knows, where it is to be looked for: once.
    pub fn news_of_unseen(&mut self, unseen: Option<ObjectKey>) -> Option<&ObjectKey> {
        let news = unseen != self.unseen;
        self.unseen = unseen;
        self.unseen.as_ref().filter(|_| news)
    }

    /// How long a status that may wait still waits, zero if it is to be written.
    pub fn soon(&mut self, now: Instant) -> Duration {
        let since = *self.soon_since.get_or_insert(now);
        let soon = self.status_took.saturating_mul(SOON_TIMES).clamp(SOON, SOON_MOST);
        soon.saturating_sub(now.duration_since(since))
    }
}

/// When to try again after a failure.
pub fn after_failure(memo: &mut Memo, error: &CallError) -> Again {
    match error {
        CallError::Conflict(_) => {
            let more = memo.conflicts.saturating_sub(AT_ONCE);
            Again::NotBefore(CONFLICT.after(more))
        }
        CallError::Throttled { after, .. } => match memo.failed() {
            Again::NotBefore(wait) => Again::NotBefore(wait.max(*after)),
            again => again,
        },
        // The process ends, or waits to lead again.
        CallError::NotLeading => Again::NotBefore(ODD),
        _ => memo.failed(),
    }
}

/// When to look again by itself, which is seldom for what a person has to mend.
pub fn patience(status: &GrayRolloutStatus, after: Option<Duration>) -> Option<Duration> {
    let odd = status.conditions.iter().any(|condition| {
        condition.type_ == ConditionType::Stalled
            && condition.status == ConditionStatus::True
            && matches!(
                condition.reason,
                Reason::InvalidSpec
                    | Reason::InvalidTemplate
                    | Reason::UnsupportedStrategy
                    | Reason::TargetConflict
            )
    });
    if odd { after.map(|a| a.max(ODD)) } else { after }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(again: Again) -> Duration {
        match again {
            Again::NotBefore(wait) => wait,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn conflicts_are_tried_at_once_a_few_times_and_then_each_second_at_most() {
        let mut memo = Memo::default();
        let conflict = CallError::Conflict("stale".into());
        for _ in 0..3 {
            assert!(memo.may_try_at_once());
        }
        let mut last = Duration::ZERO;
        for _ in 0..10 {
            assert!(!memo.may_try_at_once());
            last = wait(after_failure(&mut memo, &conflict));
        }
        assert!(last >= Duration::from_millis(900) && last <= Duration::from_secs(1));
        memo.succeeded();
        assert!(memo.may_try_at_once());
    }

    #[test]
    fn failures_wait_longer_and_longer_up_to_20_seconds() {
        let mut memo = Memo::default();
        let failure = CallError::Timeout(Duration::from_secs(10));
        let waits: Vec<_> = (0..12).map(|_| wait(after_failure(&mut memo, &failure))).collect();
        assert!(waits[0] < Duration::from_millis(300));
        assert!(waits[3..].iter().all(|w| *w >= Duration::from_secs(1)));
        assert!(waits[11] <= Duration::from_secs(20) && waits[11] >= Duration::from_secs(18));
    }

    #[test]
    fn the_api_servers_wish_to_wait_is_granted() {
        let busy = CallError::Throttled { after: Duration::from_secs(7), message: String::new() };
        assert_eq!(wait(after_failure(&mut Memo::default(), &busy)), Duration::from_secs(7));
    }

    #[test]
    fn another_object_of_the_same_name_begins_anew() {
        let mut memo = Memo::default();
        memo.meet("u-1");
        for _ in 0..9 {
            memo.failed();
        }
        memo.meet("u-1");
        assert!(wait(memo.failed()) > Duration::from_secs(15));
        memo.meet("u-2");
        assert!(wait(memo.failed()) < Duration::from_secs(1));
    }

    #[test]
    fn what_still_holds_is_told_once() {
        let mut memo = Memo::default();
        assert!(memo.is_blank() && memo.is_news(Some("bad")));
        assert!(!memo.is_news(Some("bad")) && !memo.is_blank());
        assert!(memo.is_news(Some("worse")));
        assert!(!memo.is_news(None) && memo.is_blank());
        assert!(memo.is_news(Some("worse")));
    }

    #[test]
    fn what_no_watch_knows_is_looked_for_once() {
        let (mut memo, key) = (Memo::default(), ObjectKey::new("shop", "web-1"));
        assert_eq!(memo.news_of_unseen(Some(key.clone())), Some(&key));
        assert_eq!(memo.news_of_unseen(Some(key.clone())), None);
        assert!(!memo.is_blank(), "it is remembered");
        assert_eq!(memo.news_of_unseen(None), None);
        assert_eq!(memo.news_of_unseen(Some(key.clone())), Some(&key));
    }

    #[test]
    fn a_quarrel_with_another_writer_is_bounded() {
        let mut memo = Memo::default();
        let now = Instant::now();
        let rests = (0..WRITES_PER_SECOND).filter_map(|_| memo.rest_after_write(now));
        assert_eq!(rests.count(), 1);
        assert_eq!(memo.rest_after_write(now + Duration::from_secs(1)), None);
    }

    #[test]
    fn counts_that_change_often_are_written_once_in_a_while() {
        let mut memo = Memo::default();
        let (now, ms) = (Instant::now(), Duration::from_millis);
        assert_eq!(memo.soon(now), ms(500));
        assert_eq!(memo.soon(now + ms(400)), ms(100));
        assert!(memo.soon(now + ms(500)).is_zero());
    }

    #[test]
    fn a_slow_api_server_is_spared_counts() {
        let (now, ms) = (Instant::now(), Duration::from_millis);
        for (took, waits) in [(0, 500), (20, 500), (100, 2000), (10_000, 5000)] {
            let mut memo = Memo::default();
            assert!(memo.wrote_status(Some(ms(took))) && !memo.wrote_status(None));
            assert_eq!(memo.soon(now), ms(waits), "after {took} ms");
        }
    }
}
