#!/bin/sh
# After an installation (deb: configure [OLD], rpm: 1) or an upgrade (rpm: 2). Nothing is
# enabled: the services need secrets first. Those that run go on with the new programs.
set -e
[ -d /run/systemd/system ] || exit 0
systemctl daemon-reload || true
for unit in quavon-egress.service quavon-runner.service; do
	# Doesn't wait: a runner may take minutes to let its jobs end.
	systemctl --no-block try-restart "$unit" || true
done
