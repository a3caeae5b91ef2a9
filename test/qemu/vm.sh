#!/usr/bin/env bash
# Runs a command as root in an emulated machine with Debian's own kernel and pure
# cgroup v2, which this kind of build machine doesn't have. No KVM, no network.
#
#   vm.sh [-t SECONDS] [-d DATE] [-q ARGUMENTS] [-p PARAMETERS] [-k MODULES] FILE… -- COMMAND…
#
# The files are in /t, the working directory; /usr/bin has busybox; /var/lib is ext4.
# The machine's clock starts at the date, such as 2031-02-03T04:05:06. qemu gets the
# arguments too, such as "-smp 2,threads=2", and the kernel the parameters; the modules, such
# as "tun kvm-amd", can be loaded there, and aren't.
# The exit code is the command's; 3 when the machine did not get that far.
set -euo pipefail

. "$(dirname "$0")/kernel.sh"
limit=600 day='' arguments=() parameters='' loadable=()
while getopts t:d:q:p:k: option; do
  case $option in
    t) limit=$OPTARG ;;
    d) day=$OPTARG ;;
    q) read -ra arguments <<<"$OPTARG" ;;
    p) parameters=$OPTARG ;;
    k) read -ra loadable <<<"$OPTARG" ;;
    *) exit 2 ;;
  esac
done
shift $((OPTIND - 1))
files=()
while [[ $# -gt 0 && $1 != -- ]]; do files+=("$1"); shift; done
[[ $# -ge 2 ]] || { sed -n '2,11p' "$0" | sed 's/^# \{0,1\}//' >&2; exit 2; }
shift

kernel=$(fetch_kernel)
tree=$(mktemp -d)
trap 'rm -rf "$tree" "$tree.cpio" "$tree.log"' EXIT

mkdir -p "$tree"/{new,t,usr/bin,usr/lib,usr/lib64,usr/sbin,etc,proc,sys,dev,tmp,run,var/lib,root,modules}
for l in bin sbin lib lib64; do ln -s "usr/$l" "$tree/$l"; done
cp "$(command -v busybox)" "$tree/usr/bin/busybox"
for applet in $("$tree/usr/bin/busybox" --list); do
  [[ -e $tree/usr/bin/$applet ]] || ln -s busybox "$tree/usr/bin/$applet"
done
for tool in mkfs.ext4 e2fsck resize2fs; do
  cp "$(command -v $tool || echo /sbin/$tool)" "$tree/usr/sbin/$tool"
  ldd "$tree/usr/sbin/$tool" | grep -o '/[^ )]*' | while read -r lib; do
    mkdir -p "$tree/usr/$(dirname "${lib#/}" | sed 's#^usr/##')"
    cp -L "$lib" "$tree/usr/$(sed 's#^/##; s#^usr/##' <<<"$lib")"
  done
done
for module in loop overlay erofs; do
  find "$kernel/lib/modules" -name "$module.ko*" -exec cp {} "$tree/modules/" \;
done
release=$(ls "$kernel/lib/modules")
mkdir -p "$tree/usr/lib/modules/$release"
for module in "${loadable[@]}"; do
  find "$kernel/lib/modules" -name "$module.ko*" -exec cp {} "$tree/usr/lib/modules/$release/" \;
done
cp -- "${files[@]}" "$tree/t/"
echo 'root:x:0:0:root:/root:/bin/sh' >"$tree/etc/passwd"
printf 'root:x:0:\n' >"$tree/etc/group"
printf '%q ' "$@" >"$tree/t/.command"

cat >"$tree/init" <<'INIT'
#!/usr/bin/busybox sh
# A root on tmpfs, because pivot_root refuses the initial one.
export PATH=/usr/sbin:/usr/bin
if [ ! -e /switched ]; then
  mount -t tmpfs -o mode=755,size=90% tmpfs /new
  for d in /bin /sbin /lib /lib64 /usr /etc /t /modules /var /root /init; do cp -a "$d" /new/; done
  mkdir /new/proc /new/sys /new/dev /new/tmp /new/run; : >/new/switched; chmod 1777 /new/tmp
  exec switch_root /new /init
fi
mount -t proc proc /proc; mount -t sysfs sysfs /sys; mount -t devtmpfs dev /dev
mkdir -p /dev/pts /dev/shm; mount -t devpts devpts /dev/pts; mount -t tmpfs tmpfs /dev/shm
mount -t cgroup2 cgroup2 /sys/fs/cgroup
for c in cpu memory pids; do echo "+$c" >/sys/fs/cgroup/cgroup.subtree_control; done
for m in /modules/*.ko*; do insmod "$m" 2>/dev/null; done
ip link set lo up
truncate -s 2G /disk; mkfs.ext4 -q /disk; mount -o loop /disk /var/lib
echo; echo "machine: start"
cd /t && sh ./.command </dev/null
echo "machine: exit $?"
poweroff -f
INIT
chmod 755 "$tree/init"
(cd "$tree" && find . -print0 | cpio --null --quiet -o -H newc) >"$tree.cpio"

# The command's output is all that reaches our stdout.
timeout --foreground "$limit" qemu-system-x86_64 -M pc,accel=tcg -cpu max -smp 2 -m 5G ${day:+-rtc base=$day} -nographic -no-reboot \
  -nodefaults -serial stdio "${arguments[@]}" -kernel "$kernel"/boot/vmlinuz-* -initrd "$tree.cpio" \
  -append "console=ttyS0 quiet panic=-1 rdinit=/init $parameters" </dev/null | tr -d '\r' | tee "$tree.log" |
  sed -un '/^machine: start$/,/^machine: exit /{/^machine: /!p}' || true
code=$(sed -n 's/^machine: exit \([0-9]*\)$/\1/p' "$tree.log")
exit "${code:-3}"
