//! The simulated cluster: the native objects, one GrayRollout, and what was done to them.

use std::collections::BTreeSet;

use grayrollout::{
    api::{
        GrayRolloutSpec, GrayRolloutStatus, IntOrPercent, ORIGINAL_ANNOTATION, ROLLOUT_ANNOTATION,
        Stage, TargetRef,
    },
    plan::{self, Call, CallRequest, Outcome, RollingUpdate, Strategy, TemplateHash},
};
use jiff::Timestamp;

use crate::{
    guards::Guard,
    native::{Cluster, Deployment, ReplicaSet},
};

/// Name of the Deployment and of the GrayRollout.
pub const NAME: &str = "web";

/// Why a check failed, in words.
pub type Checked<T = ()> = Result<T, String>;

/// A GrayRollout.
#[derive(Debug, Clone, PartialEq)]
pub struct Gray {
    pub uid: String,
    pub generation: i64,
    pub resource_version: u64,
    pub created: i64,
    pub spec: Result<GrayRolloutSpec, String>,
    pub status: GrayRolloutStatus,
}

/// Everything there is.
#[derive(Debug, Clone)]
pub struct World {
    pub cluster: Cluster,
    pub gray: Option<Gray>,
    /// Whether the admission policies hold and guard are in effect.
    pub policed: bool,
    /// The strategy that the user wants back.
    pub user_strategy: Strategy,
    /// The strategy that the operator's last patch left.
    pub form: Option<Strategy>,
    /// The template that was last fully rolled out, where it is known.
    pub approved: Option<u32>,
    /// The rollout that reached its last stage last, and its template.
    pub reached: Option<(i64, u32)>,
    /// The highest rollout number ever recorded for the present target.
    pub highest: i64,
    /// Every reason that a condition that holds ever gave.
    pub seen: BTreeSet<&'static str>,
    /// The guard that is taken away, to see that it is needed.
    pub without: Option<Guard>,
    /// Who holds the lease; `None` where both operators think that they do.
    pub leader: Option<usize>,
    /// Only people and the controllers act, so that more can be demanded at every moment.
    pub undisturbed: bool,
    /// The world outside.
    pub endpoint: Endpoint,
    /// Writes of the operator, events included.
    pub writes: Writes,
    pub log: Vec<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Writes {
    pub status: u32,
    pub deployment: u32,
    pub sets: u32,
    pub events: u32,
}

impl Writes {
    pub fn total(self) -> u32 {
        self.status + self.deployment + self.sets + self.events
    }
}

/// What answers the operator's calls.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// How long an answer takes.
    pub latency_ms: i64,
    /// What is answered to a call, of which so many with the same key came before.
    pub answer: fn(&Call, usize) -> Outcome,
    /// The calls that arrived.
    pub arrived: Vec<Arrived>,
}

/// A call that arrived.
#[derive(Debug, Clone)]
pub struct Arrived {
    pub key: String,
    pub call: Call,
    /// Size and available pods of v1 and v2 then.
    pub pods: [(i32, i32); 2],
}

impl Default for Endpoint {
    fn default() -> Self {
        Self { latency_ms: 20, answer: |_, _| done(), arrived: Vec::new() }
    }
}

/// A webhook that is content.
pub fn done() -> Outcome {
    Outcome::Http { status: 200, message: String::new() }
}

/// A webhook that is not.
pub fn refused() -> Outcome {
    Outcome::Http { status: 500, message: "not now".into() }
}

/// How a history begins.
#[derive(Debug, Clone)]
pub struct Setup {
    pub replicas: i32,
    pub surge: IntOrPercent,
    pub unavailable: IntOrPercent,
    pub spec: GrayRolloutSpec,
    pub start_ms: i64,
    pub stop_ms: i64,
    pub history_limit: i32,
}

impl Setup {
    /// Ten pods, stages 10, 50 and 100, surge 1.
    pub fn new(percents: &[i32]) -> Self {
        Self {
            replicas: 10,
            surge: IntOrPercent::Count(1),
            unavailable: IntOrPercent::Count(0),
            spec: spec(percents),
            start_ms: 1000,
            stop_ms: 1000,
            history_limit: 10,
        }
    }

    pub fn replicas(mut self, replicas: i32) -> Self {
        self.replicas = replicas;
        self
    }

    pub fn surge(mut self, surge: &str, unavailable: &str) -> Self {
        self.surge = share(surge);
        self.unavailable = share(unavailable);
        self
    }

    pub fn with(mut self, change: impl FnOnce(&mut GrayRolloutSpec)) -> Self {
        change(&mut self.spec);
        self
    }

    pub fn strategy(&self) -> Strategy {
        Strategy::RollingUpdate {
            rolling_update: RollingUpdate {
                max_surge: self.surge.clone(),
                max_unavailable: self.unavailable.clone(),
            },
        }
    }
}

/// A number of pods or a percentage.
pub fn share(text: &str) -> IntOrPercent {
    text.parse().map_or_else(|_| IntOrPercent::Percent(text.into()), IntOrPercent::Count)
}

/// A spec with these stages and defaults elsewhere.
pub fn spec(percents: &[i32]) -> GrayRolloutSpec {
    GrayRolloutSpec {
        target_ref: TargetRef {
            api_version: "apps/v1".into(),
            kind: "Deployment".into(),
            name: NAME.into(),
        },
        stages: stages(percents),
        paused: false,
        max_surge: None,
        max_unavailable: None,
        progress_deadline_seconds: None,
        step_interval_seconds: None,
        on_failure: grayrollout::api::OnFailure::Pause,
        on_delete: grayrollout::api::OnDelete::Hold,
        wait_for_termination: false,
        checks: Vec::new(),
        hooks: Vec::new(),
        approval: None,
    }
}

pub fn stages(percents: &[i32]) -> Vec<Stage> {
    percents
        .iter()
        .map(|percent| Stage { percent: *percent, soak_seconds: None, approval: None })
        .collect()
}

/// The fingerprint of template number `template`, well spread as real ones are.
pub fn hash(template: u32) -> TemplateHash {
    let mix = |seed: u64| {
        let mut x = (u64::from(template) + seed).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x ^ (x >> 31)
    };
    TemplateHash((u128::from(mix(1)) << 64) | u128::from(mix(7)))
}

pub fn time(millis: i64) -> Timestamp {
    Timestamp::from_millisecond(millis).expect("a time in range")
}

impl World {
    /// A Deployment that natively runs template 1, all pods available, no GrayRollout.
    pub fn new(setup: &Setup) -> Self {
        let mut cluster = Cluster::new(1_800_000_000_000);
        cluster.start_ms = setup.start_ms;
        cluster.stop_ms = setup.stop_ms;
        let uid = cluster.uid("web");
        let mut deployment = Deployment::of(&uid, setup.replicas, setup.strategy(), 1);
        deployment.revision_history_limit = Some(setup.history_limit);
        deployment.resource_version = cluster.bump();
        cluster.deployment = Some(deployment);
        Self {
            cluster,
            gray: None,
            policed: false,
            user_strategy: setup.strategy(),
            form: None,
            approved: None,
            reached: None,
            highest: 0,
            seen: BTreeSet::new(),
            without: None,
            leader: None,
            undisturbed: false,
            endpoint: Endpoint::default(),
            writes: Writes::default(),
            log: Vec::new(),
        }
    }

    pub fn create_gray(&mut self, spec: GrayRolloutSpec) {
        let uid = self.cluster.uid("gray");
        self.gray = Some(Gray {
            uid,
            generation: 1,
            resource_version: self.cluster.bump(),
            created: self.cluster.now.div_euclid(1000),
            spec: Ok(spec),
            status: GrayRolloutStatus::default(),
        });
    }

    pub fn change_spec(&mut self, change: impl FnOnce(&mut GrayRolloutSpec)) {
        let version = self.cluster.bump();
        if let Some(gray) = &mut self.gray
            && let Ok(spec) = &mut gray.spec
        {
            let before = spec.clone();
            change(spec);
            if *spec != before {
                gray.generation += 1;
                gray.resource_version = version;
            }
        }
    }

    /// Replaces the status as a subresource write does.
    pub fn change_status(&mut self, change: impl FnOnce(&mut GrayRolloutStatus)) {
        let version = self.cluster.bump();
        if let Some(gray) = &mut self.gray {
            let before = gray.status.clone();
            change(&mut gray.status);
            if gray.status != before {
                gray.resource_version = version;
            }
        }
    }

    /// Another writer changes every object, so that whoever saw it before is late.
    pub fn bump_versions(&mut self) {
        let version = self.cluster.bump();
        for set in &mut self.cluster.replica_sets {
            set.resource_version = version;
        }
        if let Some(deployment) = &mut self.cluster.deployment {
            deployment.resource_version = version;
        }
        if let Some(gray) = &mut self.gray {
            gray.resource_version = version;
        }
    }

    /// A call arrives; what is answered.
    pub fn call(&mut self, call: &Call) -> Outcome {
        let key = match &call.request {
            CallRequest::Post { key, .. } => key.clone(),
            CallRequest::Query { .. } => call.id.clone(),
        };
        let before = self.endpoint.arrived.iter().filter(|arrived| arrived.key == key).count();
        let pods = [1, 2].map(|version| (self.size(version), self.ready(version)));
        self.endpoint.arrived.push(Arrived { key, call: call.clone(), pods });
        let outcome = (self.endpoint.answer)(call, before);
        self.say(&format!("outside: {} answers {outcome:?}", call.id));
        outcome
    }

    pub fn status(&self) -> GrayRolloutStatus {
        self.gray.as_ref().map(|gray| gray.status.clone()).unwrap_or_default()
    }

    pub fn deployment(&self) -> &Deployment {
        self.cluster.deployment.as_ref().expect("a Deployment")
    }

    /// Sum of spec.replicas of the ReplicaSets with this template.
    pub fn size(&self, template: u32) -> i32 {
        self.sum(|set| (set.template == template).then_some(set.replicas))
    }

    /// Pods of this template that are available, terminating ones excluded.
    pub fn ready(&self, template: u32) -> i32 {
        let ready = self
            .cluster
            .pods
            .iter()
            .filter(|pod| pod.template == template && pod.ready && pod.gone_at.is_none());
        i32::try_from(ready.count()).unwrap_or(i32::MAX)
    }

    pub fn total(&self) -> i32 {
        self.sum(|set| Some(set.replicas))
    }

    fn sum(&self, size: impl Fn(&ReplicaSet) -> Option<i32>) -> i32 {
        self.cluster.replica_sets.iter().filter_map(size).sum()
    }

    pub fn say(&mut self, what: &str) {
        for line in std::mem::take(&mut self.cluster.log) {
            self.say_line(&line);
        }
        self.say_line(what);
    }

    fn say_line(&mut self, what: &str) {
        let millis = self.cluster.now - 1_800_000_000_000;
        let line = format!("{:>9.3}s {what}", seconds(millis));
        self.log.push(line);
    }

    /// One line on what there is.
    pub fn summary(&self) -> String {
        let sets: Vec<_> = self
            .cluster
            .replica_sets
            .iter()
            .map(|set| {
                format!(
                    "v{}:{}/{}av{}{}",
                    set.template,
                    set.replicas,
                    set.status.replicas,
                    set.status.available,
                    if set.generation == set.status.observed_generation { "" } else { "?" }
                )
            })
            .collect();
        let status = self.status();
        let deployment = self.cluster.deployment.as_ref().map_or_else(
            || "no Deployment".into(),
            |deployment| {
                format!(
                    "Deployment v{} R={} {} {}{}",
                    deployment.template,
                    deployment.replicas,
                    if deployment.paused { "paused" } else { "unpaused" },
                    strategy_text(&deployment.strategy),
                    if deployment.annotations.contains_key(ROLLOUT_ANNOTATION) {
                        " rollout"
                    } else {
                        ""
                    }
                )
            },
        );
        format!(
            "{deployment} [{}] {:?} rollout {:?} stage {:?}",
            sets.join(" "),
            status.phase,
            status.rollout,
            status.stage
        )
    }
}

#[allow(clippy::cast_precision_loss)] // a time for people
fn seconds(millis: i64) -> f64 {
    millis as f64 / 1000.0
}

pub fn strategy_text(strategy: &Strategy) -> String {
    match strategy {
        Strategy::RollingUpdate { rolling_update } => {
            format!("RollingUpdate {}/{}", rolling_update.max_surge, rolling_update.max_unavailable)
        }
        Strategy::Recreate => "Recreate".into(),
        Strategy::Other => "Other".into(),
    }
}

/// The view that the operator's cache gives of a Deployment.
pub fn target(deployment: &Deployment) -> plan::Target {
    let annotation = |name: &str| deployment.annotations.get(name);
    plan::Target {
        namespace: "shop".into(),
        name: NAME.into(),
        uid: deployment.uid.clone(),
        generation: deployment.generation,
        resource_version: deployment.resource_version.to_string(),
        observed_generation: deployment.status.observed_generation,
        replicas: deployment.replicas,
        paused: deployment.paused,
        strategy: deployment.strategy.clone(),
        template: hash(deployment.template),
        template_labelled: false,
        progress_deadline_seconds: deployment.progress_deadline_seconds,
        revision_history_limit: deployment.revision_history_limit,
        original: annotation(ORIGINAL_ANNOTATION)
            .map(|text| serde_json::from_str(text).map_err(|e| e.to_string())),
        rollout_annotation: annotation(ROLLOUT_ANNOTATION).cloned(),
    }
}

pub fn replica_set(set: &ReplicaSet) -> plan::ReplicaSet {
    plan::ReplicaSet {
        name: set.name.clone(),
        uid: set.uid.clone(),
        owner_uid: set.owner_uid.clone(),
        generation: set.generation,
        resource_version: set.resource_version.to_string(),
        created: time(set.created * 1000),
        deleting: set.deleting,
        revision: set.hash.clone(),
        template: hash(set.template),
        replicas: set.replicas,
        desired_annotation: set.desired,
        max_annotation: set.max,
        observed_generation: set.status.observed_generation,
        current: set.status.replicas,
        available: set.status.available,
        terminating: set.status.terminating,
        failure: set.status.failure.clone(),
    }
}

pub fn rollout(gray: &Gray) -> plan::Rollout {
    plan::Rollout {
        namespace: "shop".into(),
        name: NAME.into(),
        uid: gray.uid.clone(),
        generation: gray.generation,
        resource_version: gray.resource_version.to_string(),
        created: time(gray.created * 1000),
        target_name: NAME.into(),
        made_for: None,
        spec: gray.spec.clone(),
        status: gray.status.clone(),
    }
}
