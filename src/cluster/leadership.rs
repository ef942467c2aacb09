//! Whether this process may write.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::sync::watch;

/// A permission to write that runs out by itself. Clones share it.
#[derive(Clone)]
pub struct Leadership(Arc<watch::Sender<Term>>);

/// For how long this process leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Term {
    /// It does not.
    None,
    /// Nobody else may.
    Forever,
    /// As the lease says.
    Until {
        /// From here on no request is begun.
        begin: Instant,
        /// From here on another may lead.
        end: Instant,
    },
}

impl Leadership {
    /// Begins with this term.
    #[must_use]
    pub fn new(term: Term) -> Self {
        Self(Arc::new(watch::Sender::new(term)))
    }

    /// Changes the term.
    pub fn set(&self, term: Term) {
        self.0.send_replace(term);
    }

    /// How long a write that begins now may take; `None` where none may begin.
    #[must_use]
    pub fn lasts(&self) -> Option<Duration> {
        let now = Instant::now();
        match *self.0.borrow() {
            Term::None => None,
            Term::Forever => Some(Duration::MAX),
            Term::Until { begin, end } => (now < begin).then(|| end.duration_since(now)),
        }
    }

    /// Waits until this process leads.
    pub async fn begun(&self) {
        // It fails only when the sender is dropped, and that one lives in here.
        let _ = self.0.subscribe().wait_for(|term| *term != Term::None).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_written_once_the_term_nears_its_end() {
        let leadership = Leadership::new(Term::None);
        assert_eq!(leadership.lasts(), None);
        let now = Instant::now();
        let second = Duration::from_secs(1);
        leadership.set(Term::Until { begin: now + 10 * second, end: now + 15 * second });
        assert!(leadership.lasts().is_some_and(|l| l > 14 * second && l <= 15 * second));
        leadership.set(Term::Until { begin: now, end: now + 5 * second });
        assert_eq!(leadership.lasts(), None, "no write may begin any more");
    }
}
