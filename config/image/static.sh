#!/usr/bin/env bash
# Builds the operator and the plugin as static binaries, for any Linux of this machine's kind, and
# puts them into TARGET/image: with musl where rustup has it, else with glibc.
#
#   config/image/static.sh TARGET
set -euo pipefail
target=$1
[[ $(uname -s) == Linux ]] || { echo "the image is built on Linux: its binary is linked for it" >&2 && exit 1; }

triple=$(uname -m)-unknown-linux-musl
if [[ -d $(rustc --print target-libdir --target "$triple") ]] || rustup target add "$triple" >/dev/null 2>&1; then
	# ring has a little C, which needs nothing of a C library.
	cc=CC_${triple//-/_}
	command -v musl-gcc >/dev/null || export "$cc=${!cc:-cc}"
else
	triple=$(rustc -vV | sed -n 's/^host: //p')
	echo "rustup has no musl here: the binaries are linked with glibc, statically" >&2
	export RUSTFLAGS="${RUSTFLAGS:-} -C target-feature=+crt-static"
fi
cargo build --release --bin grayrollout --bin kubectl-gray --target "$triple" --target-dir "$target"
mkdir -p "$target/image"
for program in grayrollout kubectl-gray; do
	cp "$target/$triple/release/$program" "$target/image/$program"
	if readelf -d "$target/image/$program" 2>/dev/null | grep -q NEEDED; then
		echo "$program is not static" >&2 && exit 1
	fi
done
