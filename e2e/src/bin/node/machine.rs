//! A real node: containerd, kubelet, and the way from pods to the API server.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use grayrollout_e2e::Cluster;
use serde_json::json;
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    runtime::Runtime,
};

/// The node's name.
pub const NODE: &str = "real";
/// The address of the service kubernetes.default, which run.sh gives to this machine.
const API_SERVICE: &str = "10.96.0.1:443";
/// The bridge's own address, likewise.
const NODE_IP: &str = "10.244.0.1";

/// Programs that end with this value, and the folder that they have mounts in.
pub struct Machine {
    programs: Vec<Child>,
    dir: PathBuf,
}

impl Machine {
    /// Starts everything and waits until the node is ready.
    pub fn start(cluster: &Cluster, runtime: &Runtime) -> Self {
        let dir = cluster.dir.join("node");
        fs::create_dir_all(dir.join("net.d")).expect("a folder");
        serve_api(cluster, runtime);
        place_pods(cluster, &dir);
        let mut machine = Self { programs: Vec::new(), dir: dir.clone() };
        let socket = machine.containerd(&dir);
        for archive in given("NODE_IMAGES").split(' ') {
            run(ctr(&socket).args(["images", "import"]).arg(archive));
        }
        machine.kubelet(cluster, &dir, &socket);
        let ready = ["wait", "--for=condition=Ready", "--timeout=60s"];
        let node = format!("node/{NODE}");
        until("the node is there", || {
            cluster.kubectl().args(["get", &node]).output().is_ok_and(|o| o.status.success())
        });
        run(cluster.kubectl().args(ready).arg(&node));
        machine
    }

    fn spawn(&mut self, command: &mut Command, log: &Path) {
        let log = File::create(log).expect("a log");
        let err = log.try_clone().expect("a second handle");
        let child = command.stdin(Stdio::null()).stdout(log).stderr(err).spawn();
        self.programs.push(child.unwrap_or_else(|error| panic!("{command:?}: {error}")));
    }

    fn containerd(&mut self, dir: &Path) -> PathBuf {
        let at = |name: &str| dir.join(name).display().to_string();
        let network = json!({
            "cniVersion": "1.0.0",
            "name": "pods",
            "plugins": [{
                "type": "bridge", "bridge": "gray0", "isGateway": true,
                "ipam": {
                    "type": "host-local", "dataDir": at("addresses"),
                    "ranges": [[{"subnet": "10.244.0.0/24", "gateway": NODE_IP}]],
                    "routes": [{"dst": "0.0.0.0/0"}],
                },
            }],
        });
        fs::write(dir.join("net.d/pods.conflist"), network.to_string()).expect("the network");
        let socket = dir.join("containerd.sock");
        let config = format!(
            r#"version = 2
root = "{root}"
state = "{state}"
[grpc]
address = "{socket}"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "docker.io/library/pause:1"
disable_apparmor = true
restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{plugins}"
conf_dir = "{network}"
[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "native"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
SystemdCgroup = false
"#,
            root = at("root"),
            state = at("state"),
            socket = socket.display(),
            plugins = given("NODE_CNI"),
            network = at("net.d"),
        );
        fs::write(dir.join("containerd.toml"), config).expect("containerd's configuration");
        let config = dir.join("containerd.toml");
        self.spawn(
            Command::new("containerd").arg("--config").arg(config),
            &dir.join("containerd.log"),
        );
        until("containerd answers", || {
            ctr(&socket).arg("version").output().is_ok_and(|output| output.status.success())
        });
        socket
    }

    fn kubelet(&mut self, cluster: &Cluster, dir: &Path, socket: &Path) {
        let config = json!({
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": "127.0.0.1",
            "healthzPort": 0,
            "authentication": {"anonymous": {"enabled": false}, "webhook": {"enabled": false}},
            "authorization": {"mode": "AlwaysAllow"},
            "cgroupDriver": "cgroupfs",
            "cgroupsPerQOS": false,
            "enforceNodeAllocatable": [],
            "failCgroupV1": false,
            "failSwapOn": false,
            "localStorageCapacityIsolation": false,
            "containerRuntimeEndpoint": format!("unix://{}", socket.display()),
            "featureGates": {"KubeletInUserNamespace": true},
            "resolvConf": "",
            "evictionHard": {"memory.available": "1Mi", "nodefs.available": "0%", "imagefs.available": "0%"},
            "imageGCHighThresholdPercent": 100,
            "serializeImagePulls": false,
            "podLogsDir": dir.join("logs"),
        });
        let file = dir.join("kubelet.json");
        fs::write(&file, config.to_string()).expect("the kubelet's configuration");
        let mut kubelet = Command::new(given("NODE_KUBELET"));
        kubelet
            .arg(format!("--config={}", file.display()))
            .arg(format!("--kubeconfig={}", cluster.kubeconfig.display()))
            .arg(format!("--root-dir={}", dir.join("kubelet").display()))
            .arg(format!("--cert-dir={}", dir.join("pki").display()))
            .arg(format!("--hostname-override={NODE}"))
            .arg(format!("--node-ip={NODE_IP}"));
        self.spawn(&mut kubelet, &dir.join("kubelet.log"));
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        for child in self.programs.iter_mut().rev() {
            let _ = child.kill();
            let _ = child.wait();
        }
        // Else the control plane could not remove the folder.
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        for mount in mounts.lines().rev().filter_map(|line| line.split(' ').nth(1)) {
            if Path::new(mount).starts_with(&self.dir) {
                let _ = Command::new("umount").args(["--lazy", mount]).status();
            }
        }
    }
}

/// Pods find the API server at the address that their environment names; it listens elsewhere.
fn serve_api(cluster: &Cluster, runtime: &Runtime) {
    let view = ["config", "view", "--raw", "-o", "jsonpath={.clusters[0].cluster.server}"];
    let server = run(cluster.kubectl().args(view)).trim_start_matches("https://").to_owned();
    let listener = runtime.block_on(TcpListener::bind(API_SERVICE)).expect("the service's address");
    runtime.spawn(async move {
        while let Ok((mut pod, _)) = listener.accept().await {
            let server = server.clone();
            tokio::spawn(async move {
                if let Ok(mut api) = TcpStream::connect(server).await {
                    let _ = copy_bidirectional(&mut pod, &mut api).await;
                }
            });
        }
    });
}

/// In place of a scheduler; the nodes of the control plane's own are no more.
fn place_pods(cluster: &Cluster, dir: &Path) {
    let old = "mutatingadmissionpolicybinding/pod-node.kwok.grayrollout.dev";
    run(cluster.kubectl().args(["delete", old]));
    run(cluster.kubectl().args(["delete", "nodes", "-l", "type=kwok"]));
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingAdmissionPolicy",
        "metadata": {"name": "pod-node"},
        "spec": {
            "failurePolicy": "Fail",
            "reinvocationPolicy": "Never",
            "matchConstraints": {"resourceRules": [{
                "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"],
            }]},
            "mutations": [{
                "patchType": "ApplyConfiguration",
                "applyConfiguration": {
                    "expression": format!("Object{{spec: Object.spec{{nodeName: '{NODE}'}}}}"),
                },
            }],
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingAdmissionPolicyBinding",
        "metadata": {"name": "pod-node"},
        "spec": {"policyName": "pod-node"},
    });
    let list = json!({"apiVersion": "v1", "kind": "List", "items": [policy, binding]});
    let file = dir.join("place.json");
    fs::write(&file, list.to_string()).expect("the policy");
    run(cluster.kubectl().args(["apply", "-f"]).arg(&file));
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "probe"},
        "spec": {"containers": [{"name": "probe", "image": "probe"}]},
    });
    let file = dir.join("probe.json");
    fs::write(&file, pod.to_string()).expect("a pod");
    until("new pods get the node", || {
        let dry = ["create", "--dry-run=server", "-o", "jsonpath={.spec.nodeName}", "-f"];
        run(cluster.kubectl().args(dry).arg(&file)) == NODE
    });
}

fn ctr(socket: &Path) -> Command {
    let mut ctr = Command::new("ctr");
    ctr.arg("--address").arg(socket).args(["--namespace", "k8s.io"]);
    ctr
}

/// What run.sh gives.
fn given(variable: &str) -> String {
    std::env::var(variable).unwrap_or_else(|_| panic!("{variable} is not set: use make e2e-node"))
}

/// Runs a command to its end and gives what it prints.
pub fn run(command: &mut Command) -> String {
    let out = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let complaint = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{command:?}: {complaint}");
    String::from_utf8_lossy(&out.stdout).into_owned()
}

/// Waits for something for up to two minutes.
pub fn until(what: &str, mut met: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_mins(2);
    while !met() {
        assert!(Instant::now() < end, "{what}: not within two minutes");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// What the node's programs said last, and the state of all pods.
pub fn logs(cluster: &Cluster) -> String {
    let mut text = String::new();
    for name in ["containerd", "kubelet"] {
        let log = cluster.dir.join(format!("node/{name}.log"));
        let log = fs::read_to_string(log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let last = lines[lines.len().saturating_sub(30)..].join("\n");
        text.extend(["--- ", name, "\n", &last, "\n"]);
    }
    for args in [
        &["get", "pods,gr,deploy,nodes", "-A", "-o", "wide"][..],
        &["get", "events", "-A", "--sort-by=.lastTimestamp"],
    ] {
        if let Ok(output) = cluster.kubectl().args(args).output() {
            text.push_str(&String::from_utf8_lossy(&output.stdout));
        }
    }
    text
}
