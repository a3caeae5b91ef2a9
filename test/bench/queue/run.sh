#!/bin/bash
# run.sh [FLAG…]: the queue's benchmark on a Valkey of its own.
set -euo pipefail
: "${GO:=go}"
cd "$(dirname "$0")/../../.."

dir=$(mktemp -d /tmp/quavon-valkey-XXXXXX)
trap 'test/valkey/server.sh stop "$dir"; rm -rf "$dir"' EXIT
"$GO" run ./test/bench/queue -socket "$(test/valkey/server.sh start "$dir")" "$@"
