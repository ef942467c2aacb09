//! Everything that is counted. The gauges of single GrayRollouts are in [`super::objects`].

use std::collections::{BTreeSet, HashMap};

use prometheus::{
    Histogram, HistogramOpts, HistogramVec, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
    TextEncoder,
    core::{Collector, MetricVec, MetricVecBuilder},
    process_collector::ProcessCollector,
};

use crate::{
    api::GrayRolloutStatus,
    plan::{Event, EventKind},
};

/// Bounds in seconds for work inside the process and single requests.
const SHORT: &[f64] =
    &[0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
/// Bounds in seconds for what takes minutes to days.
const LONG: &[f64] =
    &[1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 1800.0, 3600.0, 14400.0, 43200.0, 86400.0, 604_800.0];

/// What the reference tells of one metric.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Described {
    /// Its name.
    pub name: String,
    /// counter, gauge or histogram.
    pub kind: &'static str,
    /// Names of its labels.
    pub labels: Vec<String>,
    /// What it tells.
    pub help: String,
}

/// A registry that knows what was registered.
#[derive(Default)]
struct Registrar {
    registry: Registry,
    described: Vec<Described>,
}

impl Registrar {
    fn add<C: Collector + 'static>(&mut self, kind: &'static str, metric: C) -> Outcome<()> {
        self.described.extend(metric.desc().into_iter().map(|desc| Described {
            name: desc.fq_name.clone(),
            kind: if desc.fq_name.ends_with("_total") { "counter" } else { kind },
            labels: desc.variable_labels.clone(),
            help: desc.help.clone(),
        }));
        self.registry.register(Box::new(metric))
    }

    fn counter(&mut self, name: &str, help: &str, labels: &[&str]) -> Outcome<IntCounterVec> {
        let metric = IntCounterVec::new(Opts::new(name, help), labels)?;
        self.add("counter", metric.clone())?;
        Ok(metric)
    }

    fn histogram(
        &mut self,
        name: &str,
        help: &str,
        bounds: &[f64],
        labels: &[&str],
    ) -> Outcome<HistogramVec> {
        let opts = HistogramOpts::new(name, help).buckets(bounds.to_vec());
        let metric = HistogramVec::new(opts, labels)?;
        self.add("histogram", metric.clone())?;
        Ok(metric)
    }

    /// Which version this is, and what the process uses.
    fn process(&mut self) -> Outcome<()> {
        let opts = Opts::new("grayrollout_build_info", "Always 1; the version is a label.");
        let build = IntGaugeVec::new(opts, &["version"])?;
        build.with_label_values(&[env!("CARGO_PKG_VERSION")]).set(1);
        self.add("gauge", build)?;
        self.add("gauge", ProcessCollector::for_self())
    }
}

type Outcome<T> = prometheus::Result<T>;

/// The counters, gauges and histograms of this process, in a registry of its own.
pub struct Metrics {
    registry: Registry,
    described: Vec<Described>,
    rollouts: IntCounterVec,
    approvals: IntCounterVec,
    stage_duration: HistogramVec,
    approval_wait: HistogramVec,
    rollout_duration: HistogramVec,
    drift: IntCounterVec,
    /// Seconds of one decision with its writes; result.
    pub reconcile_duration: HistogramVec,
    /// Failed decisions; reason.
    pub reconcile_errors: IntCounterVec,
    /// Requests to the API server; verb, resource, code.
    pub requests: IntCounterVec,
    /// Seconds until the API server answered; verb, resource.
    pub request_duration: HistogramVec,
    /// Watch events; resource.
    pub watch_events: IntCounterVec,
    /// Watches begun anew after an error; resource.
    pub watch_restarts: IntCounterVec,
    /// Seconds from seeing an approval to the first ReplicaSet write.
    pub approve_to_scale: Histogram,
    /// Events told to people; reason, result.
    pub events: IntCounterVec,
    check_measurements: IntCounterVec,
    hook_calls: IntCounterVec,
    /// Seconds of a call to a webhook or Prometheus; kind.
    pub outbound_duration: HistogramVec,
    /// 1 while this process leads.
    pub leader: IntGauge,
}

impl Metrics {
    /// Registers everything.
    ///
    /// # Errors
    ///
    /// Fails where two metrics have the same name.
    #[allow(clippy::too_many_lines)] // a list, one entry after the other
    pub fn new() -> prometheus::Result<Self> {
        let mut all = Registrar::default();
        let approve_to_scale = Histogram::with_opts(
            HistogramOpts::new(
                "grayrollout_approve_to_scale_seconds",
                "Time from seeing an approval to the first ReplicaSet write.",
            )
            .buckets(SHORT.to_vec()),
        )?;
        all.add("histogram", approve_to_scale.clone())?;
        let leader = IntGauge::new("grayrollout_leader", "1 while this process leads.")?;
        all.add("gauge", leader.clone())?;
        all.process()?;

        Ok(Self {
            rollouts: all.counter(
                "grayrollout_rollouts_total",
                "Rollouts that ended.",
                &["namespace", "result"],
            )?,
            approvals: all.counter(
                "grayrollout_approvals_total",
                "Approvals that counted, and that did not.",
                &["namespace", "result"],
            )?,
            stage_duration: all.histogram(
                "grayrollout_stage_duration_seconds",
                "Time from entering a stage until all its pods were available.",
                LONG,
                &["namespace"],
            )?,
            approval_wait: all.histogram(
                "grayrollout_approval_wait_seconds",
                "Time that a stage waited for its approval.",
                LONG,
                &["namespace"],
            )?,
            rollout_duration: all.histogram(
                "grayrollout_rollout_duration_seconds",
                "Time from the start of a rollout to its end.",
                LONG,
                &["namespace"],
            )?,
            drift: all.counter(
                "grayrollout_drift_corrections_total",
                "Changes by others that were put back.",
                &["namespace", "field"],
            )?,
            reconcile_duration: all.histogram(
                "grayrollout_reconcile_duration_seconds",
                "Time of one decision with its writes.",
                SHORT,
                &["result"],
            )?,
            reconcile_errors: all.counter(
                "grayrollout_reconcile_errors_total",
                "Decisions that could not be carried out.",
                &["reason"],
            )?,
            requests: all.counter(
                "grayrollout_api_requests_total",
                "Requests to the API server.",
                &["verb", "resource", "code"],
            )?,
            request_duration: all.histogram(
                "grayrollout_api_request_duration_seconds",
                "Time until the API server answered.",
                SHORT,
                &["verb", "resource"],
            )?,
            watch_events: all.counter(
                "grayrollout_watch_events_total",
                "Objects that came by list or watch.",
                &["resource"],
            )?,
            watch_restarts: all.counter(
                "grayrollout_watch_restarts_total",
                "Watches begun anew after an error.",
                &["resource"],
            )?,
            events: all.counter(
                "grayrollout_events_total",
                "Events told to people, by what became of them.",
                &["reason", "result"],
            )?,
            check_measurements: all.counter(
                "grayrollout_check_measurements_total",
                "Measurements of checks.",
                &["namespace", "result"],
            )?,
            hook_calls: all.counter(
                "grayrollout_hook_calls_total",
                "Calls of hooks.",
                &["namespace", "event", "result"],
            )?,
            outbound_duration: all.histogram(
                "grayrollout_outbound_request_duration_seconds",
                "Time until a webhook or Prometheus answered.",
                SHORT,
                &["kind"],
            )?,
            approve_to_scale,
            leader,
            registry: all.registry,
            described: all.described,
        })
    }

    /// Counts what an event tells of.
    pub fn observe(&self, namespace: &str, event: &Event) {
        let ended = |result: &str, seconds: Option<f64>| {
            self.rollouts.with_label_values(&[namespace, result]).inc();
            if let Some(seconds) = seconds {
                let histogram = self.rollout_duration.with_label_values(&[namespace]);
                histogram.observe(seconds);
            }
        };
        let approval = |result: &str| {
            self.approvals.with_label_values(&[namespace, result]).inc();
        };
        match &event.kind {
            EventKind::StageApproved { waited_seconds } => {
                approval("accepted");
                let histogram = self.approval_wait.with_label_values(&[namespace]);
                histogram.observe(*waited_seconds);
            }
            EventKind::ApprovalIgnored => approval("ignored"),
            EventKind::RolloutSuperseded => ended("Superseded", None),
            EventKind::RolloutCompleted { result, after_seconds }
            | EventKind::RolledBack { result, after_seconds } => {
                ended(result.as_str(), Some(*after_seconds));
            }
            EventKind::DriftCorrected { field } => {
                self.drift.with_label_values(&[namespace, *field]).inc();
            }
            _ => {}
        }
    }

    /// Counts what a written status records.
    pub fn observe_status(
        &self,
        namespace: &str,
        before: &GrayRolloutStatus,
        after: &GrayRolloutStatus,
    ) {
        let in_stage = before.rollout == after.rollout && after.stage.is_some_and(|s| s > 0);
        if let (true, None, Some(started), Some(reached)) =
            (in_stage, before.stage_reached_at, after.stage_started_at, after.stage_reached_at)
        {
            let histogram = self.stage_duration.with_label_values(&[namespace]);
            histogram.observe(reached.duration_since(started).as_secs_f64());
        }
        for last in after.checks.iter().filter(|last| {
            !before.checks.iter().any(|b| b.name == last.name && b.time == last.time)
        }) {
            let labels = [namespace, last.result.as_str()];
            self.check_measurements.with_label_values(&labels).inc();
        }
        for last in after
            .hooks
            .iter()
            .filter(|last| !before.hooks.iter().any(|b| b.name == last.name && b.time == last.time))
        {
            let labels = [namespace, last.event.as_str(), last.result.as_str()];
            self.hook_calls.with_label_values(&labels).inc();
        }
    }

    /// What there is, in the order of its registration.
    #[must_use]
    pub fn described(&self) -> &[Described] {
        &self.described
    }

    /// Ends the series of all other namespaces, so that those which come and go do not fill the
    /// memory, of this process and of Prometheus.
    pub fn keep_namespaces(&self, live: &BTreeSet<&str>) {
        keep(&self.rollouts, live);
        keep(&self.approvals, live);
        keep(&self.drift, live);
        keep(&self.check_measurements, live);
        keep(&self.hook_calls, live);
        for histogram in [&self.stage_duration, &self.approval_wait, &self.rollout_duration] {
            keep(histogram, live);
        }
    }

    /// Everything in the text format.
    ///
    /// # Errors
    ///
    /// Fails where a metric cannot be written.
    pub fn encode(&self) -> prometheus::Result<String> {
        TextEncoder::new().encode_to_string(&self.registry.gather())
    }
}

fn keep<B: MetricVecBuilder>(metric: &MetricVec<B>, live: &BTreeSet<&str>) {
    for family in metric.collect() {
        for series in family.get_metric() {
            let labels: HashMap<&str, &str> =
                series.get_label().iter().map(|label| (label.name(), label.value())).collect();
            if labels.get("namespace").is_some_and(|namespace| !live.contains(namespace)) {
                // It fails only where the series is gone already.
                let _ = metric.remove(&labels);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::EventOn;

    #[test]
    fn a_namespaces_series_end_with_its_last_grayrollout() {
        let metrics = Metrics::new().unwrap();
        for namespace in ["shop", "bank"] {
            let drift = Event {
                kind: EventKind::DriftCorrected { field: "paused" },
                message: String::new(),
                on: EventOn::Both,
            };
            metrics.observe(namespace, &drift);
            let approved = EventKind::StageApproved { waited_seconds: 1.0 };
            metrics.observe(namespace, &Event { kind: approved, ..drift });
        }
        metrics.keep_namespaces(&BTreeSet::from(["shop"]));
        let text = metrics.encode().unwrap();
        assert!(!text.contains("bank"), "{text}");
        for name in ["drift_corrections_total", "approvals_total", "approval_wait_seconds_count"] {
            assert!(text.contains(&format!("grayrollout_{name}{{")), "{name} of shop is gone");
        }
    }
}
