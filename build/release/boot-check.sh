#!/bin/bash
# boot-check.sh: what boot.sh has done in its machine.
set -uo pipefail
. /usr/bin/boot-packages
check() {
	set -e
	systemd-run --quiet --unit=valkey valkey-server --port 6379 --bind 127.0.0.1 --save '' --dir /tmp
	settings

	systemctl start quavon-egress quavon-runner
	QUAVON_CONFIG_FILE=/etc/quavon/egress.env quavon egress --check
	ps -o user=,args= -C quavon
	systemctl show -p Id,ActiveState,StatusText,NRestarts quavon-runner quavon-egress
	systemctl stop quavon-runner quavon-egress
	systemctl show -p Id,Result,ExecMainStatus quavon-runner quavon-egress

	# A job under all that the runner's unit gives up, with the limits of version 2. The
	# machine is emulated: a runner's test of its sandboxes would take longer than it may.
	mkdir -p /var/lib/work
	echo 'echo hello; dmesg | head -n 1; sleep 15' >/var/lib/work/job.sh
	sed -e 's|^ExecStart=.*|ExecStart=/usr/bin/quavon run --memory 300M --pids 50 --cpus 1 -- sh job.sh|' \
		-e 's|^Type=.*|Type=exec\nWorkingDirectory=/var/lib/work\nStandardOutput=truncate:/var/lib/out|' \
		-e '/^WatchdogSec/d; /^Restart/d; /^LoadCredential/d' \
		/usr/lib/systemd/system/quavon-runner.service >/run/systemd/system/job.service
	systemctl daemon-reload
	systemctl start job
	until [ "$(wc -l </var/lib/out)" = 2 ]; do systemctl is-active --quiet job; sleep 1; done
	cat /var/lib/out
	systemd-cgls --no-pager --unit job.service | cut -c1-110
	for f in memory.max pids.max cpu.max; do
		echo "$f $(cat /sys/fs/cgroup/system.slice/job.service/quavon/*/$f)"
	done
	while systemctl is-active --quiet job; do sleep 1; done
	systemctl show -p Id,Result,ExecMainStatus job

	# Killed as a whole, nothing of it is left.
	systemctl start job
	until pgrep runsc >/dev/null; do sleep 1; done
	systemctl kill --signal=KILL --kill-whom=main job
	while systemctl is-active --quiet job; do sleep 1; done
	sleep 1
	if pgrep -a runsc || ls -d /sys/fs/cgroup/quavon /sys/fs/cgroup/system.slice/job.service 2>/dev/null; then exit 1; fi

	packages deb
	rpm_ --install /packages/old.rpm
	packages rpm
	set +e
}
echo
echo "machine: start"
(check)
code=$?
[ $code = 0 ] || journalctl --no-pager -o cat -u job -u quavon-runner -u quavon-egress | cut -c1-600 | tail -n 60
echo "machine: exit $code"
systemctl poweroff --force
