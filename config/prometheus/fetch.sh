#!/usr/bin/env bash
# Unpacks Prometheus and promtool of Debian's package into a folder, without installing it.
#
#   config/prometheus/fetch.sh FOLDER
set -euo pipefail
folder=$1
help="put prometheus and promtool on PATH, as any package of Prometheus does"
if ! command -v apt-get >/dev/null || ! command -v dpkg-deb >/dev/null; then
	echo "the tests of the alerts and the dashboard need Prometheus: $help" >&2 && exit 1
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
cd "$work"
# The lists of packages may be missing, or too old; bringing them takes root.
apt-get -qq download prometheus 2>/dev/null || { apt-get -qq update && apt-get -qq download prometheus; } || {
	echo "apt-get has no package prometheus: $help" >&2 && exit 1
}
cd - >/dev/null
dpkg-deb -x "$work"/prometheus_*.deb "$work/root"
mkdir -p "$folder/usr/bin"
mv "$work"/root/usr/bin/{prometheus,promtool} "$folder/usr/bin/"
"$folder/usr/bin/promtool" --version | head -1
