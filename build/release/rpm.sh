#!/bin/bash
# rpm.sh ROOT RPM NEXT LIST: check RPM's digests and install it with Debian's own rpm in the
# clean Debian of the archive ROOT, compare what came with LIST, which is of the deb,
# upgrade to NEXT, a later version with other settings, go back, erase it and look at what
# is left. As root.
set -euo pipefail
. "$(dirname "$0")/root.sh"
cp "$2" "$root/tmp/quavon.rpm"
cp "$3" "$root/tmp/next.rpm"
# Debian's asks whether one means it. Nothing has to be forced otherwise: no --nodeps.
rpm() { in_root rpm --dbpath /var/lib/rpm --force-debian "$@" 2>&1; }
of() { rpm --query --queryformat '%{VERSION}\n' --package "/tmp/$1" | tr '~' -; }

# The packages aren't signed themselves: the signature over the checksums covers them.
in_root rpmkeys --checksig --verbose /tmp/quavon.rpm | say
sed 's/Quavon/quavoN/' "$2" >"$root/tmp/changed.rpm"
{ in_root rpmkeys --checksig /tmp/changed.rpm || true; } | grep 'DIGESTS NOT OK' | say
rpm --query --package --requires /tmp/quavon.rpm | say
rpm --query --package --queryformat '[%{FILEFLAGS:fflags} %{FILENAMES}\n]' /tmp/quavon.rpm | grep '^[^ ]' | tee "$root/tmp/flags" | say
diff "$root/tmp/flags" - <<'FLAGS'
cn /etc/quavon/egress.env
cn /etc/quavon/sandbox.env
FLAGS

# Where rpm is at home these are another package's (Fedora: filesystem).
mkdir -p "$root"/usr/share/{zsh/site-functions,fish/vendor_completions.d}
before
rpm --install /tmp/quavon.rpm | say
installed >"$root/tmp/installed"
# The same as from the deb, but for zsh's directory of completions, and shared directories.
diff <(sed '/^d.*usr.share/d; s/vendor-completions/site-functions/' "$4") <(sed '/^d.*usr.share/d' "$root/tmp/installed")
echo "   $(wc -l <"$root/tmp/installed") lines on files, modes, owners and digests are the deb's"
rpm --verify quavon
in_root quavon version | say
version "$(of quavon.rpm)" >/dev/null
in_root man -w quavon-runner | say
in_root bash -c '. /usr/share/bash-completion/bash_completion; _completion_loader quavon; complete -p quavon' | say
in_root systemd-analyze verify quavon-runner.service quavon-egress.service 2>&1 | { ! grep .; }
rpm --erase quavon
left | { ! grep .; }
echo "   left after an erasure: nothing"

# As with the deb: settings of the operator stay, the others follow the package.
settings=$root/etc/quavon
rpm --install /tmp/quavon.rpm
mine
rpm --upgrade /tmp/next.rpm | say
version "$(of next.rpm)"
still_mine
grep -q "^# of the next version" "$settings/sandbox.env.rpmnew"
grep -q "^# of the next version" "$settings/egress.env"
rpm --upgrade --oldpackage /tmp/quavon.rpm | say
version "$(of quavon.rpm)"
still_mine
lacks "^# of the next version" "$settings/egress.env"
{ rpm --verify quavon || true; } | { ! grep -v ' c /etc/quavon/sandbox.env$'; }
rpm --erase quavon | say
left | tee "$root/tmp/left" | sed 's/^/   left after an erasure: /'
diff <(grep -v rpmnew "$root/tmp/left") - <<'LEFT'
/etc/quavon
/etc/quavon/sandbox.env.rpmsave
/etc/quavon/secrets
/etc/quavon/secrets/valkey_sandbox_url
LEFT
