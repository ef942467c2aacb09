//! Whether a rollout whose Deployment never stops changing slows others down.

use std::time::Duration;

use grayrollout_e2e::{Test, grayrollout};
use serde_json::json;

use crate::{approvals::approved, figures::Figure, report::Report};

/// Writes of the noisy Deployment: 50 in a second.
const BETWEEN: Duration = Duration::from_millis(20);

/// Measures approvals without and with such a neighbour.
pub async fn measure(test: &Test, report: &mut Report) {
    test.manage(4, &grayrollout("web", &[25, 100])).await;
    let calm = approved(test, "calm", Duration::ZERO).await;
    let (api, path) = (test.api.clone(), test.deployment_path("web"));
    let noise = tokio::spawn(async move {
        let mut beat = tokio::time::interval(BETWEEN);
        for number in 0_u64.. {
            beat.tick().await;
            let patch = json!({"metadata": {"annotations": {"noise": number.to_string()}}});
            api.patch(&path, &patch).await.expect("the patch is taken");
        }
    });
    let beside = approved(test, "beside", Duration::ZERO).await;
    noise.abort();
    report.add([Figure {
        what: "approved at once beside a noisy rollout -> first ReplicaSet write, ms".into(),
        unit: "ms",
        samples: beside.iter().map(|latency| latency.stored).collect(),
        native: calm.iter().map(|latency| latency.stored).collect(),
        target: None,
        more: json!({"native": "the operator's own without the noisy one"}),
    }]);
}
