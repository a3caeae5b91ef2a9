#!/bin/bash
# runsc.sh OUT: build stock runsc at the version gvisor/go.mod pins, for GOARCH.
#
# It is built from a vendored copy below the machine's cache, because Go refuses to overlay
# files of its module cache, and upstream's seccomp tables come in as an overlay.
set -euo pipefail
: "${GO:=go}"
cache=${QUAVON_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/quavon}
out=$(realpath -m "$1")
cd "$(dirname "$0")/../gvisor"
export CGO_ENABLED=0 GOFLAGS=-buildvcs=false GOWORK=off

module=$("$GO" list -m -f '{{.Version}}' gvisor.dev/gvisor)
# v0.0.0-<date and time>-<commit> of upstream's "go" branch. The name says which
# release this is and isn't a tag upstream published: runsc takes bare
# "release-<date>" for one and would offer to download that release's sidecars.
version=$(sed -E 's/.*-([0-9]{8})[0-9]{6}-([0-9a-f]+)$/release-\1-\2/' <<<"$module")
# process-1 stands for how the tables are made, below: another way needs another word.
key=$(cat go.mod go.sum precompile/*.go <(echo process-1) <("$GO" env GOARCH) | sha256sum | cut -c1-12)
src=$cache/runsc/$version-$key

# precompile writes the tables and overlay.json. Upstream's systrap lets the sandbox's kernel
# queue signals to itself alone, by the number of the process that makes the table: so that
# is process 1 of a namespace, as the kernel is, and tables are the same each time.
#
# A table is for the architecture that its generator runs on; another's is emulated by
# Debian's qemu-user-static, which can't say whether a kernel knows
# SECCOMP_RET_KILL_PROCESS: every one since Linux 4.14 does.
precompile() {
	local exec='unshare --user --map-root-user --pid --fork --kill-child' module=$src/vendor/gvisor.dev/gvisor overlay=()
	if ! $exec true 2>/dev/null; then
		echo "no user namespaces here: this runsc is like no other" >&2
		exec=
	fi
	case $("$GO" env GOHOSTARCH)-$("$GO" env GOARCH) in
	amd64-arm64) exec+=' qemu-aarch64-static' ;;
	arm64-amd64) exec+=' qemu-x86_64-static' ;;
	esac
	if [[ $exec == *qemu* ]]; then
		local asks=$module/pkg/seccomp/seccomp_unsafe.go
		sed 's/if _, errno := seccomp(linux.SECCOMP_GET_ACTION_AVAIL, .*; errno/if _, errno := action, unix.Errno(0); errno/' \
			"$asks" >"$src/emulated.seccomp"
		printf '{"Replace": {"%s": "%s"}}' "$asks" "$src/emulated.seccomp" >"$src/emulated.json"
		overlay=(-overlay "$src/emulated.json")
	fi
	(cd "$src" && "$GO" run -mod=vendor -exec "$exec" "${overlay[@]}" ./precompile -module "$module" -out "$src")
}

# overlay.json is written last, so its presence says that src is whole.
if [ ! -e "$src/overlay.json" ]; then
	echo "preparing gVisor $version in $src, once for this machine"
	mkdir -p "$cache/runsc"
	tmp=$(mktemp -d "$cache/runsc/.prepare-XXXXXX")
	trap 'rm -rf "$tmp"' EXIT
	cp -r go.mod go.sum precompile "$tmp"
	(cd "$tmp" && "$GO" mod vendor)
	mv -T "$tmp" "$src" 2>/dev/null || true # another make was first: theirs is the same
	precompile
fi

echo "building runsc $version"
cd "$src"
"$GO" build -mod=vendor -trimpath -overlay "$src/overlay.json" \
	-ldflags "-s -w -X gvisor.dev/gvisor/runsc/version.version=$version" \
	-o "$out" gvisor.dev/gvisor/runsc
touch "$out" # up to date for make even if the Go command had nothing to do
