#!/bin/bash
# boot-check.sh: what boot.sh has done in its machine.
set -uo pipefail
check() {
	set -e
	systemd-run --quiet --unit=valkey valkey-server --port 6379 --bind 127.0.0.1 --save '' --dir /tmp
	mkdir -p /tmp/work && cd /tmp/work && echo hello >file
	echo redis://127.0.0.1:6379 | tee /etc/quavon/secrets/valkey_{sandbox,egress}_url >/dev/null
	head -c 32 /dev/urandom | base64 >/etc/quavon/secrets/sandbox_signing_key
	chmod 600 /etc/quavon/secrets/*
	echo QUAVON_SANDBOX_EGRESS_PROXY=127.0.0.1:3128 >>/etc/quavon/sandbox.env

	systemctl start quavon-egress quavon-runner
	QUAVON_CONFIG_FILE=/etc/quavon/egress.env quavon egress --check
	ps -o user=,args= -C quavon
	export VALKEY_URL_FILE=/etc/quavon/secrets/valkey_sandbox_url
	export QUAVON_SANDBOX_SIGNING_KEY_FILE=/etc/quavon/secrets/sandbox_signing_key
	export QUAVON_SANDBOX_RUNNER_ID=$(hostname)
	# The runner tests its sandboxes first; here that takes a while.
	until quavon runner --check 2>/tmp/why; do
		grep -q 'is failed' /tmp/why && cat /tmp/why && exit 1
		sleep 2
	done
	quavon submit -- sh -c 'cat file; dmesg | head -n 1'
	systemctl show -p ActiveState,SubState,StatusText,NRestarts quavon-runner quavon-egress
	quavon submit --detach -- sleep 300
	sleep 3
	systemd-cgls --no-pager | cat
	systemctl stop quavon-runner quavon-egress
	systemctl show -p Result,ExecMainStatus quavon-runner quavon-egress
	! ls /sys/fs/cgroup/quavon 2>&1
	! pgrep -a runsc
	set +e
}
echo
echo "machine: start"
(check)
code=$?
[ $code = 0 ] || journalctl --no-pager -o cat -u quavon-runner -u quavon-egress | cut -c1-1000 | tail -n 100
echo "machine: exit $code"
systemctl poweroff --force
