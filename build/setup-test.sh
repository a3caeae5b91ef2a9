#!/bin/bash
# setup-test.sh: install the Debian packages the tests need that aren't there.
# Quavon itself needs none of them.
set -euo pipefail

packages=(
	gcc libc6-dev       # the race detector, and the small C programs of the tests
	git                 # patches are checked with git apply
	uidmap              # newuidmap, for the tests that run rootless
	qemu-system-x86 busybox-static cpio e2fsprogs # a machine with cgroup v2, emulated
	procps iproute2     # ps and ss: the host's lists before and after
	nodejs npm python3 python3-venv # toolchains the compatibility projects run on
)

missing=()
for p in "${packages[@]}"; do
	# A tool may be there without Debian's package of it (nodejs from elsewhere
	# brings npm along): what counts is that it runs.
	case $p in
	npm | nodejs) command -v "${p/nodejs/node}" >/dev/null && continue ;;
	esac
	[ "$(dpkg-query -W -f '${db:Status-Status}' "$p" 2>/dev/null)" = installed ] || missing+=("$p")
done
if [ ${#missing[@]} = 0 ]; then
	echo "setup-test: everything is there"
	exit
fi
if [ "$(id -u)" != 0 ]; then
	echo "setup-test: missing ${missing[*]}; type: sudo make setup-test" >&2
	exit 1
fi
echo "setup-test: installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
