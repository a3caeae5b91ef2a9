#!/bin/bash
# run.sh: what `make scan-test` runs, as root: `quavon scan` in the real scanners image,
# over our own flaws and over four public packages, against the scanners run by hand.
#
# STATE=DIR    a state directory whose store has the image; without, it is built with a
#              Docker Engine (15 minutes, 10 GB), with the registries of the tools
set -euo pipefail
: "${GO:=go}"
cd "$(dirname "$0")/../.."
if [ -z "${STATE:-}" ]; then
	dir=$(mktemp -d /var/lib/quavon-scan-XXXXXX)
	trap 'test/docker/engine.sh stop "$dir/engine"; rm -rf "$dir"' EXIT
	export DOCKER_HOST STATE=$dir/state
	DOCKER_HOST=$(test/docker/engine.sh start "$dir/engine" "$PWD/bin/runsc" host-net)
	(PATH=$PWD/bin:$PATH && cd "$dir" && QUAVON_STATE_DIR=$STATE quavon build images scanners --lock "$dir/images.lock.json" --network host \
		--secret ca-certificates=/etc/ssl/certs/ca-certificates.crt)
fi
"$GO" test -tags scan -count=1 -v -timeout 1h ./test/scan -bin "${BIN:-$PWD/bin}" -state "$STATE" "$@"
