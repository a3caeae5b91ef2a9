#!/bin/bash
# run.sh: what `make images-test` runs, as root. Images made of Debian's packages, npm,
# PyPI and Go are taken in from a registry, an OCI layout, a docker-archive and a Docker
# Engine; the compatibility projects run in them.
set -euo pipefail
: "${GO:=go}" "${CACHE:=$HOME/.cache/quavon}"
cd "$(dirname "$0")/../.."

dir=$(mktemp -d /var/lib/quavon-images-XXXXXX)
trap 'test/docker/engine.sh stop "$dir/engine"; rm -rf "$dir"' EXIT
root=$(test/docker/engine.sh fetch)
engine=$(test/docker/engine.sh start "$dir/engine" "$PWD/bin/runsc")
export QUAVON_IMAGES_CACHE=$CACHE/images QUAVON_COMPAT_CACHE=$CACHE/compat

"$GO" test -tags images -count=1 -v -timeout 2h ./test/images \
	-quavon "$PWD/bin/quavon" -state "$dir/state" -engine "$engine" -docker "$root/usr/bin/docker"
"$GO" test -tags compat -count=1 -v -timeout 3h ./test/compat -run Projects -images "$dir/state" -report "$PWD/docs/compatibility-images.md"
