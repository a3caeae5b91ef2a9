#!/bin/bash
# prepare.sh VERSION TIME: write what packages have besides the programs into
# bin/release: completions and manual pages, as quavon itself writes them.
set -euo pipefail
version=$1 time=$2
cd "$(dirname "$0")/../.."
out=bin/release
rm -rf "$out"
mkdir -p "$out/completions" "$out/man"

GOOS='' GOARCH='' go build -trimpath -buildvcs=false \
	-ldflags "-s -w -X github.com/quavon/quavon/commands.Version=$version" -o "$out/quavon" ./cmd/quavon
for shell in bash zsh fish; do
	"$out/quavon" completion "$shell" >"$out/completions/quavon.$shell"
done
"$out/quavon" man "$out/man"
gzip -9n "$out"/man/*.1
rm "$out/quavon"
find "$out" -exec touch -h -d "@$time" {} +
