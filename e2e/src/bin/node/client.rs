//! A client that sends requests to the ready pods all the time.

use std::{
    io::{Read, Write},
    net::TcpStream,
    process::Command,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use grayrollout_e2e::{Cluster, Json};
use serde_json::Value;

/// A machine under load answers late; what counts is that it answers.
const PATIENCE: Duration = Duration::from_secs(20);
/// A list of pods is not sent by for longer than this, less than a pod goes on to answer after it
/// was asked to end.
const FRESH: Duration = Duration::from_secs(4);
/// As fast as endpoints get around in a cluster, or faster.
const LOOK_EVERY: Duration = Duration::from_millis(200);
const SEND_EVERY: Duration = Duration::from_millis(5);

/// What came of the requests.
#[derive(Default)]
pub struct Tally {
    /// How many were sent.
    pub sent: usize,
    /// Those that were not answered, and why.
    pub failed: Vec<String>,
    /// Versions that answered, in the order in which each was first heard.
    pub versions: Vec<String>,
}

/// The client, until it is stopped.
pub struct Client {
    stop: Arc<AtomicBool>,
    tally: Arc<Mutex<Tally>>,
    threads: Vec<JoinHandle<()>>,
}

impl Client {
    /// Begins to send to the ready pods of a Deployment.
    pub fn start(cluster: &Cluster, namespace: &str, app: &str) -> Self {
        let (stop, tally) = (Arc::new(AtomicBool::new(false)), Arc::<Mutex<Tally>>::default());
        let ready = Arc::new(Mutex::new((Instant::now(), Vec::new())));
        let mut look = cluster.kubectl();
        look.args(["-n", namespace, "get", "pods", "-o", "json", "-l", &format!("app={app}")]);
        *ready.lock().unwrap() = addresses(&mut look);
        let looks = {
            let (stop, ready) = (stop.clone(), ready.clone());
            thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    *ready.lock().unwrap() = addresses(&mut look);
                    thread::sleep(LOOK_EVERY);
                }
            })
        };
        let sends = {
            let (stop, tally) = (stop.clone(), tally.clone());
            thread::spawn(move || {
                for turn in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    let (as_of, pods) = ready.lock().unwrap().clone();
                    if as_of.elapsed() > FRESH {
                        thread::sleep(SEND_EVERY);
                        continue;
                    }
                    let answer = match pods.get(turn % pods.len().max(1)) {
                        Some(pod) => ask(pod).map_err(|error| format!("{pod}: {error}")),
                        None => Err("no pod is ready".to_owned()),
                    };
                    let mut tally = tally.lock().unwrap();
                    tally.sent += 1;
                    match answer {
                        Ok(version) if tally.versions.contains(&version) => {}
                        Ok(version) => tally.versions.push(version),
                        Err(why) => tally.failed.push(why),
                    }
                    drop(tally);
                    thread::sleep(SEND_EVERY);
                }
            })
        };
        Self { stop, tally, threads: vec![looks, sends] }
    }

    /// Stops, and gives what came of it.
    pub fn stop(self) -> Tally {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads {
            thread.join().expect("the client runs on");
        }
        std::mem::take(&mut *self.tally.lock().unwrap())
    }
}

/// The addresses of the pods that a Service would send to, and as of when.
fn addresses(look: &mut Command) -> (Instant, Vec<String>) {
    let began = Instant::now();
    let out = look.output().expect("kubectl runs");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let pods: Value = serde_json::from_slice(&out.stdout).expect("JSON");
    let ready = pods.list("/items").iter().filter(|pod| {
        let conditions = pod.list("/status/conditions");
        pod.at("/metadata/deletionTimestamp").is_null()
            && conditions.iter().any(|c| c.text("/type") == "Ready" && c.text("/status") == "True")
    });
    (began, ready.map(|pod| pod.text("/status/podIP").to_owned()).collect())
}

/// Sends one request on a connection of its own, and gives the version that answered.
fn ask(pod: &str) -> std::io::Result<String> {
    let address = format!("{pod}:8080").parse().map_err(std::io::Error::other)?;
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    match answer.split_once("\r\n\r\n") {
        Some((head, body)) if head.contains(" 200 ") => Ok(body.trim().to_owned()),
        _ => Err(std::io::Error::other(format!("answered {answer:?}"))),
    }
}
