#!/bin/bash
# deb.sh ROOT DEB NEXT LIST: install DEB in the clean Debian of the archive ROOT, run a job
# in gVisor there, check the units with Debian's own systemd, upgrade to NEXT, a later
# version with other settings, go back, remove it and look at what is left. What DEB has
# installed is written to LIST. As root.
set -euo pipefail
. "$(dirname "$0")/root.sh"
cp "$2" "$root/tmp/quavon.deb"
cp "$3" "$root/tmp/next.deb"
of() { dpkg-deb --field "$1" Version | tr '~' -; }

before
in_root dpkg --install /tmp/quavon.deb | say
installed >"$4"
in_root quavon version | say
version "$(of "$2")" >/dev/null
in_root sh -c 'mkdir /srv/work && cd /srv/work && echo hello >file && quavon run -- sh -c "cat file; dmesg | head -n 2; touch /etc/passwd && echo oh || true"' | say
in_root man -w quavon-runner | say
in_root bash -c '. /usr/share/bash-completion/bash_completion; _completion_loader quavon; complete -p quavon' | say
# An unknown key is no failure for systemd: what it says counts. Control: it says something.
verify() { in_root systemd-analyze verify "$@" 2>&1 || true; }
verify quavon-runner.service quavon-egress.service | { ! grep .; }
in_root sh -c 'sed s/TimeoutStopSec=/TimeoutStopsSec=/ /usr/lib/systemd/system/quavon-runner.service >/tmp/quavon-wrong.service'
verify /tmp/quavon-wrong.service | grep "Unknown key 'TimeoutStopsSec'" | say
for unit in runner egress; do
	in_root systemd-analyze security --offline=true "/usr/lib/systemd/system/quavon-$unit.service" | tail -n 1 | say
done
in_root rm -r /srv/work

# Both files of settings are others in NEXT. What the operator changed stays, and NEXT's is
# beside it; what he didn't change follows the package, there and back.
settings=$root/etc/quavon
mine
in_root dpkg --install --force-confdef --force-confold /tmp/next.deb 2>&1 | say
version "$(of "$3")"
still_mine
grep -q "^# of the next version" "$settings/sandbox.env.dpkg-dist"
grep -q "^# of the next version" "$settings/egress.env"
in_root dpkg --install --force-confdef --force-confold /tmp/quavon.deb 2>&1 | say
version "$(of "$2")"
still_mine
lacks "^# of the next version" "$settings/egress.env"
in_root dpkg --verify quavon | { ! grep -v ' c /etc/quavon/sandbox.env$'; }

in_root dpkg --remove quavon | say
echo "   left after a removal: $(left | cut -d/ -f1-4 | uniq | tr '\n' ' ')"
left | { ! grep -Ev '^/(var/lib/quavon|etc/quavon)(/|$)'; }
still_mine
in_root dpkg --purge quavon | say
left | { ! grep .; }
echo "   left after a purge: nothing"
