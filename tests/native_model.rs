//! The model of the native controllers reproduces what a real controller-manager did.

#[cfg(test)]
// The simulation uses what this program leaves.
#[allow(dead_code, unused_imports)]
mod native;

#[cfg(test)]
mod tests {
    use grayrollout::{
        api::IntOrPercent,
        plan::{RollingUpdate, Strategy},
    };
    use serde::Deserialize;

    use crate::native::{Cluster, Deployment, ReplicaSet, sync_deployment};

    /// One recorded case: a paused Deployment, and what it settled at.
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Case {
        id: u32,
        replicas: i32,
        strategy: String,
        max_surge: Option<IntOrPercent>,
        max_unavailable: Option<IntOrPercent>,
        replica_sets: Vec<Given>,
        deployment_status_replicas: i32,
        settled: Vec<Settled>,
        observed: i64,
    }

    #[derive(Deserialize)]
    struct Given {
        role: String,
        replicas: i32,
        available: i32,
        desired: Option<i32>,
        max: Option<i32>,
    }

    #[derive(Debug, Deserialize, PartialEq)]
    struct Settled {
        role: String,
        replicas: i32,
        desired: Option<i32>,
        max: Option<i32>,
        revision: String,
    }

    const NEW: u32 = 100;

    fn cluster(case: &Case) -> Cluster {
        let mut cluster = Cluster::new(0);
        let strategy = match (&case.max_surge, &case.max_unavailable) {
            (Some(surge), Some(unavailable)) => Strategy::RollingUpdate {
                rolling_update: RollingUpdate {
                    max_surge: surge.clone(),
                    max_unavailable: unavailable.clone(),
                },
            },
            _ => Strategy::Recreate,
        };
        assert_eq!(case.strategy == "Recreate", strategy == Strategy::Recreate, "case {}", case.id);
        let mut deployment = Deployment::of("web-uid", case.replicas, strategy, NEW);
        deployment.paused = true;
        deployment.status.replicas = case.deployment_status_replicas;
        cluster.deployment = Some(deployment);
        for (age, given) in (0..).zip(&case.replica_sets) {
            let is_new = given.role == "new";
            let mut set = ReplicaSet::of(&given.role, "web-uid", if is_new { NEW } else { age });
            set.created = i64::from(age);
            set.replicas = given.replicas;
            set.desired = given.desired;
            set.max = given.max;
            set.revision = (!is_new).then_some(i64::from(age) + 1);
            set.status.observed_generation = set.generation;
            set.status.replicas = given.replicas;
            set.status.available = given.available;
            cluster.replica_sets.push(set);
        }
        cluster
    }

    /// What differs, field by field.
    fn differences(case: &Case, cluster: &Cluster) -> Vec<String> {
        let mut found = Vec::new();
        for want in &case.settled {
            let Some(set) = cluster.replica_sets.iter().find(|set| set.name == want.role) else {
                found.push(format!("{} is gone", want.role));
                continue;
            };
            let revision = set.revision.map_or_else(String::new, |r| r.to_string());
            for (field, want, is) in [
                ("replicas", Some(want.replicas), Some(set.replicas)),
                ("desired", want.desired, set.desired),
                ("max", want.max, set.max),
                ("revision", want.revision.parse().ok(), revision.parse().ok()),
            ] {
                if want != is {
                    found.push(format!("{} {field}: {want:?}, not {is:?}", set.name));
                }
            }
        }
        if cluster.replica_sets.len() != case.settled.len() {
            found.push("another number of ReplicaSets".into());
        }
        let observed =
            cluster.deployment.as_ref().map(|deployment| deployment.status.observed_generation);
        if observed != Some(case.observed) {
            found.push(format!("observedGeneration: {}, not {observed:?}", case.observed));
        }
        found
    }

    #[test]
    fn every_recorded_case_settles_as_recorded() {
        let cases: Vec<Case> =
            serde_json::from_str(include_str!("fixtures/native-vectors.json")).unwrap();
        assert_eq!(cases.len(), 400);
        let mut wrong = Vec::new();
        for case in &cases {
            let mut cluster = cluster(case);
            let settled = (0..20).any(|_| {
                let seen = cluster.deployment.clone().unwrap();
                !sync_deployment(&mut cluster, &seen)
            });
            if !settled {
                wrong.push(format!("case {} does not settle", case.id));
            }
            for difference in differences(case, &cluster) {
                wrong.push(format!("case {}: {difference}", case.id));
            }
        }
        assert!(wrong.is_empty(), "recorded, not modelled:\n{}", wrong.join("\n"));
    }
}
