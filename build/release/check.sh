#!/bin/bash
# check.sh: make a snapshot of a release twice, from two clones of HEAD in directories of
# different length, and see that it is the same, signed, installable and startable.
# As root. COLD=1 gives the second build caches of its own: nothing then comes from the
# first. KEEP=DIR keeps the first build's files there.
set -euo pipefail
: "${TOOLS:?directory of the pinned tools}"
cd "$(dirname "$0")/../.."
repo=$PWD
export PATH=$TOOLS/goreleaser-$GORELEASER_VERSION:$TOOLS/cyclonedx-gomod-$CYCLONEDX_VERSION:$TOOLS/cosign-$COSIGN_VERSION:$PATH
export QUAVON_CACHE=$CACHE

work=$(mktemp -d /var/tmp/quavon-release-XXXXXX)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
step() { printf '== %s (%d s)\n' "$*" $SECONDS; }

for tool in mmdebstrap qemu-aarch64-static qemu-system-x86_64; do
	command -v $tool >/dev/null || { echo "$tool is missing: apt-get install mmdebstrap qemu-user-static qemu-system-x86" >&2; exit 1; }
done

step "goreleaser check"
goreleaser check -q -f goreleaser.yaml

# A key of this run only: a release's comes from who makes it.
export COSIGN_PASSWORD=check
(cd "$work" && cosign generate-key-pair >/dev/null 2>&1)
COSIGN_PRIVATE_KEY=$(<"$work/cosign.key")
export COSIGN_PRIVATE_KEY

commit=$(git rev-parse HEAD) # others may go on committing
clone() { git clone -q --local --no-hardlinks "$repo" "$1" && git -C "$1" checkout -q --detach "$commit"; }
# snapshot DIR: build the clone there. One at a time: programs come into an archive in
# the order in which they were done.
snapshot() {
	(cd "$1" && goreleaser release -f goreleaser.yaml --snapshot --clean --parallelism 1 "${@:2}") >"$work/log" 2>&1 ||
		{ cat "$work/log" >&2; return 1; }
}
step "build"
clone "$work/a"
snapshot "$work/a"
step "build again${COLD:+, with empty caches}"
(
	[ -z "${COLD:-}" ] || export GOCACHE=$work/cache/go QUAVON_CACHE=$work/cache/quavon
	clone "$work/another-directory"
	snapshot "$work/another-directory"
)
rm -rf "$work/cache"

# What isn't a release's file: logs of the build, and programs that are in archives.
files() { (cd "$1/dist" && find . -type f ! -name '*.sigstore.json' ! -name artifacts.json ! -name metadata.json ! -name config.yaml -print0 |
	sort -z | xargs -0 sha256sum); }
files "$work/a" >"$work/a.sums"
files "$work/another-directory" >"$work/b.sums"
rm -rf "$work/another-directory"
diff "$work/a.sums" "$work/b.sums"
step "$(wc -l <"$work/a.sums") files are the same twice"
cd "$work/a/dist"
du -h -- *.tar.gz *.deb *.rpm *.cdx.json | sed 's/^/   /'
[ -z "${KEEP:-}" ] || cp -a . "$KEEP"

step "signature, and that it fails for other checksums"
sums=$(ls ./*_sha256sums)
# An empty trusted root, and no network: else cosign asks for Sigstore's own, which a key needs not.
echo '{"mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1"}' >"$work/root.json"
verify() {
	unshare --net cosign verify-blob --key "$work/cosign.pub" --bundle "$sums.sigstore.json" --new-bundle-format \
		--trusted-root "$work/root.json" --insecure-ignore-tlog "$1" 2>&1 || true
}
verify "$sums" | grep 'Verified OK' | sed 's/^/   /'
sed 's/0/1/' "$sums" >"$work/changed"
verify "$work/changed" | grep 'invalid signature' | sed 's/^/   /'
sha256sum --quiet --check "$sums"

step "archives: the programs for each architecture, by one owner and with one time"
for a in *.tar.gz; do
	tar -tvzf "$a" | awk -v a="$a" '$2 != "root/root" { print a ": " $0; bad = 1 } { times[$4 $5] = 1; n++ } END { exit bad || length(times) != 1 || n < 20 }'
	for p in quavon quavon-guest runsc; do tar -tzf "$a" | grep -x "[^/]*/$p" >/dev/null; done # -q would end tar by SIGPIPE
done

step "the programs for arm64 start, emulated"
mkdir "$work/arm64"
tar -xzf ./*_arm64.tar.gz -C "$work/arm64" --strip-components=1
qemu-aarch64-static "$work/arm64/quavon" version | sed -n '1s/^/   /p'
qemu-aarch64-static "$work/arm64/runsc" --version | sed -n '1s/^/   /p'

step "packages of a later version with other settings"
next=$work/next/dist
clone "$work/next"
git -C "$work/next" tag v90.0.0
sed -i 's/goarch: .*/goarch: [amd64]/' "$work/next/goreleaser.yaml"
for f in "$work"/next/templates/systemd/*.env; do echo "# of the next version" >>"$f"; done
snapshot "$work/next" --skip=archive,sbom,sign
(cd "$next" && ls ./*.deb ./*.rpm) | sed 's/^/   /'

step "a clean Debian"
mmdebstrap --quiet --variant=minbase --include=systemd,bash-completion,man-db,rpm "$(. /etc/os-release && echo "$VERSION_CODENAME")" "$work/root.tar"
step "the deb there: installed, upgraded, downgraded, removed, purged"
"$repo/build/release/deb.sh" "$work/root.tar" *_amd64.deb "$next"/*.deb "$work/deb.list"
step "the rpm there: installed, erased, and the same with an upgrade"
"$repo/build/release/rpm.sh" "$work/root.tar" *.x86_64.rpm "$next"/*.rpm "$work/deb.list"
step "the units, in an emulated machine with systemd"
"$repo/build/release/boot.sh" "$PWD" "$next" | sed 's/^/   /'
step "done"
