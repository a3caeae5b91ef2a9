# Runs in the emulated machine: one line "case NAME EXIT RESULT" per job.
export PATH=/t:/usr/bin:/usr/sbin
mkdir -p /var/lib/ws && cd /var/lib/ws && echo before >file
run() {
  name=$1; shift
  quavon run --json "$@" >/tmp/result 2>/dev/null
  echo "case $name $? $(tr -d '\n' </tmp/result)"
}
run plain --memory 300M --pids 50 --cpus 1 -- sh -c 'echo after >file; cat file'
run memory --memory 200M -- dd if=/dev/zero of=/dev/null bs=400M count=1
run pids --pids 30 -- sh -c 'i=0; while [ $i -lt 200 ]; do sleep 100 & i=$((i+1)); done; wait'
run disk --disk 16M -- dd if=/dev/zero of=/tmp/big bs=1M count=32
run wall --timeout 3s -- sleep 100
echo "left $(find /sys/fs/cgroup -mindepth 1 -type d | wc -l) $(ls /var/lib/quavon/sandboxes | wc -l) $(losetup -a | grep -vc /disk)"
