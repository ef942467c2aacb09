//! What becomes of the events of a watch.

use std::{collections::VecDeque, time::Duration};

use axum::body::{Body, BodyDataStream, Bytes};
use futures::StreamExt;
use serde_json::json;
use tokio::sync::broadcast::Receiver;

use super::Faults;

/// The one event that says that the watch cannot go on from where it was.
pub(super) fn gone() -> Body {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure",
        "message": "too old resource version", "reason": "Expired", "code": 410,
    });
    Body::from(format!("{}\n", json!({"type": "ERROR", "object": status})))
}

/// The events of a watch with a fault. What ends by itself ends well; what is cut breaks.
pub(super) fn disturbed(body: Body, fault: Faults, cut: Receiver<()>) -> Body {
    let watch = Watch {
        data: body.into_data_stream(),
        cut,
        fault,
        rest: Vec::new(),
        ready: VecDeque::new(),
        count: 0,
    };
    Body::from_stream(futures::stream::unfold(watch, |mut watch| async move {
        let item = watch.next().await?;
        Some((item, watch))
    }))
}

struct Watch {
    data: BodyDataStream,
    cut: Receiver<()>,
    fault: Faults,
    /// The beginning of an event whose end is still to come.
    rest: Vec<u8>,
    /// Events to pass on.
    ready: VecDeque<Bytes>,
    count: u64,
}

impl Watch {
    async fn next(&mut self) -> Option<Result<Bytes, axum::Error>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                if let Faults::LateEvents(time) = self.fault
                    && self.is_cut_within(time).await
                {
                    return Some(Err(axum::Error::new("cut")));
                }
                return Some(Ok(event));
            }
            let chunk = tokio::select! {
                chunk = self.data.next() => chunk?,
                _ = self.cut.recv() => Err(axum::Error::new("cut")),
            };
            match chunk {
                Ok(bytes) => self.take(&bytes),
                Err(error) => return Some(Err(error)),
            }
        }
    }

    async fn is_cut_within(&mut self, time: Duration) -> bool {
        tokio::time::timeout(time, self.cut.recv()).await.is_ok()
    }

    /// An event is a line.
    fn take(&mut self, bytes: &[u8]) {
        self.rest.extend_from_slice(bytes);
        while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
            let event = Bytes::from(self.rest.drain(..=end).collect::<Vec<_>>());
            self.count += 1;
            match self.fault {
                Faults::LoseEvents(lost) if self.count % 4 < u64::from(lost) => {}
                Faults::RepeatEvents => self.ready.extend([event.clone(), event]),
                _ => self.ready.push_back(event),
            }
        }
    }
}
