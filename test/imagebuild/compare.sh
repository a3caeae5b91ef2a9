#!/bin/bash
# compare.sh NAME DIR DOCKER: makes an ext4 of the store's image NAME in DIR, and compares it
# with what overlayfs makes of the same layers, which the Docker Engine at DOCKER_HOST
# has: every entry's kind, mode, owner, time, links and attributes, and every byte. As
# root, with the engine's CLI at DOCKER.
set -euo pipefail
name=$1 dir=$2 docker=$3
work=$(mktemp -d "$dir/compare-XXXXXX")
trap 'umount -q "$work"/{ours,overlay} || true; rm -rf "$work"' EXIT
mkdir "$work"/{ours,overlay}

quavon build rootfs "$name" -o "$dir/$name.ext4" >/dev/null
e2fsck -fn "$dir/$name.ext4" >"$work/e2fsck" 2>&1 || { cat "$work/e2fsck" >&2; exit 1; }
mount -o loop,ro "$dir/$name.ext4" "$work/ours"

lower=$("$docker" image inspect "$("$docker" images -q "quavon/$name")" \
	-f '{{.GraphDriver.Data.UpperDir}}:{{with .GraphDriver.Data.LowerDir}}{{.}}{{end}}')
mount -t overlay -o "ro,lowerdir=${lower%:}" overlay "$work/overlay"

# list DIR: a directory's size and links are its file system's own matter. The engine
# exports layers with whole seconds.
list() {
	cd "$1"
	find . -mindepth 1 -path ./lost+found -prune -o \
		\( -type d -printf '%p %y %m %U %G %T@\n' -o -printf '%p %y %m %U %G %T@ %s %n %l\n' \) |
		sed -E 's/( [0-9]+)\.[0-9]{10}/\1/'
	find . -type f -print0 | sort -z | xargs -0 sha256sum
	getfattr -Rhd -m - . 2>/dev/null || true
}
(list "$work/ours") | sort >"$work/a"
(list "$work/overlay") | sort >"$work/b"
[ "$(wc -l <"$work/a")" -gt 1000 ] || { echo "$name: nothing to compare" >&2; exit 1; }
if ! diff "$work/a" "$work/b" >"$work/diff"; then
	echo "$name: not as overlayfs has it:" >&2
	head -20 "$work/diff" >&2
	exit 1
fi
echo "$name: $(wc -l <"$work/a") lines equal"
