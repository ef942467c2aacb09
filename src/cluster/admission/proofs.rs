//! Where a new template was seen to be held, and when to try again.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use super::policies::{Policies, Verdict};
use crate::{
    cluster::{
        backoff::{Backoff, jitter},
        slim::ObjectKey,
    },
    plan::Admission,
};

/// After a failed trial the next one waits this long at first. A new policy takes up to 20 s until
/// it is in effect.
const FIRST: Duration = Duration::from_secs(1);
/// And so long it may take until a change of one is.
const SETTLE: Duration = Duration::from_secs(25);
/// So many trials in a row must come to nothing before an earlier result is given up.
const PATIENCE: u32 = 3;

/// What a trial came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trial {
    /// The new template was held.
    Held,
    /// It was not; why.
    NotHeld(String),
    /// It could not be tried; why.
    Failed(String),
}

/// Whose template was tried: the GrayRollout's UID and its Deployment's.
pub type Pair = (String, String);

#[derive(Debug)]
struct Proof {
    pair: Pair,
    /// The state of the policies that it was tried under.
    epoch: u64,
    /// Whether it is held, or why not; `None` where that could not be tried yet.
    held: Option<Result<(), String>>,
    /// Trials in a row that did not show that it is held.
    failures: u32,
    due: Instant,
}

/// The policies, and where they were seen to hold.
#[derive(Debug, Default)]
pub struct Proofs {
    /// The policies.
    pub policies: Policies,
    /// Grows with every change of the policies.
    epoch: u64,
    /// When they changed last, the first list aside.
    changed: Option<Instant>,
    tried: HashMap<ObjectKey, Proof>,
}

impl Proofs {
    /// The policies changed, or are known for the first time: everything is to be tried again.
    pub fn renew(&mut self, first: bool) {
        self.epoch += 1;
        if !first {
            self.changed = Some(Instant::now());
        }
    }

    /// The state of the policies that a trial which begins now is made under.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// How long until it is to be tried, zero if now; `None` where there is nothing to try.
    #[must_use]
    pub fn due(&self, key: &ObjectKey, pair: &Pair, now: Instant) -> Option<Duration> {
        if !matches!(self.policies.verdict(), Verdict::Installed { .. }) {
            return None;
        }
        let current = |proof: &&Proof| proof.pair == *pair && proof.epoch == self.epoch;
        let proof = self.tried.get(key).filter(current);
        Some(proof.map_or(Duration::ZERO, |proof| proof.due.saturating_duration_since(now)))
    }

    /// Takes in a trial, after which the next is due latest after `resync`; whether that changes
    /// anything.
    pub fn tried(
        &mut self,
        key: &ObjectKey,
        pair: Pair,
        epoch: u64,
        trial: Trial,
        resync: Duration,
    ) -> bool {
        let before = self.fact(key, &pair);
        let earlier = self.tried.remove(key).filter(|proof| proof.pair == pair);
        let failures = match trial {
            Trial::Held => 0,
            Trial::NotHeld(_) | Trial::Failed(_) => {
                earlier.as_ref().filter(|e| e.epoch == epoch).map_or(0, |e| e.failures) + 1
            }
        };
        let held = match trial {
            Trial::Held => Some(Ok(())),
            // A GrayRollout that was just made is not known to every part of the API server yet.
            Trial::NotHeld(_) if earlier.is_none() => None,
            Trial::NotHeld(why) => Some(Err(why)),
            Trial::Failed(why) if failures >= PATIENCE => Some(Err(why)),
            Trial::Failed(_) => earlier.and_then(|proof| proof.held),
        };
        let wait = match failures {
            0 => self.unsettled().unwrap_or_else(|| jitter(resync)),
            _ => Backoff { first: FIRST, most: resync }.after(failures),
        };
        let due = Instant::now() + wait;
        self.tried.insert(key.clone(), Proof { pair: pair.clone(), epoch, held, failures, due });
        self.fact(key, &pair) != before
    }

    /// Where the policies changed a moment ago, a trial may have met the earlier ones: how long
    /// until it is worth another.
    fn unsettled(&self) -> Option<Duration> {
        let since = self.changed?.elapsed();
        (since < SETTLE / 2)
            .then(|| SETTLE.mul_f64(0.5 + 0.5 * fastrand::f64()).saturating_sub(since))
    }

    /// The GrayRollout is gone.
    pub fn forget(&mut self, key: &ObjectKey) {
        self.tried.remove(key);
    }

    /// What a decision is told.
    #[must_use]
    pub fn fact(&self, key: &ObjectKey, pair: &Pair) -> Admission {
        let flaw = match self.policies.verdict() {
            Verdict::Unknown => return Admission::Unknown,
            Verdict::Absent(why) => return Admission::Absent(why),
            Verdict::Installed { flaw } => flaw,
        };
        let proof = self.tried.get(key).filter(|proof| proof.pair == *pair);
        match proof.and_then(|proof| proof.held.as_ref()) {
            None => Admission::Unknown,
            Some(Ok(())) => Admission::Holds { flaw },
            Some(Err(why)) => Admission::Absent(match flaw {
                Some(flaw) => format!("{why}; {flaw}"),
                None => why.clone(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{
        super::policies::{Listing, PolicyKind, PolicyObject},
        *,
    };

    const RESYNC: Duration = Duration::from_mins(10);

    fn proofs() -> Proofs {
        let mut proofs = Proofs::default();
        let object = PolicyObject { state: ("u".into(), 1), version: Some("v1".into()) };
        for kind in PolicyKind::ALL {
            let names = ["hold", "guard", "stamp", "approve", "stages"];
            let names = names.map(|n| format!("grayrollout-{n}"));
            let all: BTreeMap<_, _> = names.into_iter().map(|n| (n, object.clone())).collect();
            proofs.policies.change(kind, |listing| *listing = Listing::Seen(all));
        }
        proofs
    }

    fn key() -> ObjectKey {
        ObjectKey::new("shop", "web")
    }

    fn pair() -> Pair {
        ("gray".into(), "deployment".into())
    }

    fn tried(proofs: &mut Proofs, trial: Trial) -> bool {
        proofs.tried(&key(), pair(), proofs.epoch(), trial, RESYNC)
    }

    fn due(proofs: &Proofs) -> Duration {
        proofs.due(&key(), &pair(), Instant::now()).expect("it is tried again")
    }

    fn absent(why: &str) -> Admission {
        Admission::Absent(why.into())
    }

    #[test]
    fn one_that_was_just_made_gets_a_second_trial_before_it_is_said_not_to_be_held() {
        let mut proofs = proofs();
        assert!(!tried(&mut proofs, Trial::NotHeld("not in effect".into())));
        assert_eq!(proofs.fact(&key(), &pair()), Admission::Unknown);
        assert!(due(&proofs) <= FIRST);
        assert!(tried(&mut proofs, Trial::NotHeld("not in effect".into())));
        assert_eq!(proofs.fact(&key(), &pair()), absent("not in effect"));
    }

    #[test]
    fn what_was_held_and_is_not_any_more_is_believed_at_once() {
        let mut proofs = proofs();
        tried(&mut proofs, Trial::Held);
        assert!(tried(&mut proofs, Trial::NotHeld("not in effect".into())));
        assert_eq!(proofs.fact(&key(), &pair()), absent("not in effect"));
    }

    const HELD: Admission = Admission::Holds { flaw: None };

    #[test]
    fn it_is_tried_at_once_and_again_at_the_resync() {
        let mut proofs = proofs();
        assert_eq!(proofs.fact(&key(), &pair()), Admission::Unknown);
        assert!(due(&proofs).is_zero());
        assert!(tried(&mut proofs, Trial::Held));
        assert_eq!(proofs.fact(&key(), &pair()), HELD);
        assert!(due(&proofs) > Duration::from_secs(500));
        assert!(!tried(&mut proofs, Trial::Held), "no news");
    }

    #[test]
    fn what_does_not_hold_yet_is_tried_often_at_first_and_then_seldom() {
        let mut proofs = proofs();
        let mut waited = Duration::ZERO;
        let mut trials = 0;
        while waited < Duration::from_mins(1) {
            tried(&mut proofs, Trial::NotHeld("not in effect".into()));
            waited += due(&proofs);
            trials += 1;
        }
        assert!((5..=7).contains(&trials), "{trials} trials in a minute");
        assert_eq!(proofs.fact(&key(), &pair()), absent("not in effect"));
        for _ in 0..20 {
            tried(&mut proofs, Trial::NotHeld("not in effect".into()));
        }
        assert!(due(&proofs) <= RESYNC && due(&proofs) > Duration::from_secs(500));
    }

    #[test]
    fn a_change_of_the_policies_calls_for_another_trial_and_keeps_the_result_until_then() {
        let mut proofs = proofs();
        tried(&mut proofs, Trial::Held);
        let began = proofs.epoch();
        proofs.renew(false);
        assert!(due(&proofs).is_zero());
        assert_eq!(proofs.fact(&key(), &pair()), HELD);
        proofs.tried(&key(), pair(), began, Trial::Held, RESYNC);
        assert!(due(&proofs).is_zero(), "that trial began before the change");
        tried(&mut proofs, Trial::Held);
        let soon = due(&proofs);
        assert!(soon > SETTLE / 3 && soon <= SETTLE, "it may have met the earlier policies");
    }

    #[test]
    fn trouble_takes_the_result_away_only_when_it_lasts() {
        let mut proofs = proofs();
        tried(&mut proofs, Trial::Held);
        for _ in 1..PATIENCE {
            tried(&mut proofs, Trial::Failed("no answer".into()));
            assert_eq!(proofs.fact(&key(), &pair()), HELD);
        }
        tried(&mut proofs, Trial::Failed("no answer".into()));
        assert_eq!(proofs.fact(&key(), &pair()), absent("no answer"));
    }

    #[test]
    fn another_deployment_or_rollout_is_tried_anew() {
        let mut proofs = proofs();
        tried(&mut proofs, Trial::Held);
        let other = ("gray".to_owned(), "recreated".to_owned());
        assert_eq!(proofs.fact(&key(), &other), Admission::Unknown);
        assert_eq!(proofs.due(&key(), &other, Instant::now()), Some(Duration::ZERO));
    }
}
