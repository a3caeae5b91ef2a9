#!/bin/sh
# Before a removal (deb: remove, rpm: 0), not before an upgrade (deb: upgrade, rpm: 1).
set -e
case "$1" in remove | 0) ;; *) exit 0 ;; esac
[ -d /run/systemd/system ] || exit 0
# Waits until jobs have ended or were handed back.
systemctl --no-reload disable --now quavon-runner.service quavon-egress.service || true
