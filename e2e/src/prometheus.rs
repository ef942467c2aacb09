//! A real Prometheus that scrapes the operators of a test, and promtool.

use std::{
    fs::{self, File},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use serde_json::Value;

use crate::{
    Cluster, Json,
    cluster::{poll, succeed, target_dir},
    http,
    operator::free_address,
    processes::Process,
};

const TO_BE_READY: Duration = Duration::from_secs(30);

/// A running Prometheus; its data goes with it.
pub struct Prometheus {
    _process: Process,
    listen: SocketAddr,
    dir: PathBuf,
}

impl Prometheus {
    /// Starts one that scrapes these addresses every second, as config/prometheus asks for it, and
    /// evaluates these rules.
    pub async fn start(cluster: &Cluster, name: &str, scraped: &[SocketAddr], rules: &str) -> Self {
        let dir = cluster.dir.join(format!("prometheus-{name}"));
        fs::create_dir_all(&dir).expect("a folder for Prometheus");
        let targets: Vec<String> = scraped.iter().map(ToString::to_string).collect();
        let config = serde_json::json!({
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": ["rules.yaml"],
            "scrape_configs": [{
                "job_name": "grayrollout",
                "honor_labels": true,
                "static_configs": [{"targets": targets}],
            }],
        });
        // JSON is YAML too.
        fs::write(dir.join("prometheus.yaml"), config.to_string()).expect("its configuration");
        fs::write(dir.join("rules.yaml"), rules).expect("its rules");
        let log = File::create(dir.join("log")).expect("its log");
        let listen = free_address();
        let mut process = Process::spawn(
            Command::new(find("prometheus"))
                .arg(format!("--web.listen-address={listen}"))
                .args(["--config.file=prometheus.yaml", "--storage.tsdb.path=data"])
                .current_dir(&dir)
                .stdin(Stdio::null())
                .stdout(log.try_clone().expect("a second handle"))
                .stderr(log),
        );
        poll("Prometheus is ready", TO_BE_READY, async || {
            if let Some(status) = process.ended() {
                let log = fs::read_to_string(dir.join("log")).unwrap_or_default();
                panic!("Prometheus ended ({status}):\n{log}");
            }
            let (code, _) = http::get(listen, "/-/ready", None).await?;
            (code == 200).then_some(())
        })
        .await;
        Self { _process: process, listen, dir }
    }

    /// Where it listens.
    pub fn listen(&self) -> SocketAddr {
        self.listen
    }

    /// The series that a query gives now.
    pub async fn query(&self, query: &str) -> Vec<Value> {
        let path = format!("/api/v1/query?query={}", percent_encoded(query));
        self.api(&path).await.list("/data/result").to_vec()
    }

    /// All rules, with what became of their last evaluation.
    pub async fn rules(&self) -> Vec<Value> {
        let answer = self.api("/api/v1/rules").await;
        let groups = answer.list("/data/groups");
        groups.iter().flat_map(|group| group.list("/rules").to_vec()).collect()
    }

    async fn api(&self, path: &str) -> Value {
        let (code, body) = http::get(self.listen, path, None).await.expect("Prometheus answers");
        assert_eq!(code, 200, "{path}: {body}");
        serde_json::from_str(&body).expect("JSON")
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// Runs promtool in a folder, with this on its standard input.
///
/// # Errors
///
/// What it complains of.
pub fn promtool(args: &[&str], dir: &Path, input: &str) -> Result<String, String> {
    let stdin = dir.join("stdin");
    fs::write(&stdin, input).map_err(|error| error.to_string())?;
    let stdin = File::open(stdin).map_err(|error| error.to_string())?;
    let mut command = Command::new(find("promtool"));
    succeed(command.args(args).current_dir(dir).stdin(stdin), "promtool")
}

/// Where one of Prometheus' programs is: what `make prometheus` fetched, or on PATH.
fn find(program: &str) -> PathBuf {
    let (target, _) = target_dir().expect("a target folder");
    let fetched = target.join("tools/prometheus/usr/bin").join(program);
    if fetched.exists() {
        return fetched;
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|dir| dir.join(program))
        .find(|file| file.is_file())
        .unwrap_or_else(|| panic!("{program} is missing: run make prometheus, or put it on PATH"))
}

fn percent_encoded(text: &str) -> String {
    use std::fmt::Write;
    let mut encoded = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() {
            encoded.push(char::from(byte));
        } else {
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}
