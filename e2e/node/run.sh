#!/usr/bin/env bash
# Runs the program `node` where it has a machine to itself: network, processes and mounts in
# namespaces of their own, so nothing of it is reachable from outside, or outlives it.
#
#   e2e/node/run.sh --check              whether this machine can
#   e2e/node/run.sh TARGET IMAGE-ARCHIVE
set -euo pipefail

missing() {
	echo "e2e-node cannot run here: $1" >&2
	exit 1
}
[[ $(uname -s) == Linux ]] || missing "it needs Linux"
[[ $(id -u) == 0 ]] || missing "it needs root, for containers"
for program in containerd ctr runc ip unshare; do
	command -v "$program" >/dev/null ||
		missing "$program is not installed (Debian: containerd, runc, containernetworking-plugins, iproute2)"
done
for NODE_CNI in /usr/lib/cni /opt/cni/bin missing; do
	if [[ -x $NODE_CNI/bridge ]]; then break; fi
done
[[ $NODE_CNI != missing ]] || missing "there are no network plugins (Debian: containernetworking-plugins)"
unshare --net --mount --pid --fork true 2>/dev/null || missing "namespaces cannot be made"
if [[ $1 == --check ]]; then exit; fi

target=$(realpath "$1") image=$(realpath "$2")
cd "$(dirname "${BASH_SOURCE[0]}")"
mkdir -p "$target/e2e/node"
for mode in web pause; do
	CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.mode=$mode" -o "$target/e2e/node/$mode" .
	../../config/image/build.sh "$target/e2e/node/$mode" "$mode:1" "$target/e2e/node/$mode.tar" >/dev/null
done
(cd ../controlplane && CGO_ENABLED=0 go build -trimpath \
	-ldflags "-s -w -X k8s.io/component-base/version.gitVersion=$(go list -m -f '{{.Version}}' k8s.io/kubernetes)" \
	-o "$target/e2e/node/kubelet" k8s.io/kubernetes/cmd/kubelet)

export NODE_CNI NODE_KUBELET=$target/e2e/node/kubelet
export NODE_IMAGES="$image $target/e2e/node/web.tar $target/e2e/node/pause.tar"
# The bridge has the address of the node, and that of the service by which pods know the API server.
exec unshare --net --mount --pid --fork --mount-proc --kill-child bash -euc '
	ip link set lo up
	ip link add gray0 type bridge
	ip address add 10.244.0.1/24 dev gray0
	ip address add 10.96.0.1/32 dev gray0
	ip link set gray0 up
	ip route add default dev gray0
	exec "$1"' bash "$target/debug/node"
