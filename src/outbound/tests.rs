//! Calls to servers on loopback that behave in every way.

use std::{sync::mpsc, time::Duration};

use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use super::*;
use crate::{api::HookEvent, cluster::leadership::Term};

/// A server that answers every connection with these bytes, in pieces, and then holds it open.
async fn server(answer: Vec<u8>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, answer.clone()));
        }
    });
    format!("http://{at}/")
}

async fn serve(mut stream: TcpStream, answer: Vec<u8>) {
    let mut request = [0; 4096];
    let _ = stream.read(&mut request).await;
    let _ = stream.write_all(&answer).await;
    let _ = stream.read(&mut request).await;
}

fn http(status: &str, headers: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n{headers}\r\n{body}").into_bytes()
}

fn outbound(term: Term) -> (Outbound, mpsc::Receiver<String>) {
    let (tell, told) = mpsc::channel();
    let allowed = AllowList(vec!["http://127.0.0.1:*/*".parse().unwrap()]);
    let metrics = Arc::new(Metrics::new().unwrap());
    let outbound = Outbound::new(allowed, Leadership::new(term), metrics, move |key| {
        let _ = tell.send(key.name.to_string());
    });
    (outbound, told)
}

fn hook(id: &str, url: &str, millis: u64) -> Call {
    Call {
        id: id.into(),
        purpose: Purpose::Hook(HookEvent::PodsAdding),
        request: CallRequest::Post { url: url.into(), key: id.into(), body: json!({"a": 1}) },
        timeout: Duration::from_millis(millis),
    }
}

fn query(id: &str, url: &str) -> Call {
    Call {
        id: id.into(),
        purpose: Purpose::Check,
        request: CallRequest::Query { address: url.into(), query: "up".into() },
        timeout: Duration::from_secs(5),
    }
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("shop", name)
}

async fn outcome(call: Call) -> Outcome {
    let (outbound, _told) = outbound(Term::Forever);
    outbound.set(&key("web"), "u", std::slice::from_ref(&call));
    answer(&outbound, "web").await
}

/// Waits for the first answer for a rollout.
async fn answer(outbound: &Outbound, name: &str) -> Outcome {
    let wait = async {
        loop {
            if let Some(answer) = outbound.state(&key(name), "u").1.pop() {
                return answer.outcome;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(Duration::from_secs(20), wait).await.expect("an answer")
}

#[tokio::test]
async fn the_status_and_the_message_of_a_webhook() {
    let url = server(http("200 OK", "", r#"{"message":"drained"}"#)).await;
    let done = Outcome::Http { status: 200, message: "drained".into() };
    assert_eq!(outcome(hook("1", &url, 5000)).await, done);
    let url = server(http("503 Busy", "", "later")).await;
    let busy = Outcome::Http { status: 503, message: "later".into() };
    assert_eq!(outcome(hook("1", &url, 5000)).await, busy);
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let elsewhere = server(http("200 OK", "", "")).await;
    let url = server(http("302 Found", &format!("Location: {elsewhere}\r\n"), "")).await;
    let Outcome::Http { status: 302, message } = outcome(hook("1", &url, 5000)).await else {
        panic!("it went on");
    };
    assert!(message.contains("not followed"), "{message}");
}

#[tokio::test]
async fn long_answers_are_cut_off() {
    let url = server(http("200 OK", "", &"x".repeat(10_000_000))).await;
    let Outcome::Http { status: 200, message } = outcome(hook("1", &url, 5000)).await else {
        panic!("it was not answered");
    };
    assert!(message.contains("longer than 64 KiB"), "{message}");
    let Outcome::None(why) = outcome(query("1", &url)).await else { panic!("a value") };
    assert!(why.contains("longer than 64 KiB"), "{why}");
}

#[tokio::test]
async fn who_hangs_or_is_not_there_is_no_answer() {
    let url = server(Vec::new()).await;
    let Outcome::None(why) = outcome(hook("1", &url, 100)).await else { panic!("an answer") };
    assert!(why.contains("no answer within"), "{why}");
    let Outcome::None(why) = outcome(hook("1", "http://127.0.0.1:1/", 5000)).await else {
        panic!("an answer")
    };
    assert!(why.contains("127.0.0.1:1 cannot be reached"), "{why}");
    let Outcome::None(why) = outcome(hook("1", "http://127.0.0.2/", 5000)).await else {
        panic!("an answer")
    };
    assert!(why.contains("--allow-urls"), "{why}");
}

#[tokio::test]
async fn a_value_of_prometheus() {
    let body = r#"{"status":"success","data":{"resultType":"scalar","result":[1,"0.5"]}}"#;
    let url = server(http("200 OK", "", body)).await;
    assert_eq!(outcome(query("1", &url)).await, Outcome::Value(0.5));
    let url = server(http("422 No", "", r#"{"status":"error","error":"bad query"}"#)).await;
    assert_eq!(outcome(query("1", &url)).await, Outcome::None("answered 422: bad query".into()));
}

/// Dozens of rollouts with endpoints that hang: another one is answered at once.
#[tokio::test]
async fn slow_endpoints_of_some_do_not_delay_another() {
    let slow = server(Vec::new()).await;
    let fast = server(http("200 OK", "", "")).await;
    let (outbound, _told) = outbound(Term::Forever);
    for rollout in 0..40 {
        let calls: Vec<_> = (0..11).map(|i| hook(&i.to_string(), &slow, 30_000)).collect();
        outbound.set(&key(&format!("slow-{rollout}")), "u", &calls);
    }
    tokio::time::sleep(Duration::from_millis(50)).await;
    let began = Instant::now();
    outbound.set(&key("web"), "u", &[hook("1", &fast, 5000)]);
    answer(&outbound, "web").await;
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
}

#[tokio::test]
async fn an_answer_stays_until_its_call_is_not_wanted_any_more() {
    let url = server(http("200 OK", "", "")).await;
    let (outbound, told) = outbound(Term::Forever);
    let calls = [hook("1", &url, 5000)];
    outbound.set(&key("web"), "u", &calls);
    answer(&outbound, "web").await;
    assert_eq!(told.recv().unwrap(), "web");
    outbound.set(&key("web"), "u", &calls);
    assert_eq!(outbound.state(&key("web"), "u").1.len(), 1);
    assert!(outbound.state(&key("web"), "other").1.is_empty(), "it is another object's");
    outbound.set(&key("web"), "u", &[]);
    assert!(outbound.state(&key("web"), "u").1.is_empty());
    assert!(outbound.0.lock().is_empty(), "nothing is left behind");
}

#[tokio::test]
async fn who_does_not_lead_calls_nobody() {
    let url = server(http("200 OK", "", "")).await;
    let (outbound, told) = outbound(Term::None);
    outbound.set(&key("web"), "u", &[hook("1", &url, 5000)]);
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(told.try_recv().is_err() && outbound.state(&key("web"), "u").1.is_empty());
}
