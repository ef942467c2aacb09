//! Waiting, and the exit codes that scripts rely on.

use grayrollout_e2e::{Test, grayrollout, pods_are, run};
use serde_json::json;

use crate::plugin::{command_as, finish, gray};

#[test]
fn waits_end_with_what_was_waited_for() {
    run(async |t: &Test| {
        t.manage(4, &grayrollout("web", &[25, 100])).await;
        gray(t, &["wait", "web", "--for", "completed", "--timeout", "20s"]).await.done();
        t.push("web", "v2").await;
        // Right after the push the status may still speak of v1, which is complete.
        gray(t, &["wait", "web", "--for", "approval", "--timeout", "20s"]).await.done();
        assert_eq!(t.status_now("web")["stage"], 1);
        let waiting = command_as(
            t,
            &t.cluster.kubeconfig,
            &["wait", "web", "--for", "completed", "--timeout", "30s"],
        );
        let (waited, ()) = tokio::join!(finish(waiting), async {
            gray(t, &["approve", "web", "--yes"]).await.done();
        });
        assert!(waited.done().contains("nothing is rolling out"));

        t.push("web", "v3").await;
        t.held("web", 1, 1, 3).await;
        gray(t, &["abort", "web"]).await.done();
        gray(t, &["wait", "web", "--for", "rolledback", "--timeout", "20s"]).await.done();
    });
}

#[test]
fn a_wait_that_takes_too_long() {
    run(async |t: &Test| {
        t.manage(4, &grayrollout("web", &[25, 100])).await;
        t.push("web", "v2").await;
        t.held("web", 1, 1, 3).await;
        let said =
            gray(t, &["wait", "web", "--for", "completed", "--timeout", "1s"]).await.failed(4);
        assert!(said.contains("not within 1 s") && said.contains("stage 1 of 2"), "{said}");
        gray(t, &["wait", "web", "--for", "sunshine"]).await;
        assert_eq!(gray(t, &["wait", "web", "--for", "sunshine"]).await.code, 2);
    });
}

#[test]
fn a_wait_for_what_cannot_happen_any_more() {
    run(async |t: &Test| {
        let gr = grayrollout("web", &[25, 100]).with_deadline();
        t.manage(4, &gr).await;
        let wait = |goal: &'static str| {
            let args = ["wait", "web", "--for", goal, "--timeout", "30s"];
            command_as(t, &t.cluster.kubeconfig, &args)
        };
        assert!(finish(wait("approval")).await.failed(3).contains("Completed"));

        t.push_pods("web", "v2", pods_are("never")).await;
        let said = finish(wait("completed")).await.failed(3);
        assert!(said.contains("Stalled"), "{said}");
        t.push_pods("web", "v3", serde_json::json!({"kwok.grayrollout.dev/ready": null})).await;
        t.held("web", 1, 1, 3).await;
        let (waited, ()) = tokio::join!(finish(wait("completed")), async {
            // Begun or not, the wait sees the way back.
            gray(t, &["abort", "web"]).await.done();
        });
        assert!(waited.failed(3).contains("Roll"));
        t.rolled_back("web").await;
        let deleted = tokio::join!(finish(wait("completed")), async {
            t.kubectl(&["delete", "gr", "web"]).await;
        });
        let code = deleted.0.code;
        assert!(code == 3 || code == 1, "{:?}", deleted.0);
    });
}

trait WithDeadline {
    fn with_deadline(self) -> Self;
}

impl WithDeadline for serde_json::Value {
    fn with_deadline(mut self) -> Self {
        self["spec"]["progressDeadlineSeconds"] = json!(2);
        self
    }
}
