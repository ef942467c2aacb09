//! The control plane, started once for all tests of this process.

use std::{
    env,
    path::{Path, PathBuf},
    process::{Child, Command},
    sync::{Mutex, OnceLock, PoisonError},
    time::Duration,
};

use serde_json::Value;

use crate::{Json, install, processes::supervise};

/// A running control plane with everything installed.
pub struct Cluster {
    /// The administrator's kubeconfig.
    pub kubeconfig: PathBuf,
    /// A folder for files, removed at the end.
    pub dir: PathBuf,
    /// Where kubectl is.
    pub bin_dir: PathBuf,
    /// The API server's audit log.
    pub audit_log: PathBuf,
    /// The operator's binary: a copy, so that a build meanwhile changes nothing.
    pub operator: PathBuf,
    /// A kubeconfig with the token of the operator's ServiceAccount.
    pub operator_kubeconfig: PathBuf,
    /// Its standard input ends with this process, and with that the control plane.
    supervisor: Mutex<Child>,
}

/// The control plane of this process; the first caller waits until it has started.
pub fn cluster() -> &'static Cluster {
    static CLUSTER: OnceLock<Result<Cluster, String>> = OnceLock::new();
    started(CLUSTER.get_or_init(|| start(false)))
}

/// Another one, with the admission policies, which belong to no namespace.
pub fn policed_cluster() -> &'static Cluster {
    static CLUSTER: OnceLock<Result<Cluster, String>> = OnceLock::new();
    started(CLUSTER.get_or_init(|| start(true)))
}

fn started(cluster: &'static Result<Cluster, String>) -> &'static Cluster {
    match cluster {
        Ok(cluster) => cluster,
        Err(why) => panic!("no control plane: {why}"),
    }
}

impl Cluster {
    /// Starts another one, with nothing installed; whoever starts it stops it.
    ///
    /// # Errors
    ///
    /// Why it does not start.
    pub fn bare() -> Result<Self, String> {
        start_bare().map(|(cluster, _)| cluster)
    }

    /// Makes the kubeconfig of the operator's ServiceAccount, which must exist by now.
    ///
    /// # Errors
    ///
    /// Why there is no token.
    pub fn use_operators_account(&self) -> Result<(), String> {
        install::operators_account(self)
    }

    /// The kubeconfig of one of the users alice, bob and carol, who have no rights of their own.
    pub fn kubeconfig_of(&self, user: &str) -> PathBuf {
        self.dir.join(format!("kubeconfig-{user}.yaml"))
    }

    /// A kubectl that acts as the administrator.
    pub fn kubectl(&self) -> Command {
        let mut command = Command::new(self.bin_dir.join("kubectl"));
        command
            .env("KUBECONFIG", &self.kubeconfig)
            .env("KUBECACHEDIR", self.dir.join("kubectl-cache"))
            .arg("--request-timeout=30s");
        command
    }

    /// Ends the control plane and waits until all of it is gone. It cannot be started again.
    pub fn stop(&self) {
        let mut supervisor = self.supervisor.lock().unwrap_or_else(PoisonError::into_inner);
        drop(supervisor.stdin.take());
        let _ = supervisor.wait();
    }
}

fn start(policies: bool) -> Result<Cluster, String> {
    let (cluster, root) = start_bare()?;
    install::everything(&cluster, root, policies)?;
    Ok(cluster)
}

fn start_bare() -> Result<(Cluster, &'static Path), String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or("the workspace has no root")?;
    let (target, profile) = target_dir()?;
    let supervisor = build_supervisor(root, &target)?;
    let operator = build_operator(root, &target, &profile)?;
    let (child, line) = supervise(Command::new(supervisor).args(["up", "--audit"]))?;
    let said: Value = serde_json::from_str(&line).map_err(|error| format!("{error}: {line}"))?;
    let dir = PathBuf::from(said.text("/dir"));
    let copy = dir.join("grayrollout");
    std::fs::copy(&operator, &copy)
        .map_err(|error| format!("cannot copy {}: {error}", operator.display()))?;
    let cluster = Cluster {
        kubeconfig: said.text("/kubeconfig").into(),
        bin_dir: said.text("/binDir").into(),
        audit_log: said.text("/auditLog").into(),
        operator: copy,
        operator_kubeconfig: dir.join("operator.yaml"),
        dir,
        supervisor: Mutex::new(child),
    };
    Ok((cluster, root))
}

/// The target folder and the profile, told from where this very program lies.
pub(crate) fn target_dir() -> Result<(PathBuf, String), String> {
    let exe = env::current_exe().map_err(|error| error.to_string())?;
    // <target>/<profile>/deps/<program> for a test, without deps for a program
    let profile = exe.ancestors().skip(1).find(|dir| !dir.ends_with("deps"));
    let profile = profile.ok_or("this program does not lie in a target folder")?;
    let name = profile.file_name().and_then(|name| name.to_str());
    let target = profile.parent().ok_or("no target folder")?;
    Ok((target.to_owned(), name.ok_or("no profile folder")?.to_owned()))
}

fn build_supervisor(root: &Path, target: &Path) -> Result<PathBuf, String> {
    let program = target.join("e2e").join("controlplane");
    let mut go = Command::new("go");
    go.args(["build", "-o"]).arg(&program).arg(".").current_dir(root.join("e2e/controlplane"));
    succeed(&mut go, "building the control plane's supervisor")?;
    Ok(program)
}

/// Builds the operator in this program's profile, unless GRAYROLLOUT_BIN names one.
fn build_operator(root: &Path, target: &Path, profile: &str) -> Result<PathBuf, String> {
    if let Some(given) = env::var_os("GRAYROLLOUT_BIN") {
        return Ok(given.into());
    }
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build
        .args(["build", "--workspace", "--bin", "grayrollout"])
        .args(["--profile", if profile == "debug" { "dev" } else { profile }])
        .arg("--target-dir")
        .arg(target)
        .current_dir(root);
    succeed(&mut build, "building the operator")?;
    Ok(target.join(profile).join("grayrollout"))
}

/// Runs a command to its end.
pub(crate) fn succeed(command: &mut Command, what: &str) -> Result<String, String> {
    let out = command.output().map_err(|error| format!("{what}: {error}"))?;
    if out.status.success() {
        return Ok(String::from_utf8_lossy(&out.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&out.stderr);
    Err(format!("{what} failed ({}):\n{said}", out.status))
}

/// Calls `check` until it gives something.
pub(crate) async fn poll<T>(
    what: &str,
    within: Duration,
    mut check: impl AsyncFnMut() -> Option<T>,
) -> T {
    let give_up = tokio::time::Instant::now() + within;
    loop {
        if let Some(value) = check().await {
            return value;
        }
        assert!(
            tokio::time::Instant::now() < give_up,
            "{what}: not within {} s",
            within.as_secs_f32()
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
