//! The ReplicaSet controller and the kubelet.

use super::objects::{Cluster, Pod, ReplicaSetStatus};

/// One sync of one ReplicaSet: creates or deletes pods, and reports what was there before that, as
/// the real one does. Returns whether anything was written.
pub fn sync(cluster: &mut Cluster, uid: &str) -> bool {
    let Some(set) = cluster.replica_sets.iter().find(|set| set.uid == uid).cloned() else {
        return false;
    };
    let mine = |pod: &&Pod| pod.owner == uid && pod.gone_at.is_none();
    let count = |filter: &dyn Fn(&Pod) -> bool| {
        i32::try_from(cluster.pods.iter().filter(|pod| filter(pod)).count()).unwrap_or(i32::MAX)
    };
    let active = count(&|pod| mine(&pod));
    let status = ReplicaSetStatus {
        observed_generation: set.generation,
        replicas: active,
        available: count(&|pod| mine(&pod) && pod.ready),
        terminating: count(&|pod| pod.owner == uid && pod.gone_at.is_some()),
        failure: (cluster.quota && active < set.replicas).then(|| "exceeded quota".to_owned()),
    };
    let mut written = false;
    if !cluster.quota {
        for _ in active..set.replicas {
            let healthy = !cluster.broken.contains(&set.template);
            let ready_at = cluster.now + cluster.start_ms;
            cluster.pods.push(Pod {
                owner: uid.to_owned(),
                template: set.template,
                created: cluster.now,
                ready: false,
                ready_at: healthy.then_some(ready_at),
                gone_at: None,
            });
            written = true;
        }
    }
    let gone = cluster.now + cluster.stop_ms;
    let mut victims: Vec<&mut Pod> =
        cluster.pods.iter_mut().filter(|pod| pod.owner == uid && pod.gone_at.is_none()).collect();
    victims.sort_by_key(|pod| (pod.ready, -pod.created));
    let surplus = usize::try_from(active - set.replicas).unwrap_or(0);
    for pod in victims.into_iter().take(surplus) {
        pod.gone_at = Some(gone);
        written = true;
    }
    if status != set.status {
        let version = cluster.bump();
        if let Some(stored) = cluster.replica_sets.iter_mut().find(|set| set.uid == uid) {
            stored.status = status;
            stored.resource_version = version;
        }
        written = true;
    }
    written
}

/// Lets pods become ready and go whose time has come.
pub fn kubelet(cluster: &mut Cluster) -> bool {
    let now = cluster.now;
    let before = cluster.pods.len();
    cluster.pods.retain(|pod| pod.gone_at.is_none_or(|gone| gone > now));
    let mut changed = cluster.pods.len() != before;
    for pod in &mut cluster.pods {
        if pod.ready_at.is_some_and(|at| at <= now) {
            pod.ready_at = None;
            pod.ready = true;
            changed = true;
        }
    }
    changed
}

/// When the next pod becomes ready or goes.
pub fn next_pod_event(cluster: &Cluster) -> Option<i64> {
    cluster.pods.iter().flat_map(|pod| [pod.ready_at, pod.gone_at]).flatten().min()
}
