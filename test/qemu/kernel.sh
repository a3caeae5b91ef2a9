# Sourced by what boots a machine.
cache=${QUAVON_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/quavon}/qemu

# fetch_kernel unpacks Debian's cloud kernel of the host's suite, or the one of the package
# $QUAVON_VM_KERNEL, and prints its root.
fetch_kernel() {
  mkdir -p "$cache"
  local package
  package=$(apt-cache depends "${QUAVON_VM_KERNEL:-linux-image-cloud-amd64}" | sed -n 's/.*Depends: \(linux-image-[0-9].*\)/\1/p' | head -n 1)
  if [[ ! -d $cache/$package ]]; then
    local work; work=$(mktemp -d "$cache/new.XXXXXX")
    (cd "$work" && apt-get -q download -o APT::Sandbox::User=root "$package" >&2 && dpkg -x ./*.deb root)
    mv -T "$work/root" "$cache/$package" || [[ -d $cache/$package ]] # another was faster
    rm -rf "$work"
  fi
  echo "$cache/$package"
}
