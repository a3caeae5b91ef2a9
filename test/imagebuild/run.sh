#!/bin/bash
# run.sh: what `make images-build` runs, as root. `quavon build images` builds the six
# shipped images with a real Docker Engine and the packages of real registries; then
# every tool of theirs does a piece of work in gVisor.
#
# SECRETS=DIR  files named like the secrets of docs/build.md (npmrc, pip.conf, …), for a
#              machine that reaches registries of its own only
# KEEP=FILE    where to put a copy of the lock
set -euo pipefail
: "${GO:=go}"
cd "$(dirname "$0")/../.."

dir=$(mktemp -d /var/lib/quavon-build-XXXXXX)
trap 'test/docker/engine.sh stop "$dir/engine"; rm -rf "$dir"' EXIT
engine=$(test/docker/engine.sh start "$dir/engine" "$PWD/bin/runsc" host-net)
export QUAVON_STATE_DIR=$dir/state DOCKER_HOST=$engine

# What is passed to the builds has a mark, which mustn't be found in any image.
mark=quavon-mark-$RANDOM$RANDOM
secrets=$dir/secrets flags=()
mkdir "$secrets"
cp /etc/ssl/certs/ca-certificates.crt "$secrets/ca-certificates"
touch "$secrets"/{pip.conf,go.env,npmrc}
[ -z "${SECRETS:-}" ] || cp "$SECRETS"/* "$secrets/"
for file in "$secrets"/*; do
	echo "# $mark" >>"$file"
	flags+=(--secret "$(basename "$file")=$file")
done

here=$PWD
PATH=$here/bin:$PATH
cd "$dir" # no images.yaml is here, so the shipped ones are built
build() { quavon build images --lock "$dir/images.lock.json" --network host "${flags[@]}" "$@"; }

echo "== from nothing"
time build
echo "== once more"
time build
build --check
echo "== sizes"
quavon images ls
du -shx "$dir/engine/data" "$dir/state" | sed "s#$dir/##"

echo "== as ext4, against overlayfs"
for name in go guest node python scanners valkey; do
	"$here/test/imagebuild/compare.sh" "$name" "$dir" "$("$here/test/docker/engine.sh" fetch)/usr/bin/docker"
	[ "$name" = node ] || rm "$dir/$name.ext4"
done
echo "== boot one"
(cd "$here" && QUAVON_ROOTFS=$dir/node.ext4 "$GO" test -count=1 -v ./test/qemu -run TestBootRootfs/built)

if grep -rl "$mark" "$dir"/images*; then
	echo "the lock or a list of packages has what was passed to the build" >&2
	exit 1
fi
[ -z "${KEEP:-}" ] || (cd "$here" && cp "$dir/images.lock.json" "$KEEP")
cd "$here"
"$GO" test -tags imagebuild -count=1 -v -timeout 1h ./test/imagebuild -run 'Tools|Mark' \
	-bin "$here/bin" -state "$dir/state" -mark "$mark"
