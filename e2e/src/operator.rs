//! The operator as a process of its own.

use std::{
    fs::File,
    net::{SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use crate::{
    Cluster,
    cluster::poll,
    http,
    processes::{Process, Usage},
};

const TO_BE_READY: Duration = Duration::from_secs(30);

/// A running operator.
pub struct Operator {
    process: Process,
    listen: SocketAddr,
    log: PathBuf,
}

impl Operator {
    /// Starts an operator for one namespace, with further variables of its environment, and waits
    /// until it is ready.
    pub async fn start(
        cluster: &Cluster,
        kubeconfig: &Path,
        namespace: &str,
        log: PathBuf,
        args: &[&str],
        env: &[(&str, &Path)],
    ) -> Self {
        let mut operator = Self::spawn(cluster, kubeconfig, namespace, log, args, env);
        operator.ready().await;
        operator
    }

    /// Starts an operator without waiting for anything.
    pub fn spawn(
        cluster: &Cluster,
        kubeconfig: &Path,
        namespace: &str,
        log: PathBuf,
        args: &[&str],
        env: &[(&str, &Path)],
    ) -> Self {
        let listen = free_address();
        let out = File::options().create(true).append(true).open(&log);
        let out = out.expect("the operator's log can be written");
        let err = out.try_clone().expect("a second handle");
        let process = Process::spawn(
            Command::new(&cluster.operator)
                .args(["--namespace", namespace].iter().filter(|_| !namespace.is_empty()))
                .args(["--listen", &listen.to_string()])
                .args(args)
                .env("KUBECONFIG", kubeconfig)
                // It trusts what a test says, and nobody else.
                .env_remove("SSL_CERT_FILE")
                .env_remove("SSL_CERT_DIR")
                .envs(env.iter().copied())
                // Unless a test says otherwise.
                .env("GRAYROLLOUT_LEADER_ELECT", "false")
                .stdin(Stdio::null())
                .stdout(out)
                .stderr(err),
        );
        Self { process, listen, log }
    }

    /// Waits until /readyz answers 200.
    pub async fn ready(&mut self) {
        poll("the operator is ready", TO_BE_READY, async || {
            if let Some(status) = self.process.ended() {
                panic!("the operator ended ({status}):\n{}", self.log());
            }
            let (code, _) = self.get("/readyz", None).await?;
            (code == 200).then_some(())
        })
        .await;
    }

    /// Sends a signal by name, e.g. `STOP`.
    pub fn signal(&self, name: &str) {
        self.process.signal(name);
    }

    /// Waits for its end, and tells the exit code.
    pub async fn exit_code(&mut self, within: Duration) -> Option<i32> {
        let end = poll("the operator ends", within, async || self.process.ended());
        end.await.code()
    }

    /// What it takes of the machine.
    pub fn usage(&self) -> Usage {
        self.process.usage()
    }

    /// Its log so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// The value of a metric whose name and labels contain all of `parts`, summed over all such.
    pub async fn metric(&self, parts: &[&str]) -> f64 {
        let text = self.all_metrics().await.expect("/metrics answers");
        sum_of(&text, parts)
    }

    /// The same where /metrics can be read, else 0.
    pub async fn try_metric(&self, parts: &[&str]) -> f64 {
        sum_of(&self.all_metrics().await.unwrap_or_default(), parts)
    }

    /// The metrics whose name and labels contain all of `parts`, a line each.
    pub async fn metrics(&self, parts: &[&str]) -> Vec<String> {
        let text = self.all_metrics().await.expect("/metrics answers");
        lines_of(&text, parts).map(ToOwned::to_owned).collect()
    }

    /// Answers of the API server with code 403 so far, where /metrics can be read.
    pub async fn refusals(&self) -> f64 {
        self.try_metric(&["grayrollout_api_requests_total{", r#"code="403""#]).await
    }

    /// The status code and the body of one of its endpoints, asked for with a token or without.
    pub async fn get(&self, path: &str, token: Option<&str>) -> Option<(u16, String)> {
        let authorization = token.map(|token| format!("Bearer {token}"));
        http::get(self.listen, path, authorization.as_deref()).await
    }

    /// Where it listens.
    pub fn listen(&self) -> SocketAddr {
        self.listen
    }

    async fn all_metrics(&self) -> Option<String> {
        self.get("/metrics", None).await.map(|(_, body)| body)
    }
}

/// An address of loopback that nothing listens on now.
pub(crate) fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| listener.local_addr())
        .expect("a free port")
}

fn lines_of<'a>(text: &'a str, parts: &[&str]) -> impl Iterator<Item = &'a str> {
    text.lines()
        .filter(|line| !line.starts_with('#') && parts.iter().all(|part| line.contains(part)))
}

fn sum_of(text: &str, parts: &[&str]) -> f64 {
    lines_of(text, parts).filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

/// Lines of a log that tell of a right that the shipped role lacks.
pub(crate) fn refusals_in(log: &str) -> Vec<&str> {
    log.lines()
        .filter(|line| {
            let lower = line.to_lowercase();
            lower.contains("forbidden")
                // A quota and a namespace that is going answer with the same code.
                && !lower.contains("exceeded quota")
                && !lower.contains("being terminated")
        })
        .collect()
}
