#!/usr/bin/env bash
# A real Valkey for tests and benchmarks, beside whatever the host runs.
#
#   server.sh fetch            unpack Valkey 8 into the cache, print its directory
#   server.sh start DIR [ARG…] start valkey-server on DIR/valkey.sock with its data in
#                              DIR and ARGs as further settings; print the socket
#   server.sh stop DIR         stop it; DIR stays
#
# Debian 12 has Valkey only in its backports. The package is unpacked, not
# installed: an installed one starts a service of its own.
set -euo pipefail

cache=${QUAVON_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/quavon}/valkey
suite=bookworm-backports

# apt_backports ARGS… runs apt-get with package lists of its own, so that the host's
# sources stay as they are. The mirror is the one the host is configured with.
apt_backports() {
  local state=$cache/apt
  mkdir -p "$state/lists/partial" "$state/cache/archives/partial"
  local uri
  uri=$({ cat /etc/apt/sources.list /etc/apt/sources.list.d/*.{sources,list} 2>/dev/null || true; } |
    sed -n 's/^URIs: *//p; s/^deb \(\[[^]]*\] \)\?\([^ ]*\) .*/\2/p' | grep -m1 '/debian/\?$')
  {
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $uri $suite main"
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $uri bookworm main"
  } >"$state/sources.list"
  apt-get -q -o APT::Sandbox::User=root -o Dir::State::lists="$state/lists" -o Dir::Cache="$state/cache" \
    -o Dir::Etc::sourcelist="$state/sources.list" -o Dir::Etc::sourceparts=- \
    -o APT::Get::List-Cleanup=0 "$@"
}

fetch() {
  local root=$cache/root
  if [[ -x $root/usr/bin/valkey-server ]]; then echo "$root"; return; fi
  mkdir -p "$cache"
  exec 9>"$cache/lock"
  flock 9 # tests of several packages may come at once
  if [[ -x $root/usr/bin/valkey-server ]]; then echo "$root"; return; fi
  local work; work=$(mktemp -d "$cache/new.XXXXXX")
  trap 'rm -rf "$work"' RETURN
  mkdir -p "$work/debs" "$work/root"
  apt_backports update >&2
  local packages=(valkey-server/$suite valkey-tools/$suite)
  # The few libraries it links, for a host that lacks them.
  packages+=(libjemalloc2 liblua5.1-0 liblzf1 libatomic1 libssl3 libsystemd0)
  (cd "$work/debs" && apt_backports download "${packages[@]}" >&2)
  for deb in "$work"/debs/*.deb; do dpkg -x "$deb" "$work/root"; done
  rm -rf "$root"
  mv "$work/root" "$root"
  echo "$root"
}

# run PROGRAM ARGS… runs one of Valkey's programs with the unpacked libraries last.
run() {
  local root; root=$(fetch)
  LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$root/usr/lib/$(uname -m)-linux-gnu \
    exec "$root/usr/bin/$@"
}

start() {
  local dir=$1; shift
  mkdir -p "$dir"
  fetch >/dev/null
  (run valkey-server --port 0 --unixsocket "$dir/valkey.sock" --dir "$dir" --pidfile "$dir/valkey.pid" \
    --save '' --appendonly yes --appendfsync everysec "$@") >>"$dir/valkey.log" 2>&1 </dev/null &
  echo $! >"$dir/valkey.pid"
  for _ in $(seq 1200); do # a busy machine takes its time
    if [[ -S $dir/valkey.sock ]]; then echo "$dir/valkey.sock"; return; fi
    sleep 0.1
  done
  echo "valkey-server did not start within 2 minutes; its log ends:" >&2
  tail -n 20 "$dir/valkey.log" >&2
  return 1
}

stop() {
  [[ -f $1/valkey.pid ]] || return 0
  local pid; pid=$(<"$1/valkey.pid")
  kill "$pid" 2>/dev/null || return 0
  for _ in $(seq 600); do kill -0 "$pid" 2>/dev/null || break; sleep 0.1; done
}

case ${1:-} in
  fetch) fetch ;;
  start) shift; start "$@" ;;
  stop) stop "$2" ;;
  *) sed -n '2,10p' "$0" | sed 's/^# \{0,1\}//' >&2; exit 2 ;;
esac
