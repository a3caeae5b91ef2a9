# root.sh: sourced by deb.sh and rpm.sh, whose first argument is a Debian as an archive:
# unpacks it into $root, in a mount namespace of their own, and has commands for it.
[ -n "${QUAVON_INSIDE:-}" ] || QUAVON_INSIDE=1 exec unshare --mount --propagation private "$0" "$@"
root=$(mktemp -d /var/tmp/quavon-root-XXXXXX)
trap 'umount -R "$root"/{proc,sys,dev} 2>/dev/null; rm -rf --one-file-system "$root"' EXIT
tar -xf "$1" -C "$root" --exclude='./dev/*'
mount --rbind /proc "$root/proc"
mount --rbind /sys "$root/sys"
mount --rbind /dev "$root/dev"

say() { sed 's/^/   /'; }
# in_root runs a command there. In a plain chroot the kernel refuses user namespaces.
in_root() {
	env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 unshare --mount sh -ec '
		mount --rbind "$1" "$1"; cd "$1"; shift
		pivot_root . mnt; cd /; umount -l /mnt
		exec "$@"' sh "$root" "$@"
}
# list has everything but what dpkg and rpm themselves note of packages.
list() { in_root find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /var/lib/dpkg -o -path /var/lib/rpm -o -path /var/cache \
	-o -path /var/log -o -path /tmp \) -prune -o -print | LC_ALL=C sort; }
# before notes what is there. The check of units leaves a directory of its own in /run.
before() {
	in_root systemd-analyze verify systemd-journald.service
	list >"$root/tmp/before"
}
left() { list | LC_ALL=C comm -13 "$root/tmp/before" -; }
# installed says of what has come since then: mode, owner, path, a link's target, sha256.
installed() {
	left | in_root sh -c 'while read -r path; do
		stat -c "%A %U:%G %N" "$path"
		[ ! -f "$path" ] || [ -L "$path" ] || sha256sum "$path"
	done'
}
# version VERSION: the program there says that it is the one of this package's version.
version() { in_root quavon version | sed -n 1p | tee "$root/tmp/version" | say && grep -qx "quavon v$1" "$root/tmp/version"; }

lacks() { if grep "$1" "$2"; then return 1; fi; }

# What an operator has made his own, and that it is as he left it.
mine() {
	echo 'QUAVON_SANDBOX_CONCURRENCY=3' >>"$root/etc/quavon/sandbox.env"
	echo secret >"$root/etc/quavon/secrets/valkey_sandbox_url"
	chmod 600 "$root/etc/quavon/secrets/valkey_sandbox_url"
	sha256sum "$root"/etc/quavon/{sandbox.env,secrets/*} >"$root/tmp/mine"
}
still_mine() {
	sha256sum --quiet --check "$root/tmp/mine"
	[ "$(stat -c %a "$root/etc/quavon/secrets" "$root/etc/quavon/secrets/valkey_sandbox_url" | xargs)" = "700 600" ]
}
