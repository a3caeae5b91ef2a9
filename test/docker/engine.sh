#!/usr/bin/env bash
# A real Docker Engine for tests and benchmarks, started by hand: this needs no
# systemd and touches neither /etc/docker nor a Docker the host already runs.
#
#   engine.sh fetch            unpack the engine into the cache, print its directory
#   engine.sh start DIR RUNSC [host-net]
#                              start dockerd with its state in DIR and the runtime
#                              "runsc", none for RUNSC "-"; print the socket's URL. With host-net it
#                              lives in the host's network, without bridge or
#                              firewall rules: only --network=host and none work
#   engine.sh again DIR [FLAG…]
#                              start the dockerd of DIR once more, when it has ended, with
#                              its daemon.json as it is by then
#   engine.sh stop DIR         stop it and remove DIR
#
# Debian 12 ships 20.10, too old for us; Debian 13's engine runs on Debian 12's libc,
# but its runc does not, so runc comes from the host's own suite.
set -euo pipefail

cache=${QUAVON_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/quavon}/docker
packages="docker.io docker-cli containerd docker-compose docker-buildx"

# apt_in SUITE ARGS… runs apt-get with package lists of its own, so that the host's
# sources stay as they are. The mirror is the one the host is configured with.
apt_in() {
  local suite=$1; shift
  local state=$cache/apt-$suite
  mkdir -p "$state/lists/partial" "$state/cache/archives/partial"
  local uri
  uri=$({ cat /etc/apt/sources.list /etc/apt/sources.list.d/*.{sources,list} 2>/dev/null || true; } |
    sed -n 's/^URIs: *//p; s/^deb \(\[[^]]*\] \)\?\([^ ]*\) .*/\2/p' | grep -m1 '/debian/\?$')
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $uri $suite main" >"$state/sources.list"
  apt-get -q -o APT::Sandbox::User=root -o Dir::State::lists="$state/lists" -o Dir::Cache="$state/cache" \
    -o Dir::Etc::sourcelist="$state/sources.list" -o Dir::Etc::sourceparts=- \
    -o APT::Get::List-Cleanup=0 "$@"
}

fetch() {
  local root=$cache/root
  if [[ -x $root/usr/sbin/dockerd && -x $root/usr/bin/runc ]]; then echo "$root"; return; fi
  mkdir -p "$cache"
  exec 9>"$cache/lock"
  flock 9 # tests of several packages may come at once
  if [[ -x $root/usr/sbin/dockerd && -x $root/usr/bin/runc ]]; then echo "$root"; return; fi
  local work; work=$(mktemp -d "$cache.XXXXXX")
  trap 'rm -rf "$work"' RETURN
  mkdir -p "$cache" "$work/debs" "$work/root"
  local suite; suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
  apt_in trixie update >&2
  apt_in "$suite" update >&2

  (cd "$work/debs" && apt_in trixie download $packages >&2 && apt_in "$suite" download runc >&2)
  for deb in "$work"/debs/*.deb; do dpkg -x "$deb" "$work/root"; done
  rm -rf "$root"
  mv "$work/root" "$root"
  echo "$root"
}

start() {
  local dir=$1 runsc=$2 net=${3:-own}
  local network='"bip": "10.231.255.1/24", "ip6tables": false'
  if [[ $net = host-net ]]; then
    network='"bridge": "none", "iptables": false, "ip6tables": false, "ip-forward": false, "ip-masq": false'
  fi
  local runtimes=',
  "runtimes": {"runsc": {"path": "'$runsc'", "runtimeArgs": ["--platform=systrap"]}}'
  if [[ $runsc = - ]]; then runtimes=; fi
  mkdir -p "$dir"
  cat >"$dir/daemon.json" <<JSON
{
  "data-root": "$dir/data", "exec-root": "$dir/exec", "pidfile": "$dir/dockerd.pid",
  "hosts": ["unix://$dir/docker.sock"], $network,
  "features": {"containerd-snapshotter": false}$runtimes
}
JSON
  run "$dir" "$net"
}

run() {
  local dir=$1 net=$2 root enter=; root=$(fetch)
  shift 2
  # Namespaces of its own keep its bridge, firewall rules and mounts off the host.
  if [[ $net = own ]]; then enter="unshare --net --mount --"; fi
  PATH=$root/usr/sbin:$root/usr/bin:$PATH setsid $enter \
    sh -c 'ip link set lo up; exec dockerd --config-file "$0" "$@"' "$dir/daemon.json" "$@" \
    >>"$dir/dockerd.log" 2>&1 </dev/null &
  local pid=$!
  for _ in $(seq 900); do # a busy machine takes its time
    kill -0 $pid 2>/dev/null || break
    if curl -fs --unix-socket "$dir/docker.sock" http://docker/_ping >/dev/null 2>&1; then
      echo "unix://$dir/docker.sock"; return
    fi
    sleep 0.2
  done
  echo "dockerd ended, or did not answer within 3 minutes; its log ends:" >&2
  tail -n 20 "$dir/dockerd.log" >&2
  return 1
}

# gone PID waits until a process has ended, a minute at most: dockerd gives containers a
# quarter of that. One that nobody has waited for has no program any more.
gone() {
  for _ in $(seq 600); do [[ -e /proc/$1/exe ]] || break; sleep 0.1; done
}

# bury DIR ends the containerd of a dockerd that was killed, for which the next one
# would wait.
bury() {
  local pid
  rm -f "$1/dockerd.pid"
  pid=$(cat "$1/exec/containerd/containerd.pid" 2>/dev/null) || return 0
  [[ $(cat "/proc/$pid/comm" 2>/dev/null) = containerd ]] && kill "$pid" || return 0
  gone "$pid"
}

stop() {
  local dir=$1
  if [[ -f $dir/dockerd.pid ]]; then
    local pid; pid=$(<"$dir/dockerd.pid")
    kill "$pid" 2>/dev/null || true
    gone "$pid"
  fi
  bury "$dir"
  awk -v d="$dir/" 'index($5, d) == 1 {print $5}' /proc/self/mountinfo | sort -r | xargs -r umount -l
  rm -rf "$dir"
}

case ${1:-} in
  fetch) fetch ;;
  start) start "$2" "$3" "${4:-own}" ;;
  again) bury "$2"; run "$2" own "${@:3}" ;;
  stop) stop "$2" ;;
  *) sed -n '2,17p' "$0" | sed 's/^# \{0,1\}//' >&2; exit 2 ;;
esac
