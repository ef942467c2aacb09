//! Checks and hooks over TLS: who is trusted, and what a refused certificate looks like.

use std::path::PathBuf;

use grayrollout_e2e::{Authority, Json, Test, Webhook, grayrollout, run_without_operator};
use serde_json::{Value, json};

/// An operator that trusts these authorities and no other.
async fn operator(t: &Test, trusted: &[&Authority]) {
    let file: PathBuf = t.cluster.dir.join(format!("{}-ca.pem", t.namespace));
    let bundle: String = trusted.iter().map(|authority| authority.pem()).collect();
    std::fs::write(&file, bundle).unwrap();
    let kubeconfig = &t.cluster.operator_kubeconfig;
    let args = ["--allow-urls=https://127.0.0.1:*/*"];
    t.start_operator_in(kubeconfig, &args, &[("SSL_CERT_FILE", &file)]).await;
}

fn check(name: &str, webhook: &Webhook) -> Value {
    json!({"name": name, "intervalSeconds": 5, "webhook": {"url": webhook.url("/")}})
}

/// What a check came to: its result and message.
fn came_to(status: &Value, check: &str) -> String {
    let last = status.list("/checks").iter().find(|last| last.text("/name") == check);
    last.map(|l| format!("{}: {}", l.text("/result"), l.text("/message"))).unwrap_or_default()
}

/// A certificate of an unknown authority and one for another host are refused, and status says that
/// it is the certificate; with the authority trusted, the same calls pass.
#[test]
fn only_a_trusted_certificate_for_the_host_is_accepted() {
    run_without_operator(async |t: &Test| {
        let (ours, private) = (Authority::new("ours"), Authority::new("private"));
        let good = Webhook::start_tls(&ours.issue("127.0.0.1")).await;
        let unknown = Webhook::start_tls(&private.issue("127.0.0.1")).await;
        let elsewhere = Webhook::start_tls(&ours.issue("hooks.example.com")).await;
        operator(t, &[&ours]).await;
        let checks =
            [check("good", &good), check("unknown", &unknown), check("elsewhere", &elsewhere)];
        let hook =
            json!({"name": "lb", "on": ["PodsRemoving"], "webhook": {"url": unknown.url("/")}});
        let spec = json!({"spec": {"checks": checks, "hooks": [hook]}});
        t.manage(2, &grayrollout("web", &[50, 100]).with(spec)).await;
        t.push("web", "v2").await;

        t.status("web", "the checks say what is wrong", |status| {
            let unknown = came_to(status, "unknown");
            came_to(status, "good").starts_with("Passed")
                && unknown.starts_with("Inconclusive")
                && unknown.contains("certificate")
                && unknown.contains("SSL_CERT_FILE")
                && came_to(status, "elsewhere").contains("certificate not valid for name")
        })
        .await;
        t.status("web", "the hook says so too", |status| {
            status.text("/hooks/0/result") == "Failed"
                && status.text("/hooks/0/message").contains("SSL_CERT_FILE")
        })
        .await;
        assert_eq!(t.record.look(|now| now.split("web").old), 2, "the old pod stays");
        assert!(unknown.calls().is_empty() && elsewhere.calls().is_empty(), "nothing was sent");

        t.stop_operator().await;
        operator(t, &[&ours, &private]).await;
        t.status("web", "the hook is told", |status| status.text("/hooks/0/result") == "Done")
            .await;
        t.status("web", "the name is still wrong", |status| {
            came_to(status, "unknown").starts_with("Passed")
                && came_to(status, "elsewhere").contains("certificate not valid")
        })
        .await;
        t.patch_gr("web", &json!({"spec": {"checks": &checks[..2]}})).await;
        t.held("web", 1, 1, 1).await;
        assert!(elsewhere.calls().is_empty(), "nothing was sent");
    });
}
