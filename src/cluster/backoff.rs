//! Waiting between tries.

use std::time::Duration;

/// Bounds of a wait that doubles with every failure.
#[derive(Debug, Clone, Copy)]
pub struct Backoff {
    /// After the first failure.
    pub first: Duration,
    /// After many.
    pub most: Duration,
}

impl Backoff {
    /// The wait after so many failures in a row, with jitter.
    #[must_use]
    pub fn after(self, failures: u32) -> Duration {
        let doubled = 2_u32.saturating_pow(failures.saturating_sub(1));
        jitter(self.first.saturating_mul(doubled).min(self.most))
    }
}

/// A time from nine tenths to the whole of this one, so that many do not come at once.
#[must_use]
pub fn jitter(time: Duration) -> Duration {
    time.mul_f64(0.9 + 0.1 * fastrand::f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_doubles_up_to_its_bound() {
        let backoff = Backoff { first: Duration::from_millis(100), most: Duration::from_secs(20) };
        for (failures, millis) in [(1, 100), (2, 200), (5, 1600), (9, 20_000), (u32::MAX, 20_000)] {
            let wait = backoff.after(failures);
            let whole = Duration::from_millis(millis);
            assert!(wait <= whole && wait >= whole.mul_f64(0.89), "{failures}: {wait:?}");
        }
    }
}
