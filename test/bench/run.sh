#!/bin/bash
# run.sh: what `make bench` runs, as root on a quiet machine. RUNS is the number of
# runs of each arm; BENCH_DOCKER=0 leaves Docker out, which is fetched for it.
set -euo pipefail
: "${GO:=go}" "${RUNS:=20}" "${BENCH_DOCKER:=1}" "${CACHE:=$HOME/.cache/quavon}"
cd "$(dirname "$0")/../.."

docker=
if [ "$BENCH_DOCKER" = 1 ]; then
	root=$(test/docker/engine.sh fetch)
	engine=$(mktemp -d /var/lib/quavon-docker-XXXXXX)
	trap 'test/docker/engine.sh stop "$engine"' EXIT
	docker="$root/usr/bin/docker -H $(test/docker/engine.sh start "$engine" "$PWD/bin/runsc")"
	# An image with one static program, so that Docker is at its fastest.
	mkdir -p "$engine/image/bin"
	cp "$(command -v busybox)" "$engine/image/bin/true"
	tar -C "$engine/image" -c bin | $docker import - bench >/dev/null
fi

failed=0
echo "== start"
"$GO" run ./test/bench -runs "$RUNS" -bin bin -docker "$docker" || failed=1
base=$CACHE/images/debian-base.tar
[ -e "$base" ] || { mkdir -p "${base%/*}"; mmdebstrap -q --variant=minbase bookworm "$base"; }
tar2ext4=$CACHE/tools/tar2ext4
(cd test/bench/hcsshim && CGO_ENABLED=0 "$GO" build -o "$tar2ext4" github.com/Microsoft/hcsshim/cmd/tar2ext4)
echo "== images"
"$GO" run ./test/bench/images -runs "$(((RUNS + 1) / 2))" -bin "$PWD/bin" -base "$base" -tar2ext4 "$tar2ext4" || failed=1
echo "== agent"
"$GO" test -run '^$' -bench . -benchtime "${RUNS}x" ./runner/agent || failed=1
echo "== queue"
GO=$GO test/bench/queue/run.sh || failed=1
echo "== submit"
"$GO" test -run '^$' -bench FirstByte -benchtime "${RUNS}x" ./runner/client || failed=1
echo "== egress" # the crowd takes two and a half minutes; with less than 20 runs its reader stalls for 15 s, not 60
"$GO" test -run '^$' -bench Door -benchtime "$(((RUNS + 1) / 2))x" ./runner/egress || failed=1
"$GO" test -run '^$' -bench 'Proxy|Dial|Idle' -benchtime 3x ./runner/egress || failed=1
short=
[ "$RUNS" -ge 20 ] || short=-short
"$GO" test $short -run '^$' -bench Crowd -benchtime 1x ./runner/egress || failed=1
# Needs the scanners image, which takes longer to build than all of the above.
if [ -n "${SCAN_STATE:-}" ]; then
	echo "== scan"
	GO=$GO STATE=$SCAN_STATE test/scan/run.sh -test.run Packages || failed=1
fi
exit $failed
