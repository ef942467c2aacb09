//! The example of a load balancer hook, run as it is shipped.

use std::{path::Path, process::Command, time::Duration};

use grayrollout_e2e::{Json, Process, Received, Test, Webhook, grayrollout, run_without_operator};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// An address that nothing listens on now.
fn free_address() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().to_string()
}

/// The objects of the example.
fn sample() -> Vec<Value> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let text = std::fs::read_to_string(root.join("config/samples/hooks.yaml")).unwrap();
    serde_saphyr::from_multiple(&text).unwrap()
}

/// Its program, on another address.
fn start(t: &Test, address: &str) -> Process {
    let code = sample().iter().find_map(|one| one.at("/data/hook.py").as_str().map(String::from));
    let (host, port) = address.split_once(':').unwrap();
    let code = code.expect("hook.py").replace("(\"\", 8080)", &format!("(\"{host}\", {port})"));
    assert!(code.contains(port), "it listens elsewhere: {code}");
    let file = t.cluster.dir.join(format!("{}-hook.py", t.namespace));
    std::fs::write(&file, code).unwrap();
    Process::spawn(Command::new("python3").arg(&file))
}

/// Its answer to what the operator has sent.
async fn tell(address: &str, body: &Value) -> String {
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    let body = body.to_string();
    let head =
        format!("POST / HTTP/1.1\r\nHost: {address}\r\nContent-Length: {}\r\n\r\n", body.len());
    stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
    let mut answer = String::new();
    let read = tokio::time::timeout(Duration::from_secs(10), stream.read_to_string(&mut answer));
    read.await.expect("an answer in time").unwrap();
    assert!(answer.contains(" 200 "), "{answer}");
    let body: Value = serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
    body.text("/message").to_owned()
}

/// A rollout with the example as its hook goes through, and back; what is told again is not done again.
#[test]
fn the_load_balancer_example_works() {
    run_without_operator(async |t: &Test| {
        let address = free_address();
        let _hook = start(t, &address);
        let listener = Webhook::start().await;
        let kubeconfig = &t.cluster.operator_kubeconfig;
        t.start_operator_with(kubeconfig, &["--allow-urls=http://127.0.0.1:*/*"]).await;
        let events = sample()[0].at("/spec/hooks/0/on").clone();
        let hook =
            |name: &str, url: &str| json!({"name": name, "on": events, "webhook": {"url": url}});
        let hooks = [
            hook("load-balancer", &format!("http://{address}/backends/x/web")),
            hook("listener", &listener.url("/")),
        ];
        let gr = grayrollout("web", &[50, 100]).with(json!({"spec": {"hooks": hooks}}));
        t.manage(4, &gr).await;
        t.push("web", "v2").await;
        t.held("web", 1, 2, 2).await;
        let status = t.status_now("web");
        let says = |message: &str| {
            status.list("/hooks").iter().any(|last| last.text("/message").contains(message))
        };
        assert!(says("drained 1 pods of") || says("get traffic"), "{status}");
        t.approve("web", 2).await;
        t.completed("web").await;
        t.push("web", "v3").await;
        t.held("web", 1, 2, 2).await;
        t.abort("web").await;
        t.rolled_back("web").await;

        // The bodies as the operator sends them, once more and twice at a time.
        let calls: Vec<Received> = listener.calls();
        for event in ["PodsAdded", "PodsRemoving"] {
            let call = calls.iter().find(|call| call.body.text("/event") == event).unwrap();
            let body = call.body.clone().with(json!({"idempotencyKey": format!("again/{event}")}));
            let first = tell(&address, &body).await;
            let wanted = if event == "PodsRemoving" { "drained" } else { "get traffic" };
            assert!(first.contains(wanted) && first.contains(body.text("/revision")), "{first}");
            let retry = body.with(json!({"from": 70, "to": 7}));
            let (one, other) = tokio::join!(tell(&address, &retry), tell(&address, &retry));
            assert_eq!((one, other), (first.clone(), first), "the same key is the same step");
        }
    });
}
