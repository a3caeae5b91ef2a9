# File systems of the archive $1: made, written to, grown while mounted, checked.
set -eu
echo; date '+day %Y'
export QUAVON_STATE_DIR=/root/state
for kind in ext4 erofs; do ./quavon build rootfs "./$1" -o /var/lib/$kind --format $kind; done
./quavon build rootfs "./$1" -o /var/lib/grow --free 8M --journal=4M --resize
truncate -s 400M /var/lib/grow
for fs in ext4 grow; do
  device=$(losetup -f)
  losetup "$device" /var/lib/$fs
  mkdir -p /mnt/$fs
  mount -t ext4 "$device" /mnt/$fs
  echo more >>/mnt/$fs/h && rm /mnt/$fs/d/g && mkdir /mnt/$fs/new
  if [ $fs = grow ]; then
    resize2fs "$device" >/dev/null 2>&1
    head -c 60000000 /dev/zero >/mnt/grow/new/big
    echo "grown to $(stat -f -c '%b' /mnt/grow) blocks"
  fi
  umount /mnt/$fs
  losetup -d "$device"
  e2fsck -fn /var/lib/$fs >/tmp/said || { cat /tmp/said; exit 1; }
done
echo clean
