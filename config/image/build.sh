#!/usr/bin/env bash
# Packs the operator as a container image without a container engine: one static binary in one
# layer. The archive is an OCI layout and what `docker save` writes in one, so that containerd,
# Docker, Podman, kind and k3s all read it. The same binary gives the same archive.
#
#   config/image/build.sh BINARY NAME:TAG ARCHIVE
set -euo pipefail
binary=$1 image=$2 archive=$3

case $(uname -m) in
x86_64) architecture=amd64 ;;
aarch64 | arm64) architecture=arm64 ;;
*) echo "no image for $(uname -m): amd64 and arm64 only" >&2 && exit 1 ;;
esac

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/root" "$work/image/blobs/sha256"

pack() {
	tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --format=ustar -C "$1" -cf "$2" "${@:3}"
}

# Moves a file among the blobs and prints its digest.
blob() {
	local digest
	digest=$(sha256sum "$1" | cut -d' ' -f1)
	mv "$1" "$work/image/blobs/sha256/$digest"
	echo "$digest"
}

size() {
	wc -c <"$work/image/blobs/sha256/$1" | tr -d ' '
}

install -m 0755 "$binary" "$work/root/grayrollout"
pack "$work/root" "$work/layer" grayrollout
layer=$(blob "$work/layer")

cat >"$work/config" <<JSON
{"architecture":"$architecture","os":"linux","config":{"User":"65532:65532","Entrypoint":["/grayrollout"],"ExposedPorts":{"8080/tcp":{}},"Labels":{"org.opencontainers.image.title":"grayrollout","org.opencontainers.image.version":"${image##*:}","org.opencontainers.image.licenses":"Apache-2.0"}},"rootfs":{"type":"layers","diff_ids":["sha256:$layer"]}}
JSON
config=$(blob "$work/config")

cat >"$work/manifest" <<JSON
{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{"mediaType":"application/vnd.oci.image.config.v1+json","digest":"sha256:$config","size":$(size "$config")},"layers":[{"mediaType":"application/vnd.oci.image.layer.v1.tar","digest":"sha256:$layer","size":$(size "$layer")}]}
JSON
manifest=$(blob "$work/manifest")

echo '{"imageLayoutVersion":"1.0.0"}' >"$work/image/oci-layout"
cat >"$work/image/index.json" <<JSON
{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[{"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":"sha256:$manifest","size":$(size "$manifest"),"platform":{"architecture":"$architecture","os":"linux"},"annotations":{"io.containerd.image.name":"docker.io/library/$image","org.opencontainers.image.ref.name":"${image##*:}"}}]}
JSON
cat >"$work/image/manifest.json" <<JSON
[{"Config":"blobs/sha256/$config","RepoTags":["$image"],"Layers":["blobs/sha256/$layer"]}]
JSON

mkdir -p "$(dirname "$archive")"
pack "$work/image" "$archive" blobs index.json manifest.json oci-layout
echo "$archive: image $image, sha256:$manifest"
