//! Running the plugin.

use std::{
    env,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::OnceLock,
};

use grayrollout_e2e::Test;

/// The plugin's binary, built once in the profile of this test, unless KUBECTL_GRAY_BIN names one.
pub fn binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        if let Some(given) = env::var_os("KUBECTL_GRAY_BIN") {
            return given.into();
        }
        let exe = env::current_exe().expect("the path of this test");
        // <target>/<profile>/deps/<program>
        let profile = exe.ancestors().nth(2).expect("a target folder");
        let target = profile.parent().expect("a target folder");
        let name = profile.file_name().and_then(|name| name.to_str()).expect("a profile");
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
        let built = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
            .args(["build", "--workspace", "--bin", "kubectl-gray"])
            .args(["--profile", if name == "debug" { "dev" } else { name }])
            .arg("--target-dir")
            .arg(target)
            .current_dir(root)
            .output()
            .expect("cargo runs");
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        profile.join("kubectl-gray")
    })
}

/// How a run ended and what it said.
#[derive(Debug)]
pub struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Ran {
    /// Sees to it that it did what was asked, and returns what it printed.
    pub fn done(self) -> String {
        assert_eq!(self.code, 0, "{}\n{}", self.out, self.err);
        self.out
    }

    /// Sees to it that it ended with this code, and returns the complaint.
    pub fn failed(self, code: i32) -> String {
        assert_eq!(self.code, code, "{}\n{}", self.out, self.err);
        assert!(self.err.starts_with("error: "), "{}", self.err);
        assert!(!self.err.contains("panicked"), "{}", self.err);
        self.err
    }
}

/// Without a cluster, terminal or user's settings.
pub fn offline() -> Command {
    let mut command = Command::new(binary());
    command
        .env_remove("KUBECONFIG")
        .env_remove("NO_COLOR")
        .env("HOME", "/nonexistent")
        .env("LC_ALL", "C.UTF-8")
        .stdin(Stdio::null());
    command
}

/// Runs a command to its end.
pub async fn finish(command: Command) -> Ran {
    let out = tokio::process::Command::from(command).output().await.expect("the plugin runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ran {
        code: out.status.code().expect("an exit code"),
        out: text(&out.stdout),
        err: text(&out.stderr),
    }
}

/// The plugin in a test's namespace, as the user of a kubeconfig.
pub fn command_as(t: &Test, kubeconfig: &Path, args: &[&str]) -> Command {
    let mut command = offline();
    command.env("KUBECONFIG", kubeconfig).args(args).args(["-n", &t.namespace]);
    command
}

/// Runs the plugin as the administrator.
pub async fn gray(t: &Test, args: &[&str]) -> Ran {
    let ran = finish(command_as(t, &t.cluster.kubeconfig, args)).await;
    // What it wrote is to be in the record before anything is awaited there.
    t.record.catch_up().await.expect("the record catches up");
    ran
}

/// Runs the plugin as one of the users without rights of their own.
pub async fn gray_as(t: &Test, user: &str, args: &[&str]) -> Ran {
    let ran = finish(command_as(t, &t.cluster.kubeconfig_of(user), args)).await;
    t.record.catch_up().await.expect("the record catches up");
    ran
}

/// Runs a command line as it was shown, in a shell that knows kubectl and the plugin.
pub async fn shell(t: &Test, line: &str) -> Ran {
    let mut command = Command::new("sh");
    let plugin = binary().parent().expect("a folder");
    let path = env::join_paths(
        [t.cluster.bin_dir.clone(), plugin.to_owned()]
            .into_iter()
            .chain(env::split_paths(&env::var_os("PATH").unwrap_or_default())),
    );
    command
        .args(["-c", line])
        .env("PATH", path.expect("a PATH"))
        .env("KUBECONFIG", &t.cluster.kubeconfig)
        .env("KUBECACHEDIR", t.cluster.dir.join("kubectl-cache"))
        .stdin(Stdio::null());
    let ran = finish(command).await;
    t.record.catch_up().await.expect("the record catches up");
    ran
}
