//! Which Deployments ask for a GrayRollout by an annotation, or did.

use super::{Index, Indexed, State, Touched, WorkKey, store::Change};
use crate::{
    cluster::slim::{Deployments, Kind, ObjectKey},
    plan::Adoption,
};

impl Index {
    /// What a decision about a Deployment's annotation looks at; `None` where there is neither one
    /// nor a GrayRollout that was made from it.
    #[must_use]
    pub fn adoption(&self, key: &ObjectKey) -> Option<Adoption> {
        let state = self.lock();
        let target = state.deployments.get(key).filter(|_| state.is_adoptable(key))?;
        let mut rollouts = state.links.rollouts_of(key);
        let other = rollouts.find(|rollout| *rollout != key);
        Some(Adoption {
            target: target.clone(),
            stages: state.asked.get(key).cloned(),
            rollout: state.rollouts.get(key).cloned(),
            other: other.map(|other| other.name.to_string()),
        })
    }
}

impl State {
    fn is_adoptable(&self, key: &ObjectKey) -> bool {
        let made = || self.rollouts.get(key).is_some_and(|rollout| rollout.made_for.is_some());
        self.asked.contains_key(key) || made()
    }

    pub(super) fn touch_adoption(&self, key: &ObjectKey, touched: &mut Touched) {
        if self.is_adoptable(key) {
            touched.insert(WorkKey::Adoption(key.clone()));
        }
    }

    /// Notes what a Deployment says in its annotation, after a change of it.
    pub(super) fn note_asked<K: Indexed>(
        &mut self,
        key: &ObjectKey,
        change: &Change<K::Object>,
        stages: Option<Box<str>>,
        touched: &mut Touched,
    ) {
        if K::KIND != Deployments::KIND || matches!(change, Change::None) {
            return;
        }
        let another = !matches!(change, Change::Updated { .. });
        let same = self.asked.get(key) == stages.as_ref();
        match stages {
            _ if same => {}
            Some(stages) => {
                self.asked.insert(key.clone(), stages);
            }
            None => {
                self.asked.remove(key);
            }
        }
        if another || !same {
            self.touch_adoption(key, touched);
        }
    }
}
