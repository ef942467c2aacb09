//! What the API server accepts and experience warns of.

use serde::Serialize;
use serde_json::Value;

use crate::{
    api::{GrayRolloutSpec, RollingUpdate, Strategy, VARIABLES},
    cluster::slim::POD_TEMPLATE_HASH,
    outbound::{AllowList, Pattern},
    plan::{Bounds, StagePreview, preview},
};

/// Replicas and deadline of a Deployment that does not say.
const DEFAULT_REPLICAS: i32 = 1;
const DEFAULT_DEADLINE: i64 = 600;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// It is refused, or stalls at once.
    Error,
    /// It works, but hardly as meant.
    Warning,
}

/// One piece of advice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advice {
    /// How bad it is.
    pub level: Level,
    /// What it is and what to do.
    pub message: String,
}

impl Advice {
    fn error(message: impl Into<String>) -> Self {
        Self { level: Level::Error, message: message.into() }
    }

    fn warning(message: impl Into<String>) -> Self {
        Self { level: Level::Warning, message: message.into() }
    }
}

/// The parts of a Deployment that staging depends on.
#[derive(Debug, Clone)]
pub struct Target {
    /// spec.replicas; `None` where the manifest leaves it to others.
    pub replicas: Option<i32>,
    /// spec.strategy.
    pub strategy: Strategy,
    min_ready_seconds: i64,
    deadline: i64,
    history_limit: Option<i64>,
    labels: Value,
}

impl Target {
    /// Reads a Deployment.
    #[must_use]
    pub fn new(deployment: &Value) -> Self {
        let int = |pointer: &str| deployment.pointer(pointer).and_then(Value::as_i64);
        let strategy = deployment
            .pointer("/spec/strategy")
            .and_then(|strategy| serde_json::from_value(strategy.clone()).ok())
            .unwrap_or(Strategy::RollingUpdate { rolling_update: RollingUpdate::default() });
        Self {
            replicas: int("/spec/replicas").and_then(|replicas| i32::try_from(replicas).ok()),
            strategy,
            min_ready_seconds: int("/spec/minReadySeconds").unwrap_or(0),
            deadline: int("/spec/progressDeadlineSeconds").unwrap_or(DEFAULT_DEADLINE),
            history_limit: int("/spec/revisionHistoryLimit"),
            labels: deployment
                .pointer("/spec/template/metadata/labels")
                .cloned()
                .unwrap_or_default(),
        }
    }

    /// spec.replicas as the API server fills it in.
    #[must_use]
    pub fn replicas(&self) -> i32 {
        self.replicas.unwrap_or(DEFAULT_REPLICAS)
    }
}

/// Stages that hold as many pods as the one before, at a number of replicas.
#[must_use]
pub fn coinciding(stages: &[StagePreview], replicas: i32) -> Vec<Advice> {
    stages
        .iter()
        .filter(|stage| stage.same_as_before)
        .map(|stage| {
            let (number, before) = (stage.stage, stage.stage - 1);
            Advice::warning(format!(
                "with {replicas} replicas stage {number} ({}%) holds {} new pods, as many as stage {before}; leave one of the two out, or run more replicas",
                stage.percent, stage.pods.new
            ))
        })
        .collect()
}

/// What a spec alone gives cause for.
#[must_use]
pub fn of_spec(spec: &GrayRolloutSpec) -> Vec<Advice> {
    let mut advice = Vec::new();
    for (index, stage) in spec.stages.iter().enumerate() {
        if stage.soak_seconds == Some(0) {
            advice.push(Advice::warning(format!(
                "soakSeconds: 0 of stage {} does nothing; leave it out, or give it a time",
                index + 1
            )));
        }
    }
    if spec.stages.len() == 1 {
        advice.push(Advice::warning(
            "there is one stage alone, so every pod is replaced without a look in between; add a smaller one before it",
        ));
    }
    advice.extend(of_urls(spec));
    advice
}

/// URLs that only an operator calls whose flag says so.
fn of_urls(spec: &GrayRolloutSpec) -> Vec<Advice> {
    let checks = spec.checks.iter().filter_map(|check| {
        let of_prometheus = check.prometheus.as_ref().map(|query| &query.address);
        let url = of_prometheus.or(check.webhook.as_ref().map(|webhook| &webhook.url))?;
        Some(("check", &check.name, url))
    });
    let hooks = spec.hooks.iter().map(|hook| ("hook", &hook.name, &hook.webhook.url));
    let services = AllowList(vec![Pattern::InCluster]);
    checks
        .chain(hooks)
        .filter_map(|(kind, name, url)| {
            // Any value will do to see what kind of host it is.
            let plain = VARIABLES
                .iter()
                .fold(url.clone(), |url, variable| url.replace(&format!("${{{variable}}}"), "x"));
            let why = services.admit(&plain, "x").err()?;
            Some(Advice::warning(format!("{kind} {name}: {why}")))
        })
        .collect()
}

/// What a spec and its Deployment give cause for.
#[must_use]
pub fn of_target(spec: &GrayRolloutSpec, target: &Target) -> Vec<Advice> {
    let mut advice = Vec::new();
    let replicas = target.replicas();
    if !matches!(target.strategy, Strategy::RollingUpdate { .. }) {
        advice.push(Advice::error(
            "the Deployment's strategy is not RollingUpdate, so old and new pods may not run side by side; set it to RollingUpdate",
        ));
        return advice;
    }
    if target.labels.get(POD_TEMPLATE_HASH).is_some() {
        advice.push(Advice::error(
            "the pod template carries the label pod-template-hash, which belongs to the Deployment controller; remove it",
        ));
    }
    let bounds = Bounds::resolve(Some(spec), &target.strategy, replicas);
    let deadline = spec.progress_deadline_seconds.map_or(target.deadline, i64::from);
    if target.min_ready_seconds >= deadline {
        advice.push(Advice::error(format!(
            "minReadySeconds {} is not below the progress deadline of {deadline} s, so no pod is available in time; raise progressDeadlineSeconds",
            target.min_ready_seconds
        )));
    }
    let stages = preview(spec, &target.strategy, replicas);
    if stages.first().is_some_and(|stage| replicas == 1 && stage.pods.new == 0) {
        advice.push(Advice::warning(
            "a single replica without a surge cannot be split, so there is no new pod before 100%; allow a maxSurge of 1, or run more replicas",
        ));
    }
    advice.extend(coinciding(&stages, replicas));
    let last_soak = spec.stages.last().and_then(|stage| stage.soak_seconds).unwrap_or(0);
    if last_soak > 0 && target.history_limit == Some(0) && bounds.surge == 0 {
        advice.push(Advice::warning(
            "the soak of the last stage does nothing: with revisionHistoryLimit 0 and no surge there is no way back from 100%; raise revisionHistoryLimit or maxSurge",
        ));
    }
    advice
}

/// What an autoscaler of the Deployment gives cause for.
#[must_use]
pub fn of_autoscaler(
    spec: &GrayRolloutSpec,
    target: &Target,
    name: &str,
    hpa: &Value,
) -> Vec<Advice> {
    let mut advice = Vec::new();
    if let Some(replicas) = target.replicas {
        advice.push(Advice::warning(format!(
            "the HorizontalPodAutoscaler {name} sets the replicas too: every apply of the Deployment puts {replicas} back, also in the midst of a rollout; leave spec.replicas out of the manifest"
        )));
    }
    let least = hpa.pointer("/spec/minReplicas").and_then(Value::as_i64).unwrap_or(1);
    let least = i32::try_from(least).unwrap_or(1);
    if Some(least) != target.replicas {
        let stages = preview(spec, &target.strategy, least);
        advice.extend(coinciding(&stages, least).into_iter().map(|one| {
            Advice::warning(format!(
                "at the least that the HorizontalPodAutoscaler {name} allows, {}",
                one.message
            ))
        }));
    }
    advice
}

/// Whether a PodDisruptionBudget is about a Deployment's pods.
#[must_use]
pub fn guards(pdb: &Value, target: &Target) -> bool {
    let labels = pdb.pointer("/spec/selector/matchLabels").and_then(Value::as_object);
    labels.is_some_and(|wanted| {
        !wanted.is_empty()
            && wanted.iter().all(|(key, value)| target.labels.get(key) == Some(value))
    })
}

/// What a disruption budget for the Deployment's pods gives cause for.
#[must_use]
pub fn of_budget(
    spec: &GrayRolloutSpec,
    target: &Target,
    name: &str,
    pdb: &Value,
) -> Option<Advice> {
    let replicas = target.replicas();
    let amount = |field: &str| {
        let value = pdb.pointer(field)?.clone();
        serde_json::from_value::<crate::api::IntOrPercent>(value).ok()?.round_up(replicas)
    };
    let allowed = match (amount("/spec/maxUnavailable"), amount("/spec/minAvailable")) {
        (Some(most), _) => most,
        (None, Some(least)) => (replicas - least).max(0),
        (None, None) => return None,
    };
    let taken = Bounds::resolve(Some(spec), &target.strategy, replicas).unavailable;
    (taken > allowed).then(|| {
        Advice::warning(format!(
            "the rollout may take {taken} of {replicas} pods away at a time and the PodDisruptionBudget {name} allows {allowed}, but budgets bind evictions alone; set maxUnavailable: {allowed}{}",
            if allowed == 0 { " and a maxSurge of at least 1" } else { "" }
        ))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn spec(value: &Value) -> GrayRolloutSpec {
        let mut spec =
            json!({"targetRef": {"name": "web"}, "stages": [{"percent": 10}, {"percent": 100}]});
        for (key, value) in value.as_object().unwrap() {
            spec[key] = value.clone();
        }
        serde_json::from_value(spec).unwrap()
    }

    fn target(spec: &Value) -> Target {
        Target::new(&json!({"spec": spec}))
    }

    fn texts(advice: &[Advice]) -> String {
        advice.iter().map(|one| one.message.as_str()).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn a_good_pair_gives_no_cause() {
        let advice = of_target(&spec(&json!({})), &target(&json!({"replicas": 10})));
        assert_eq!(advice, []);
        assert_eq!(of_spec(&spec(&json!({}))), []);
    }

    #[test]
    fn recreate_is_an_error() {
        let advice =
            of_target(&spec(&json!({})), &target(&json!({"strategy": {"type": "Recreate"}})));
        assert_eq!(advice.len(), 1);
        assert_eq!(advice[0].level, Level::Error);
    }

    #[test]
    fn stages_that_coincide_are_named() {
        let stages = json!({"stages": [{"percent": 10}, {"percent": 20}, {"percent": 100}]});
        let advice = of_target(&spec(&stages), &target(&json!({"replicas": 3})));
        assert!(
            texts(&advice)
                .contains("with 3 replicas stage 2 (20%) holds 1 new pods, as many as stage 1")
        );
        assert_eq!(of_target(&spec(&stages), &target(&json!({"replicas": 10}))), []);
    }

    #[test]
    fn a_last_soak_that_keeps_no_way_back() {
        let stages = json!({"maxSurge": 0, "stages": [{"percent": 50}, {"percent": 100, "soakSeconds": 60}]});
        let limited = json!({"replicas": 4, "revisionHistoryLimit": 0});
        assert!(
            texts(&of_target(&spec(&stages), &target(&limited)))
                .contains("soak of the last stage does nothing")
        );
        assert_eq!(of_target(&spec(&stages), &target(&json!({"replicas": 4}))), []);
    }

    #[test]
    fn a_deadline_that_no_pod_can_meet() {
        let slow = json!({"replicas": 4, "minReadySeconds": 600});
        assert!(
            texts(&of_target(&spec(&json!({})), &target(&slow)))
                .contains("raise progressDeadlineSeconds")
        );
        let longer = spec(&json!({"progressDeadlineSeconds": 1200}));
        assert_eq!(of_target(&longer, &target(&slow)), []);
    }

    #[test]
    fn an_autoscaler_that_fights() {
        let hpa = json!({"spec": {"minReplicas": 10}});
        let fights =
            of_autoscaler(&spec(&json!({})), &target(&json!({"replicas": 4})), "web", &hpa);
        assert!(texts(&fights).contains("leave spec.replicas out"), "{fights:?}");
        assert_eq!(of_autoscaler(&spec(&json!({})), &target(&json!({})), "web", &hpa), []);
        let stages = spec(&json!({"stages": [{"percent": 10}, {"percent": 20}, {"percent": 100}]}));
        let small = of_autoscaler(
            &stages,
            &target(&json!({})),
            "web",
            &json!({"spec": {"minReplicas": 2}}),
        );
        assert!(texts(&small).contains("at the least"), "{small:?}");
    }

    #[test]
    fn a_budget_that_is_passed() {
        let deployment =
            json!({"replicas": 4, "template": {"metadata": {"labels": {"app": "web"}}}});
        let target = target(&deployment);
        let pdb =
            json!({"spec": {"minAvailable": "100%", "selector": {"matchLabels": {"app": "web"}}}});
        assert!(guards(&pdb, &target));
        assert!(!guards(&json!({"spec": {"selector": {"matchLabels": {"app": "x"}}}}), &target));
        let eager = spec(&json!({"maxUnavailable": 2}));
        let advice = of_budget(&eager, &target, "web", &pdb).unwrap();
        assert!(
            advice.message.contains("2 of 4 pods") && advice.message.contains("allows 0"),
            "{advice:?}"
        );
        assert_eq!(of_budget(&spec(&json!({})), &target, "web", &pdb), None);
    }
}
