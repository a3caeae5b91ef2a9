#!/bin/bash
# fuzz.sh TIME REGEXP: run every fuzz target whose name matches for TIME each.
# Inputs that fail are written to the package's testdata/fuzz: commit them.
set -euo pipefail
: "${GO:=go}"
time=$1 match=$2
cd "$(dirname "$0")/.."

failed=0 ran=0
while IFS=: read -r file target; do
	[[ $target =~ $match ]] || continue
	ran=$((ran + 1))
	echo "== $target, $time (${file%/*})"
	"$GO" test -run '^$' -fuzz "^$target\$" -fuzztime "$time" -fuzzminimizetime 1000x "./${file%/*}" || failed=$((failed + 1))
done < <(git ls-files --cached --others --exclude-standard '*_test.go' |
	xargs grep -EHo '^func Fuzz[A-Za-z0-9_]+' | sed 's/func //' | sort)

echo "$ran targets, $failed failed"
[ "$ran" -gt 0 ] && [ "$failed" = 0 ]
