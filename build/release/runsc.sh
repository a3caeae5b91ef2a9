#!/bin/bash
# runsc.sh build … -o OUT …: what goreleaser runs as if it were the Go command, to have
# runsc built the one way there is. The rest of the command line isn't about gVisor.
set -euo pipefail
while [ $# -gt 1 ] && [ "$1" != -o ]; do shift; done
GO=${GO:-go} exec "$(dirname "$0")/../runsc.sh" "$2"
