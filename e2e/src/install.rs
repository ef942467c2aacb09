//! Installs what a user installs: the CRD and the operator's ServiceAccount with its shipped role.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{Api, Cluster, Json, cluster::succeed, grayrollout};

const NAMESPACE: &str = "grayrollout-system";
const ACCOUNT: &str = "grayrollout";

/// The kinds of which our admission policies are.
pub const POLICY_KINDS: &str = "mutatingadmissionpolicies,mutatingadmissionpolicybindings,\
                                validatingadmissionpolicies,validatingadmissionpolicybindings";

pub(crate) fn everything(cluster: &Cluster, root: &Path, policies: bool) -> Result<(), String> {
    apply(cluster, &["-f"], &root.join("crds"))?;
    let mut wait = cluster.kubectl();
    wait.args([
        "wait",
        "--for=condition=Established",
        "--timeout=30s",
        "crd/grayrollouts.grayrollout.dev",
    ]);
    succeed(&mut wait, "waiting for the CRD")?;
    let mut create = cluster.kubectl();
    create.args(["create", "namespace", NAMESPACE]);
    succeed(&mut create, "creating the operator's namespace")?;
    apply(cluster, &["-n", NAMESPACE, "-k"], &root.join("config/rbac"))?;
    if policies {
        apply(cluster, &["-k"], &root.join("config/policies"))?;
        in_effect(cluster)?;
    }

    operators_account(cluster)
}

/// Replaces whatever policies of ours there are by those that are shipped.
pub(crate) fn policies_anew(cluster: &Cluster) -> Result<(), String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or("the workspace has no root")?;
    let mut delete = cluster.kubectl();
    delete.args(["delete", POLICY_KINDS, "-l", "app.kubernetes.io/name=grayrollout"]);
    succeed(&mut delete, "deleting the policies")?;
    apply(cluster, &["-k"], &root.join("config/policies"))?;
    in_effect(cluster)
}

fn apply(cluster: &Cluster, args: &[&str], path: &Path) -> Result<String, String> {
    let mut kubectl = cluster.kubectl();
    kubectl.args(["apply", "--server-side", "--force-conflicts"]).args(args).arg(path);
    succeed(&mut kubectl, "installing")
}

/// Makes the kubeconfig of the operator's ServiceAccount.
pub(crate) fn operators_account(cluster: &Cluster) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    let token = runtime.block_on(async {
        let api = Api::new(&cluster.kubeconfig).await;
        token(&api, NAMESPACE, ACCOUNT).await
    })?;
    write_kubeconfig(cluster, &token, &cluster.operator_kubeconfig)
}

/// Waits until an approval is signed: for some seconds after the CRD was made the API server
/// refuses what a policy is to change.
fn in_effect(cluster: &Cluster) -> Result<(), String> {
    let approved = grayrollout("approved", &[100])
        .with(json!({"spec": {"approval": {"rollout": 1, "revision": "x", "stage": 1}}}));
    let file = cluster.dir.join("approved.json");
    std::fs::write(&file, approved.to_string()).map_err(|error| error.to_string())?;
    let end = Instant::now() + Duration::from_mins(1);
    loop {
        let mut create = cluster.kubectl();
        create.args(["create", "--dry-run=server", "-o", "json", "-n", "default", "-f"]).arg(&file);
        let answer = succeed(&mut create, "waiting for the policies");
        match answer {
            Ok(made) if made.contains("\"by\"") => return Ok(()),
            answer if Instant::now() > end => {
                return Err(answer.err().unwrap_or_else(|| "no approval is signed".into()));
            }
            _ => std::thread::sleep(Duration::from_millis(200)),
        }
    }
}

/// A token of a ServiceAccount.
pub(crate) async fn token(api: &Api, namespace: &str, account: &str) -> Result<String, String> {
    let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token");
    let body = json!({"spec": {"expirationSeconds": 86400}});
    let made = api.post(&path, &body).await;
    let made = made.map_err(|error| format!("no token for {account}: {error}"))?;
    Ok(made.text("/status/token").to_owned())
}

impl Cluster {
    /// Writes a kubeconfig that acts as a ServiceAccount in the operator's namespace.
    pub async fn kubeconfig_of_account(&self, account: &str) -> std::path::PathBuf {
        let api = Api::new(&self.kubeconfig).await;
        let token = token(&api, NAMESPACE, account).await.expect("a token");
        let to = self.dir.join(format!("kubeconfig-{account}.yaml"));
        write_kubeconfig(self, &token, &to).expect("a kubeconfig");
        to
    }
}

/// The administrator's kubeconfig with another token. JSON is YAML too.
pub(crate) fn write_kubeconfig(cluster: &Cluster, token: &str, file: &Path) -> Result<(), String> {
    let mut view = cluster.kubectl();
    view.args(["config", "view", "--raw", "-o", "json"]);
    let config = succeed(&mut view, "reading the kubeconfig")?;
    let config: Value = serde_json::from_str(&config).map_err(|error| error.to_string())?;
    let name = config.text("/users/0/name").to_owned();
    let config = config.with(json!({"users": [{"name": name, "user": {"token": token}}]}));
    std::fs::write(file, config.to_string())
        .map_err(|error| format!("cannot write {}: {error}", file.display()))
}
