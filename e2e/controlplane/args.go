package main

import "fmt"

// Relative paths are right in what follows: the children run in their folder.

func etcdArgs(client, peer string) []string {
	return []string{
		"--name=etcd",
		"--data-dir=" + etcdData,
		"--listen-client-urls=" + client,
		"--advertise-client-urls=" + client,
		"--listen-peer-urls=" + peer,
		"--initial-advertise-peer-urls=" + peer,
		"--initial-cluster=etcd=" + peer,
		// Nothing here must outlive a power cut.
		"--unsafe-no-fsync",
		"--log-level=warn",
	}
}

func apiserverArgs(etcd string, port int, auditLog string) []string {
	args := []string{
		"--etcd-servers=" + etcd,
		"--bind-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", port),
		"--tls-cert-file=" + serverCertFile,
		"--tls-private-key-file=" + serverKeyFile,
		// Endpoints on loopback are invalid, and the server would exit.
		"--endpoint-reconciler-type=none",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + serviceAccountKey,
		"--service-account-signing-key-file=" + serviceAccountKey,
		"--authorization-mode=RBAC",
		"--token-auth-file=" + tokenFile,
		"--service-cluster-ip-range=" + serviceCIDR,
		"--allow-privileged",
		// The sum is what priority and fairness shares out: enough to never queue.
		"--max-requests-inflight=3000",
		"--max-mutating-requests-inflight=2000",
	}
	if auditLog != "" {
		args = append(args,
			"--audit-policy-file=audit-policy.yaml",
			"--audit-log-path="+auditLog,
			"--audit-log-maxsize=0", // never rotated
		)
	}
	return args
}

func managerArgs() []string {
	return []string{
		"--kubeconfig=" + managerUser.file,
		"--service-account-private-key-file=" + serviceAccountKey,
		"--root-ca-file=" + caFile,
		"--service-cluster-ip-range=" + serviceCIDR,
		"--leader-elect=false",
		"--secure-port=0",
		// Each controller acts as its own service account, as in a real cluster.
		"--use-service-account-credentials",
		// The default of 20 a second would dominate every measurement.
		"--kube-api-qps=1000",
		"--kube-api-burst=2000",
		// kwok's nodes send no heartbeats, and a machine under load must not lose them.
		"--node-monitor-grace-period=24h",
	}
}
