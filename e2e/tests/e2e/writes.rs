//! What the operator sends to the API server: how much, and with which safeguards.

use grayrollout_e2e::{Json, Proxy, Test, Write, grayrollout, run_without_operator};

/// The writes of one rollout of 10 pods in three stages, and of going back from another.
async fn writes_of_a_rollout(t: &Test) -> Vec<Write> {
    let proxy = Proxy::start(t).await;
    t.start_operator_with(proxy.kubeconfig(), &[]).await;
    t.manage(10, &grayrollout("web", &[10, 50, 100])).await;
    let before = proxy.writes().len();
    t.push("web", "v2").await;
    t.held("web", 1, 1, 9).await;
    t.approve("web", 2).await;
    t.held("web", 2, 5, 5).await;
    t.approve("web", 3).await;
    t.completed("web").await;
    let rollout = proxy.writes().split_off(before);
    let (events, others): (Vec<_>, Vec<_>) =
        rollout.iter().partition(|write| write.path.contains("/events"));
    let told: Vec<String> = others.iter().map(|w| format!("{} {}", w.method, w.path)).collect();
    assert!(others.len() <= 50, "{} writes: {told:#?}", others.len());
    assert!(events.len() <= 30, "{} events", events.len());

    t.push("web", "v3").await;
    t.held("web", 1, 1, 9).await;
    t.abort("web").await;
    t.rolled_back("web").await;
    t.stop_operator().await;
    proxy.writes()
}

/// Every write can only meet the object that it was meant for, in the state it was meant for, and
/// names its field manager; and a rollout takes no more of them than it needs.
#[test]
fn every_write_is_guarded() {
    run_without_operator(async |t: &Test| {
        let writes = writes_of_a_rollout(t).await;
        let mut sets = 0;
        for write in &writes {
            let Write { method, path, query, body } = write;
            let meta = body.at("/metadata");
            let known = |field: &str| !meta.text(field).is_empty();
            if path.contains("/replicasets") {
                sets += 1;
                match method.as_str() {
                    "PATCH" => assert!(known("/resourceVersion"), "{write:?}"),
                    "DELETE" => {
                        assert!(!body.text("/preconditions/uid").is_empty(), "{write:?}");
                        assert!(!body.text("/preconditions/resourceVersion").is_empty());
                    }
                    "POST" => assert_eq!(meta.list("/ownerReferences").len(), 1, "{write:?}"),
                    other => panic!("{other} of a ReplicaSet: {write:?}"),
                }
            } else if path.contains("/deployments") {
                assert_eq!(method, "PATCH");
                assert!(known("/resourceVersion") || known("/uid"), "{write:?}");
                assert!(body.at("/spec/replicas").is_null(), "{write:?}");
            } else if path.contains("/grayrollouts") {
                assert!(path.ends_with("/status"), "{write:?}");
                for field in ["approval", "abort", "retry"] {
                    assert!(body.at("/status").get(field).is_none(), "{write:?}");
                }
            } else {
                assert!(path.contains("/events"), "{write:?}");
            }
            let named = query.contains("fieldManager=grayrollout");
            assert!(named || method == "DELETE" || path.contains("/events"), "{write:?}");
        }
        assert!(sets >= 6, "{sets} writes to ReplicaSets were looked at");
    });
}
