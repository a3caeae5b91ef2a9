# boot-packages.sh: sourced by boot-check.sh: what packages do to services that run.
# Debian's rpm asks whether one means it.
rpm_() { rpm --dbpath /var/lib/rpm --force-debian "$@"; }
deb_change() { dpkg --install --force-confdef --force-confold "/packages/$1.deb"; }
rpm_change() { rpm_ --upgrade --oldpackage "/packages/$1.rpm"; }
deb_remove() { dpkg --remove quavon; }
rpm_remove() { rpm_ --erase quavon; }

# settings are those without which services don't start.
settings() {
	echo redis://127.0.0.1:6379 | tee /etc/quavon/secrets/valkey_{sandbox,egress}_url >/dev/null
	head -c 32 /dev/urandom | base64 >/etc/quavon/secrets/sandbox_signing_key
	chmod 600 /etc/quavon/secrets/*
	sed -i 's/^#\(QUAVON_SANDBOX_EGRESS_PROXY=127.0.0.1:3128\)$/\1/' /etc/quavon/sandbox.env
}

start_of() { systemctl show -p InvocationID --value "quavon-$1"; }
# restarted SERVICE START: it has ended well since that start and runs again, as the program that is installed now.
restarted() {
	until [ "$(start_of "$1")" != "$2" ] && systemctl is-active --quiet "quavon-$1"; do sleep 1; done
	[ "/proc/$(systemctl show -p MainPID --value "quavon-$1")/exe" -ef /usr/bin/quavon ]
	journalctl --no-pager -o cat INVOCATION_ID="$2" | { ! grep -i fail; }
	echo "$1: restarted as $(quavon version | head -n 1)"
}
stopped() { [ "$(systemctl is-active "quavon-$1")" = inactive ] && echo "$1: $2"; }

# packages KIND: the services before, through and after an upgrade, a downgrade, a removal.
packages() {
	local egress runner
	settings
	systemctl enable --quiet --now quavon-egress quavon-runner
	egress=$(start_of egress) runner=$(start_of runner)
	"$1_change" next >/dev/null 2>&1
	echo "$1: upgraded"
	restarted egress "$egress"
	restarted runner "$runner"

	systemctl stop quavon-egress
	runner=$(start_of runner)
	"$1_change" old >/dev/null 2>&1
	echo "$1: downgraded"
	restarted runner "$runner"
	stopped egress "stays stopped"

	"$1_remove" >/dev/null 2>&1
	echo "$1: removed"
	stopped runner "stopped"
	if pgrep -a -x quavon || ls /etc/systemd/system/*.wants/quavon-* 2>/dev/null; then exit 1; fi
	# rpm has no purge.
	if [ "$1" = deb ]; then dpkg --purge quavon >/dev/null; else rm -r /etc/quavon /var/lib/quavon /run/quavon-runner.lock; fi
	if ls -d /run/quavon* 2>/dev/null || find / -xdev \( -path /packages -o -path /var/lib/dpkg -o -path /var/lib/rpm -o -path /var/log \) -prune \
		-o -name '*quavon*' -print | grep .; then exit 1; fi
	echo "$1: nothing left"
}
