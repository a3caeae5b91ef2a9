#!/bin/bash
# deb.sh DEB: install the package in a clean Debian, run a job in gVisor there, check the
# units with Debian's own systemd, remove the package and look at what is left. As root.
set -euo pipefail
deb=$(realpath "$1")

if [ "${2:-}" != inside ]; then
	exec unshare --mount --propagation private "$0" "$deb" inside
fi
root=$(mktemp -d /var/tmp/quavon-root-XXXXXX)
trap 'umount -R "$root"/{proc,sys,dev} 2>/dev/null; rm -rf --one-file-system "$root"' EXIT
mmdebstrap --quiet --variant=minbase --include=systemd,bash-completion,man-db "$(. /etc/os-release && echo "$VERSION_CODENAME")" "$root"
mount --rbind /proc "$root/proc"
mount --rbind /sys "$root/sys"
mount --rbind /dev "$root/dev"
cp "$deb" "$root/tmp/quavon.deb"
say() { sed 's/^/   /'; }
# in_root runs a command there. In a plain chroot the kernel refuses user namespaces.
in_root() {
	env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 unshare --mount sh -ec '
		mount --rbind "$1" "$1"; cd "$1"; shift
		pivot_root . mnt; cd /; umount -l /mnt
		exec "$@"' sh "$root" "$@"
}
# Everything but what apt itself notes of packages.
list() { in_root find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /var/lib/dpkg -o -path /var/cache \
	-o -path /var/log -o -path /tmp \) -prune -o -print | LC_ALL=C sort; }

in_root systemd-analyze verify systemd-journald.service # leaves a directory of its own in /run
list >"$root/tmp/before"
in_root dpkg --install /tmp/quavon.deb | say
in_root quavon version | say
in_root sh -c 'mkdir /srv/work && cd /srv/work && echo hello >file && quavon run -- sh -c "cat file; dmesg | head -n 2; touch /etc/passwd && echo oh || true"' | say
in_root man -w quavon-runner | say
in_root bash -c '. /usr/share/bash-completion/bash_completion; _completion_loader quavon; complete -p quavon' | say
# An unknown key is no failure for systemd: what it says counts. Control: it says something.
verify() { in_root systemd-analyze verify "$@" 2>&1 || true; }
verify quavon-runner.service quavon-egress.service | { ! grep .; }
in_root sh -c 'sed s/TimeoutStopSec=/TimeoutStopsSec=/ /usr/lib/systemd/system/quavon-runner.service >/tmp/quavon-wrong.service'
verify /tmp/quavon-wrong.service | grep "Unknown key 'TimeoutStopsSec'" | say
for unit in runner egress; do
	in_root systemd-analyze security --offline=true "/usr/lib/systemd/system/quavon-$unit.service" | tail -n 1 | say
done

left() { list | LC_ALL=C comm -13 "$root/tmp/before" -; }
in_root rm -r /srv/work
in_root dpkg --remove quavon | say
echo "   left after a removal: $(left | cut -d/ -f1-4 | uniq | tr '\n' ' ')"
left | { ! grep -Ev '^/(var/lib/quavon|etc/quavon)(/|$)'; }
in_root dpkg --purge quavon | say
left | { ! grep .; }
echo "   left after a purge: nothing"
