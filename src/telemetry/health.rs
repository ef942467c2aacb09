//! Whether the process is well.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// For how long something may be broken before the process counts as ill.
const PATIENCE: Duration = Duration::from_mins(1);

/// What is broken or busy at the moment, and since when.
#[derive(Default)]
pub struct Health(Mutex<BTreeMap<String, Instant>>);

impl Health {
    /// Something is broken, or has begun and must end; an earlier report of it stays.
    pub fn since_now(&self, what: &str) {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        open.entry(what.to_owned()).or_insert_with(Instant::now);
    }

    /// It is well again, or has ended.
    pub fn over(&self, what: &str) {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        open.remove(what);
    }

    /// What has been broken or busy for longer than a minute.
    #[must_use]
    pub fn complaints(&self) -> Vec<String> {
        self.complaints_after(PATIENCE)
    }

    fn complaints_after(&self, patience: Duration) -> Vec<String> {
        let open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        open.iter()
            .map(|(what, since)| (what, since.elapsed()))
            .filter(|(_, age)| *age > patience)
            .map(|(what, age)| format!("{what} for {} s", age.as_secs()))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lasts_is_complained_about_until_it_is_over() {
        let health = Health::default();
        health.since_now("the watch of deployments is broken");
        assert!(health.complaints().is_empty(), "a minute has not passed");
        let complaints = health.complaints_after(Duration::ZERO);
        assert_eq!(complaints, ["the watch of deployments is broken for 0 s"]);
        health.over("the watch of deployments is broken");
        assert!(health.complaints_after(Duration::ZERO).is_empty());
    }
}
