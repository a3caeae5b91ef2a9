#!/usr/bin/env bash
# Boots an ext4 image as the root of an emulated machine, with Debian's own kernel and
# quavon-guest from the image as the first process.
#
#   boot.sh IMAGE SOCKET
#
# The agent's byte stream is at the unix socket, on which somebody listens. What the
# machine says on its console goes to stdout.
set -euo pipefail
. "$(dirname "$0")/kernel.sh"
[[ $# == 2 ]] || { sed -n '2,8p' "$0" | sed 's/^# \{0,1\}//' >&2; exit 2; }

kernel=$(fetch_kernel)
tree=$(mktemp -d)
trap 'rm -rf "$tree" "$tree.cpio"' EXIT
mkdir -p "$tree"/{bin,dev,root,modules}
cp "$(command -v busybox)" "$tree/bin/busybox"
# All of virtio is in modules, loaded in this order.
modules=(virtio_ring virtio virtio_pci_legacy_dev virtio_pci_modern_dev virtio_pci virtio_blk virtio_console)
for m in "${modules[@]}"; do
  find "$kernel/lib/modules" -name "$m.ko" -exec cp {} "$tree/modules/" \;
done
cat >"$tree/init" <<INIT
#!/bin/busybox sh
for m in ${modules[*]}; do [ ! -e /modules/\$m.ko ] || busybox insmod /modules/\$m.ko; done
busybox mount -t devtmpfs dev /dev
while [ ! -e /dev/vda ]; do busybox sleep 0.01; done
busybox mount -t ext4 /dev/vda /root
busybox umount /dev
exec busybox switch_root /root /.quavon/guest vm
INIT
chmod 755 "$tree/init"
(cd "$tree" && find . -print0 | cpio --null --quiet -o -H newc) >"$tree.cpio"

# Not exec: the trap removes what was made.
qemu-system-x86_64 -M pc,accel=tcg -cpu max -smp 1 -m 512M -nographic -no-reboot -nodefaults -serial stdio \
  -kernel "$kernel"/boot/vmlinuz-* -initrd "$tree.cpio" -append 'console=ttyS0 quiet panic=-1 rdinit=/init' \
  -drive "file=$1,format=raw,if=virtio" \
  -device virtio-serial-pci -chardev "socket,id=agent,path=$2" -device virtserialport,chardev=agent,name=quavon.agent </dev/null &
machine=$!
trap 'kill $machine 2>/dev/null || true; rm -rf "$tree" "$tree.cpio"' EXIT
trap 'exit 143' TERM INT
wait $machine
