#!/bin/bash
# update.sh IMAGE: pin anew, to what the registries have today, the packages of all
# shipped images: what *.in and package.json name, and everything they pull in. IMAGE is
# the base in a Docker Engine (DOCKER_HOST) that reaches the registries by --network=host.
# Needs docker, npm, go, and uv for Python.
set -euo pipefail
base=$1
cd "$(dirname "$0")/../../templates/images"

# Everything that apt-get would install on the base, with versions.
debs() {
	docker run --rm -i --network=host "$base" sh -c '
		apt-get -q update >/dev/null
		apt-get -s install --no-install-recommends $(cat)' <"$1" |
		sed -n 's/^Inst \([^ ]*\) .*(\([^ ]*\) .*/\1=\2/p' | LC_ALL=C sort -u
}

for image in go guest node python scanners; do (
	cd "$image"
	debs apt.in >apt.txt
	debs fetch.in >fetch.apt
	for in in python.in node.in; do
		[ ! -e $in ] || uv pip compile -q --no-header --no-annotate --generate-hashes --only-binary :all: \
			--python-version 3.13 --python-platform x86_64-manylinux_2_28 -o "${in%.in}.txt" $in
	done
	[ ! -e package.json ] ||
		npm install --package-lock-only --ignore-scripts --omit-lockfile-registry-resolved --no-audit --no-fund >/dev/null
); done
# Go's own sums: `go get -modfile=tools.mod -tool MODULE@VERSION` in scanners/.
