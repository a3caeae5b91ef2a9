#!/bin/bash
# update.sh [DIR]: pin anew, to what the registries have today, all packages of the
# shipped images: those that recipe.yaml, *.in and package.json name, and what they pull
# in. DIR is a copy of templates/images, or that itself. Needs mmdebstrap as root, npm,
# and uv for Python. Go's sums are made by hand, in scanners/:
#   go get -modfile=tools.mod -tool MODULE@VERSION
set -euo pipefail
cd "${1:-$(dirname "$0")/../../templates/images}"
export DIR=$PWD LC_ALL=C

# apt itself says what it would install on the base.
export PINS='
chroot "$1" dpkg-query -W -f "\${Package}=\${Version}\n" | sort -t= -k1,1 >"$DIR/debian/amd64.txt"
for wanted in "$DIR"/*/apt.in "$DIR"/*/fetch.in; do
	case $wanted in */apt.in) pins=${wanted%in}txt ;; *) pins=${wanted%in}apt ;; esac
	chroot "$1" apt-get -s install --no-install-recommends $(cat "$wanted") |
		sed -n "s/^Inst \([^ ]*\) .*(\([^ ]*\) .*/\1=\2/p" | sort -u >"$pins"
done'
mmdebstrap --quiet --variant=minbase --customize-hook='sh -euc "$PINS" pins "$1"' \
	--include="$(sed -n 's/^include: \[\(.*\)\]/\1/p' debian/recipe.yaml)" \
	"$(sed -n 's/^suite: //p' debian/recipe.yaml)" /dev/null

for in in */python.in */node.in; do
	uv pip compile -q --no-header --no-annotate --generate-hashes --only-binary :all: \
		--python-version 3.13 --python-platform x86_64-manylinux_2_28 -o "${in%.in}.txt" "$in"
done
for package in */package.json; do
	(cd "$(dirname "$package")" && npm install --package-lock-only --ignore-scripts \
		--omit-lockfile-registry-resolved --no-audit --no-fund >/dev/null)
done
