#!/bin/bash
# setup-test.sh: install the Debian packages the tests need that aren't there.
# Quavon itself needs none of them.
set -euo pipefail

packages=(
	gcc libc6-dev                # the race detector, and the small C programs of the tests
	git                          # patches are checked with git apply
	mmdebstrap                   # real images
	procps iproute2 nftables     # a look at the host's processes, network and firewall
	e2fsprogs erofs-utils        # images are checked by their file system's own tools
	busybox-static               # a small program to run from images
	curl iptables                # the Docker Engine that tests start needs them
	qemu-system-x86 cpio         # a machine with cgroup v2, emulated
	nodejs npm python3 python3-venv python3-pip # what the compatibility projects and the package managers of the door run on
)

# fetch unpacks, into the cache, what the tests start for themselves.
fetch() {
	cd "$(dirname "$0")/.."
	test/valkey/server.sh fetch >/dev/null
	test/docker/engine.sh fetch >/dev/null
}

missing=()
for p in "${packages[@]}"; do
	# A tool may be there without Debian's package of it (nodejs from elsewhere
	# brings npm along): what counts is that it runs.
	case $p in
	npm | nodejs) command -v "${p/nodejs/node}" >/dev/null && continue ;;
	esac
	[ "$(dpkg-query -W -f '${db:Status-Status}' "$p" 2>/dev/null)" = installed ] || missing+=("$p")
done
# The emulated machine boots Debian's kernel, fetched by apt-get download.
lists=(/var/lib/apt/lists/*_Packages*)
if [ ${#missing[@]} = 0 ] && [ -e "${lists[0]}" ]; then
	fetch
	echo "setup-test: everything is there"
	exit
fi
if [ "$(id -u)" != 0 ]; then
	echo "setup-test: missing ${missing[*]:-the package lists}; type: sudo make setup-test" >&2
	exit 1
fi
echo "setup-test: installing ${missing[*]:-nothing but the package lists}"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
[ ${#missing[@]} = 0 ] || apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fetch
