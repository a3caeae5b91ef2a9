#!/bin/bash
# boot.sh DIR NEXT: boot an emulated Debian whose first process is systemd, with DIR's deb
# and a Valkey in it; start the services as the units say, run a job, stop them; upgrade to
# the later packages of NEXT while services run, go back, remove. As root.
# The exit code is the checks'; 3 when the machine did not get that far.
set -euo pipefail
old=$(realpath "$1") next=$(realpath "$2")
cd "$(dirname "$0")/../.."
. test/qemu/kernel.sh
kernel=$(fetch_kernel)
valkey=$(test/valkey/server.sh fetch)

work=$(mktemp -d /var/tmp/quavon-boot-XXXXXX)
trap 'rm -rf "$work"' EXIT
root=$work/root
# Kept for the next time, like the kernel.
suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
base=$cache/systemd-rpm-$suite.tar
if [ ! -e "$base" ]; then
	mmdebstrap --quiet --variant=minbase --include=systemd,systemd-sysv,procps,busybox-static,kmod,rpm "$suite" "$base.new.tar"
	mv "$base.new.tar" "$base"
fi
mkdir "$root"
tar -xf "$base" -C "$root" --exclude=./dev/*
mkdir "$root/packages"
cp "$old"/*_amd64.deb "$root/packages/old.deb"
cp "$old"/*.x86_64.rpm "$root/packages/old.rpm"
cp "$next"/*_amd64.deb "$root/packages/next.deb"
cp "$next"/*.x86_64.rpm "$root/packages/next.rpm"
chroot "$root" dpkg --install /packages/old.deb >/dev/null
rm -rf "$root"/{usr/share/{doc,man,locale,info},var/{lib/apt,cache,log}}
cp -a "$valkey/usr/." "$root/usr/"
mkdir -p "$root"/{modules,new,var/log,var/cache,var/tmp}
for module in loop overlay erofs; do
	find "$kernel/lib/modules" -name "$module.ko*" -exec cp {} "$root/modules/" \;
done
cp build/release/boot-check.sh "$root/usr/bin/boot-check"
cp build/release/boot-packages.sh "$root/usr/bin/boot-packages"
cat >"$root/usr/lib/systemd/system/boot-check.service" <<'UNIT'
[Unit]
After=multi-user.target
[Service]
Type=exec
ExecStart=/usr/bin/boot-check
StandardOutput=tty
StandardError=tty
TTYPath=/dev/ttyS0
UNIT
mkdir -p "$root/etc/systemd/system/default.target.wants"
ln -s /usr/lib/systemd/system/boot-check.service "$root/etc/systemd/system/default.target.wants/"
ln -sf multi-user.target "$root/usr/lib/systemd/system/default.target"
ln -s /dev/null "$root/etc/systemd/system/serial-getty@ttyS0.service"
: >"$root/etc/machine-id"
: >"$root/etc/fstab"
# pivot_root refuses the kernel's first root: all goes to a tmpfs, state to an ext4.
cat >"$root/init" <<'INIT'
#!/bin/busybox sh
mount -t tmpfs -o mode=755,size=90% tmpfs /new
for d in /*; do case $d in /new | /init) ;; *) cp -a "$d" /new/ ;; esac; done
mount -t devtmpfs dev /dev
mount -t devtmpfs dev /new/dev
for m in /modules/*.ko*; do insmod "$m" 2>/dev/null; done
truncate -s 2G /new/disk
mke2fs -q -t ext4 -F /new/disk 2>/dev/null
mount -o loop /new/disk /new/var/lib
cp -a /var/lib/. /new/var/lib/
exec switch_root /new /sbin/init
INIT
chmod 755 "$root/init"
(cd "$root" && find . -print0 | cpio --null --quiet -o -H newc) >"$work/cpio"
rm -rf "$root"

timeout --foreground "${BOOT_TIMEOUT:-1800}" qemu-system-x86_64 -M pc,accel=tcg -cpu max -smp 2 -m 5G -nographic -no-reboot \
	-nodefaults -serial stdio -kernel "$kernel"/boot/vmlinuz-* -initrd "$work/cpio" \
	-append 'console=ttyS0 quiet panic=-1 systemd.show_status=0 systemd.unified_cgroup_hierarchy=1' </dev/null | stdbuf -o0 tr -d '\r' | tee "$work/log" |
	if [ -n "${VERBOSE:-}" ]; then cat; else sed -un '/^machine: start$/,/^machine: exit /{/^machine: /!p}'; fi || true
code=$(sed -n 's/^machine: exit \([0-9]*\)$/\1/p' "$work/log")
exit "${code:-3}"
