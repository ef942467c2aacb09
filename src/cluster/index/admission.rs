//! Where new templates are held by admission.

use std::time::{Duration, Instant};

use tracing::info;

use super::{Index, State, WorkKey};
use crate::{
    cluster::{
        admission::{
            policies::{Listing, PolicyKind, Verdict},
            proofs::{Pair, Trial},
        },
        slim::ObjectKey,
    },
    plan::{Admission, Rollout, Target},
};

/// What is to be tried out.
pub struct ToTry {
    /// The GrayRollout.
    pub rollout: Rollout,
    /// Its Deployment.
    pub target: Target,
    /// The state of the policies.
    pub epoch: u64,
}

impl Index {
    /// Changes what is known of the policies of one kind.
    pub fn policies(&self, kind: PolicyKind, change: impl FnOnce(&mut Listing)) {
        self.change(|state, touched| {
            let before = state.proofs.policies.verdict();
            if !state.proofs.policies.change(kind, change) {
                return;
            }
            state.proofs.renew(before == Verdict::Unknown);
            touched.extend(state.rollouts.keys().cloned().map(WorkKey::Rollout));
            let now = state.proofs.policies.verdict();
            if now != before {
                tell(&now);
            }
        });
    }

    /// How long until it is to be tried whether a new template is held, zero if now; `None` where
    /// there is nothing to try.
    #[must_use]
    pub fn trial_due(&self, key: &ObjectKey) -> Option<Duration> {
        let state = self.lock();
        let rollout = state.rollouts.get(key)?;
        let target = state.target_of(key, rollout)?;
        state.proofs.due(key, &pair(rollout, target), Instant::now())
    }

    /// What to try for a GrayRollout; `None` where it or its Deployment is gone.
    #[must_use]
    pub fn to_try(&self, key: &ObjectKey) -> Option<ToTry> {
        let state = self.lock();
        let rollout = state.rollouts.get(key)?.clone();
        let target = state.target_of(key, &rollout)?.clone();
        Some(ToTry { rollout, target, epoch: state.proofs.epoch() })
    }

    /// Takes in what a trial came to; whether decisions see something new.
    pub fn tried(&self, key: &ObjectKey, tried: &ToTry, trial: Trial, resync: Duration) -> bool {
        let pair = pair(&tried.rollout, &tried.target);
        self.lock().proofs.tried(key, pair, tried.epoch, trial, resync)
    }
}

impl State {
    /// What a decision is told.
    pub(super) fn admission(&self, key: &ObjectKey, rollout: &Rollout) -> Admission {
        match self.target_of(key, rollout) {
            Some(target) => self.proofs.fact(key, &pair(rollout, target)),
            None => Admission::Unknown,
        }
    }
}

fn pair(rollout: &Rollout, target: &Target) -> Pair {
    (rollout.uid.clone(), target.uid.clone())
}

fn tell(verdict: &Verdict) {
    match verdict {
        Verdict::Unknown => {}
        Verdict::Absent(why) => {
            info!(why, "new templates are not held by admission: Deployments rest paused");
        }
        Verdict::Installed { flaw: Some(flaw) } => {
            info!(flaw, "the admission policies are installed, but not all is well");
        }
        Verdict::Installed { flaw: None } => info!("the admission policies are installed"),
    }
}
