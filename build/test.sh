#!/bin/bash
# test.sh GO FLAGS PACKAGE…: go test -json of this module's packages. Those that
# compare the host's full lists of processes, mounts and groups are tested one at a
# time with nothing beside them; the others side by side.
set -uo pipefail
go=$1 flags=$2
shift 2

alone=() beside=()
while read -r path lists; do
	if [ "$lists" = yes ]; then alone+=("$path"); else beside+=("$path"); fi
done < <(
	# With -test, a package's tests are listed as "path [path.test]" and "path_test [path.test]".
	$go list -test -f '{{.ImportPath}}{{range .Deps}} {{.}}{{end}}' "$@" | awk '
		{ path = $1; sub(/(_test|\.test)$/, "", path); if (!(path in lists)) order[n++] = path }
		{ lists[path] = lists[path] == "yes" || / [^ ]*\/runner\/sandbox\/hostlist( |$)/ ? "yes" : "no" }
		END { for (i = 0; i < n; i++) print order[i], lists[order[i]] }'
)
rc=0
# shellcheck disable=SC2086 # flags are several
for group in beside alone; do
	declare -n packages=$group
	[ ${#packages[@]} = 0 ] && continue
	side=$([ $group = alone ] && echo 1 || echo 2)
	$go test -json -p "$side" $flags "${packages[@]}" || rc=1
done
exit $rc
