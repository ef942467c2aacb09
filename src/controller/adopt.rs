//! One decision about a Deployment's annotation.

use super::{
    memo::Memo,
    reconcile::{Pass, Reconciler},
};
use crate::{
    cluster::{calls::CallError, slim::ObjectKey},
    plan::{self, Event, EventKind, EventOn},
};

impl Reconciler {
    pub(super) async fn adopt(&self, key: &ObjectKey, memo: &mut Memo) -> Result<Pass, CallError> {
        let Some(adoption) = self.index.adoption(key) else {
            return Ok(Pass::Gone);
        };
        let target = &adoption.target;
        memo.meet(&target.uid);
        let plan = plan::adopt(&adoption);
        let Some(action) = &plan.action else {
            let event = plan.event.as_ref();
            if memo.is_news(event.map(|event| event.message.as_str()))
                && let Some(event) = event
            {
                self.events.on_target(target, event);
            }
            return Ok(Pass::Rest(None));
        };
        if let Err(error) = self.applier.adopt(target, action).await {
            if let CallError::Refused { message, .. } = &error {
                let message = format!("the GrayRollout of the annotation was refused: {message}");
                if memo.is_news(Some(&message)) {
                    let kind = EventKind::StagesIgnored;
                    self.events.on_target(target, &Event { kind, message, on: EventOn::Target });
                }
            }
            return Err(error);
        }
        memo.is_news(None);
        if let Some(event) = &plan.event {
            self.events.on_target(target, event);
        }
        Ok(Pass::Wrote)
    }
}
