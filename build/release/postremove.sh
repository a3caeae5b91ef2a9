#!/bin/sh
# After a removal (deb: remove or purge, rpm: 0). A purge takes state, settings and
# secrets; a removal keeps them. rpm has no purge.
set -e
if [ "$1" = purge ]; then
	rm -rf --one-file-system /var/lib/quavon /etc/quavon
	rm -f /run/quavon-runner.lock
fi
[ -d /run/systemd/system ] || exit 0
systemctl daemon-reload || true
