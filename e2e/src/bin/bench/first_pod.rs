//! From a new template to its first pod.

use std::time::Duration;

use grayrollout_e2e::{Json, Test, deployment, grayrollout, new_template, stages};
use serde_json::{Value, json};

use crate::{
    audit::{Mark, Request, millis},
    figures::{Figure, Target, percentile},
    report::Report,
};

const ROUNDS: usize = 200;
const REPLICAS: i64 = 2;
const PATIENCE: Duration = Duration::from_mins(1);
/// After this long without a write nothing is left of the rollout before.
const QUIET: Duration = Duration::from_millis(500);

/// Measures templates of a Deployment with a GrayRollout and of one without, in turn.
pub async fn measure(test: &Test, report: &mut Report) {
    let bounds = json!({"spec": {"strategy": {"type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}}});
    let stages = stages(&[50, 100], &json!({"approval": "Automatic"}));
    let gray = grayrollout("gray", &[100]).with(json!({"spec": {"stages": stages}}));
    test.create(&deployment("native", REPLICAS).with(bounds.clone())).await;
    test.manage_with(&deployment("gray", REPLICAS).with(bounds), &gray).await;
    let (mut ours, mut native) = (Vec::<(f64, Vec<Value>)>::new(), Vec::new());
    for round in 0..ROUNDS {
        if round % 20 == 0 {
            println!("templates: {round} of {ROUNDS}");
        }
        let version = format!("v{}", round + 2);
        for (name, samples) in [("native", &mut native), ("gray", &mut ours)] {
            let mark = Mark::now(test);
            let patch = new_template(&version, json!({}));
            test.api.patch(&test.deployment_path(name), &patch).await.expect("it is taken");
            test.until_within("the rollout ends", PATIENCE, |now| {
                let split = now.split(name);
                let image = now.deployment(name).text("/spec/template/spec/containers/0/image");
                let completed = now.gr(name).text("/status/phase") == "Completed";
                image == format!("app:{version}")
                    && (split.new, split.old) == (REPLICAS, 0)
                    && now.settled(name)
                    && (name == "native" || completed)
            })
            .await;
            // The test harness itself keeps writing a ConfigMap.
            mark.quiet(test, QUIET, |request| request.resource != "configmaps").await;
            samples.extend(first_pod(&mark.requests(test), name));
        }
    }
    let samples = |all: &[(f64, Vec<Value>)]| all.iter().map(|(took, _)| *took).collect::<Vec<_>>();
    let (all, native) = (samples(&ours), samples(&native));
    let median = percentile(&all, 50);
    let timeline = ours.into_iter().find(|(took, _)| (took - median).abs() < 1e-9);
    let timeline = timeline.map(|(_, timeline)| timeline);
    report.add([Figure {
        what: "template patched -> first new pod stored, ms".into(),
        unit: "ms",
        samples: all,
        native,
        target: Some(Target::Median(60.0)),
        more: json!({"replicas": REPLICAS, "timelineOfTheMedian": timeline}),
    }]);
}

/// One Deployment rolls out at a time, so that the first pod is its own. The time until then, and
/// what happened in it.
fn first_pod(requests: &[Request], name: &str) -> Option<(f64, Vec<Value>)> {
    let patch = requests.iter().find(|request| {
        !request.ours
            && !request.native
            && request.resource == "deployments"
            && request.name == name
    })?;
    let pod = requests.iter().find(|request| {
        request.verb == "create" && request.resource == "pods" && request.received > patch.received
    })?;
    let within =
        |request: &&Request| request.received >= patch.received && request.received <= pod.answered;
    let timeline = requests.iter().filter(within).map(|request| request.since(patch.received));
    Some((millis(patch.received, pod.answered), timeline.collect()))
}
