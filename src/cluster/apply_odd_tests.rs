//! Answers that make no sense: every write ends with a result, and what is put into the index can
//! be planned for.

use jiff::Timestamp;
use proptest::{prelude::*, strategy::Strategy};

use super::*;

fn answer() -> impl Strategy<Value = (u16, Value)> {
    let codes = vec![200_u16, 200, 200, 201, 202, 204, 301, 400, 403, 404, 409, 422, 429, 500, 503];
    let bodies = vec![
        deployment("8", "web:2"),
        deployment("9", "web:3"),
        replica_set("web-a", "r-1", "d-1", "web:1"),
        replica_set("web-x", "r-9", "d-2", "web:2"),
        failed(404, "NotFound").1,
        not_found("web-a").1,
        failed(409, "Conflict").1,
        failed(409, "AlreadyExists").1,
        json!({"kind": "Status", "code": "409", "reason": 7, "message": []}),
        json!({"kind": "Status", "details": {"retryAfterSeconds": u32::MAX}, "code": 429}),
        json!({"metadata": {"uid": 7, "resourceVersion": null, "generation": "x"}, "spec": []}),
        json!({"metadata": [], "spec": {"template": 3, "replicas": 1e300}}),
        json!([]),
        json!(null),
        json!("text"),
    ];
    (prop::sample::select(codes), prop::sample::select(bodies))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_answer_is_survived(answers in prop::collection::vec(answer(), 24)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let delete = Action::DeleteReplicaSet {
                name: "web-a".into(),
                uid: "r-1".into(),
                resource_version: "5".into(),
            };
            let put_back = DeploymentPatch { template_of: Some("web-a".into()), ..patch() };
            for action in [scale(), create(), delete, Action::PatchDeployment(put_back)] {
                let api = Api::new(answers.clone());
                let _ = api.apply(action).await;
                let key = ObjectKey::new("shop", "web");
                if let Some(snapshot) = api.index.snapshot(&key, Timestamp::now()) {
                    let _ = crate::plan::plan(&snapshot);
                }
            }
        });
    }
}
