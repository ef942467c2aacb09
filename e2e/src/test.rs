//! One test: a namespace, a record of it, and an operator for it.

use std::{
    net::SocketAddr,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError, RwLock},
    time::Duration,
};

use crate::{
    Api, Cluster, Context, Operator, Record, check, cluster, install, lag::Lag,
    operator::refusals_in, policed_cluster, report,
};

/// How long a stopped operator may take to end.
const TO_STOP: Duration = Duration::from_secs(5);

/// The policies belong to no namespace: a test that changes them has them alone.
static POLICIES: RwLock<()> = RwLock::new(());

/// What a test has at hand.
pub struct Test {
    /// The control plane.
    pub cluster: &'static Cluster,
    /// The API server as the administrator.
    pub api: Api,
    /// The test's own namespace.
    pub namespace: String,
    /// Every stored state in it.
    pub record: Record,
    lag: Lag,
    pub(crate) operators: tokio::sync::Mutex<Vec<Operator>>,
    logs: Mutex<Vec<PathBuf>>,
    up: Mutex<Vec<(Duration, Option<Duration>)>>,
    exempt: Mutex<Vec<&'static str>>,
}

/// Runs a test in a namespace of its own with an operator, and holds all that was stored against
/// the invariants.
pub fn run<F: AsyncFnOnce(&Test)>(body: F) {
    run_named(cluster(), name_of::<F>(), async |test: &Test| {
        test.start_operator().await;
        body(test).await;
    });
}

/// The same where the admission policies are installed.
pub fn run_policed<F: AsyncFnOnce(&Test)>(body: F) {
    let _shared = POLICIES.read().unwrap_or_else(PoisonError::into_inner);
    run_named(policed_cluster(), name_of::<F>(), async |test: &Test| {
        test.start_operator().await;
        body(test).await;
    });
}

/// The same for a test that starts its operators itself.
pub fn run_policed_without_operator<F: AsyncFnOnce(&Test)>(body: F) {
    let _shared = POLICIES.read().unwrap_or_else(PoisonError::into_inner);
    run_named(policed_cluster(), name_of::<F>(), body);
}

/// The same for a test that changes the policies; they are as shipped when it has ended.
pub fn run_policed_alone<F: AsyncFnOnce(&Test)>(body: F) {
    let _alone = POLICIES.write().unwrap_or_else(PoisonError::into_inner);
    let cluster = policed_cluster();
    let _put_back = PutBack(cluster);
    run_named(cluster, name_of::<F>(), async |test: &Test| {
        test.start_operator().await;
        body(test).await;
    });
}

struct PutBack(&'static Cluster);

impl Drop for PutBack {
    fn drop(&mut self) {
        if let Err(why) = install::policies_anew(self.0) {
            eprintln!("the policies could not be put back: {why}");
        }
    }
}

/// The same for a test that starts its operators itself.
pub fn run_without_operator<F: AsyncFnOnce(&Test)>(body: F) {
    run_named(cluster(), name_of::<F>(), body);
}

/// The function that a test's body stands in: `scaling::a4261` of `e2e::scaling::a4261::{{closure}}`.
fn name_of<F>() -> &'static str {
    let full = std::any::type_name::<F>();
    let path = full.split("::{{").next().unwrap_or(full);
    path.rsplit("::").next().unwrap_or(path)
}

fn run_named<F: AsyncFnOnce(&Test)>(cluster: &'static Cluster, name: &str, body: F) {
    // A second thread lets the record see changes at once while the test itself computes.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime");
    let test = runtime.block_on(Test::new(cluster, name));
    let result = catch_unwind(AssertUnwindSafe(|| runtime.block_on(body(&test))));
    let flaws = runtime.block_on(test.finish(result.is_ok()));
    if result.is_err() || !flaws.is_empty() {
        eprintln!("{}", test.report(&flaws));
    }
    runtime.block_on(test.clean_up());
    if let Err(panic) = result {
        resume_unwind(panic);
    }
    assert!(flaws.is_empty(), "{}", flaws.join("\n"));
}

impl Test {
    async fn new(cluster: &'static Cluster, name: &str) -> Self {
        let api = Api::new(&cluster.kubeconfig).await;
        let prefix: String = name.replace('_', "-").chars().take(40).collect();
        let namespace = api.create_namespace(prefix.trim_end_matches('-')).await;
        let record = Record::begin(&api, &namespace).await;
        Self {
            cluster,
            lag: Lag::watch(&api, &namespace),
            api,
            namespace,
            record,
            operators: tokio::sync::Mutex::default(),
            logs: Mutex::default(),
            up: Mutex::default(),
            exempt: Mutex::default(),
        }
    }

    /// Lets a test break a rule by someone else's hand.
    pub fn exempt(&self, rule: &'static str) {
        lock(&self.exempt).push(rule);
    }

    /// A time that must be kept, and what the machine may add to it just now.
    pub fn at_most(&self, seconds: u64) -> Duration {
        Duration::from_secs(seconds) + self.lag.slack()
    }

    /// Starts an operator with the shipped role, and waits until it is ready.
    pub async fn start_operator(&self) {
        self.start_operator_with(&self.cluster.operator_kubeconfig, &[]).await;
    }

    /// The same with another kubeconfig and further arguments.
    pub async fn start_operator_with(&self, kubeconfig: &Path, args: &[&str]) {
        self.start_operator_in(kubeconfig, args, &[]).await;
    }

    /// The same with further variables of its environment.
    pub async fn start_operator_in(&self, kubeconfig: &Path, args: &[&str], env: &[(&str, &Path)]) {
        let mut operators = self.operators.lock().await;
        let number = lock(&self.logs).len();
        let log = format!("{}-{number}.log", self.namespace);
        let log = self.cluster.dir.join(log);
        lock(&self.logs).push(log.clone());
        let namespace = &self.namespace;
        let operator = Operator::start(self.cluster, kubeconfig, namespace, log, args, env);
        operators.push(operator.await);
        drop(operators);
        self.is_up();
    }

    /// Kills every operator without warning, as kill -9 does.
    pub async fn kill_operator(&self) {
        self.operators.lock().await.clear();
        self.is_down();
    }

    /// Stops every operator as Kubernetes does, and checks that it ends well and in time.
    pub async fn stop_operator(&self) {
        let mut operators = std::mem::take(&mut *self.operators.lock().await);
        for operator in &mut operators {
            operator.signal("TERM");
            let code = operator.exit_code(TO_STOP).await;
            assert_eq!(code, Some(0), "exit code after SIGTERM");
        }
        self.is_down();
    }

    /// Freezes every operator in the midst of whatever it does.
    pub async fn freeze_operator(&self) {
        for operator in self.operators.lock().await.iter() {
            operator.signal("STOP");
        }
        self.is_down();
    }

    /// Lets frozen operators go on, with all that they believed.
    pub async fn thaw_operator(&self) {
        for operator in self.operators.lock().await.iter() {
            operator.signal("CONT");
        }
        self.is_up();
    }

    /// Asks the operator that was started last for one of its endpoints, with a token or without.
    pub async fn ask_operator(&self, path: &str, token: Option<&str>) -> (u16, String) {
        let operators = self.operators.lock().await;
        let operator = operators.last().expect("an operator was started");
        operator.get(path, token).await.expect("the operator answers")
    }

    /// Where the operators listen.
    pub async fn operator_addresses(&self) -> Vec<SocketAddr> {
        self.operators.lock().await.iter().map(Operator::listen).collect()
    }

    /// Waits until the operator that was started first ends by itself; its exit code.
    pub async fn first_operator_ends(&self, within: Duration) -> Option<i32> {
        let mut first = self.operators.lock().await.remove(0);
        first.exit_code(within).await
    }

    /// Sum of the metrics, over all operators, whose name and labels contain all of `parts`.
    pub async fn metric(&self, parts: &[&str]) -> f64 {
        let mut sum = 0.0;
        for operator in self.operators.lock().await.iter() {
            sum += operator.metric(parts).await;
        }
        sum
    }

    /// The metrics of all operators whose name and labels contain all of `parts`, a line each.
    pub async fn metrics(&self, parts: &[&str]) -> Vec<String> {
        let mut lines = Vec::new();
        for operator in self.operators.lock().await.iter() {
            lines.extend(operator.metrics(parts).await);
        }
        lines
    }

    pub(crate) fn is_up(&self) {
        lock(&self.up).push((self.record.elapsed(), None));
    }

    pub(crate) fn is_down(&self) {
        let now = self.record.elapsed();
        for (_, to) in lock(&self.up).iter_mut() {
            to.get_or_insert(now);
        }
    }

    /// Ends the operators and tells all that was wrong besides what the test itself asserts.
    async fn finish(&self, passed: bool) -> Vec<String> {
        let mut flaws = Vec::new();
        for operator in self.operators.lock().await.iter() {
            let exempt = lock(&self.exempt).contains(&"403");
            if passed && !exempt && operator.refusals().await > 0.0 {
                flaws.push("403: /metrics tells of requests that the role does not allow".into());
            }
        }
        let end = self.record.elapsed();
        let caught_up = self.record.catch_up().await;
        if passed {
            flaws.extend(caught_up.err());
            // As a task of its own, so that its panic is one flaw among others.
            let stopped = catch(self.stop_operator()).await;
            flaws.extend(stopped.err());
        }
        self.kill_operator().await;
        let logs: String = self.operator_logs();
        flaws.extend(
            refusals_in(&logs).first().map(|line| format!("403: the role lacks a right: {line}")),
        );
        if logs.contains("panicked at") {
            flaws.push("the operator panicked".into());
        }
        let context = Context {
            up: lock(&self.up).clone(),
            end,
            slack: self.lag.slack(),
            exempt: lock(&self.exempt).clone(),
        };
        let violations = check(&self.record.history(), &context);
        flaws.extend(violations.iter().map(ToString::to_string));
        flaws
    }

    /// The logs of all operators of this test.
    pub fn operator_logs(&self) -> String {
        lock(&self.logs)
            .iter()
            .map(|log| std::fs::read_to_string(log).unwrap_or_default())
            .collect()
    }

    fn report(&self, flaws: &[String]) -> String {
        report::write(&self.namespace, flaws, &self.record.history(), &self.operator_logs())
    }

    async fn clean_up(&self) {
        let path = format!("/api/v1/namespaces/{}", self.namespace);
        if let Err(error) = self.api.delete(&path).await
            && error.code != 404
            && error.code != 409
        {
            eprintln!("{} stays: {error}", self.namespace);
        }
    }
}

async fn catch(future: impl Future<Output = ()>) -> Result<(), String> {
    use futures::FutureExt;
    AssertUnwindSafe(future).catch_unwind().await.map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        text.unwrap_or_else(|| "the operator did not stop".into())
    })
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
