package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/quavon/quavon/doctor"
	"github.com/quavon/quavon/runner/fault"
)

// legacyRules looks where the old interface lists its tables; rules of the new one
// aren't seen there, nor the other way round. A table stays when it is empty.
func (c Config) legacyRules(ctx context.Context) doctor.Finding {
	var tables, rules, fixes []string
	for _, family := range []string{"ip", "ip6"} {
		file := "/proc/net/" + family + "_tables_names"
		data, err := c.Host.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return doctor.Unknown(err)
		}
		names := strings.Fields(string(data))
		if len(names) == 0 {
			continue
		}
		tables = append(tables, file+": "+strings.Join(names, ", "))
		save := family + "tables-legacy-save"
		out, err := c.Host.Run(ctx, save)
		if err != nil {
			rules = append(rules, tables[len(tables)-1]+" (what is in them isn't known: "+err.Error()+")")
			continue
		}
		found, empty := legacyEntries(family, out)
		if rules = append(rules, found...); len(found) > 0 {
			fixes = append(fixes, save+" | "+family+"tables-nft-restore --noflush", strings.Join(empty, " && "))
		}
	}
	switch {
	case len(fixes) > 0:
		return doctor.Failed("iptables-legacy has rules, which nft does not show",
			"run `"+strings.Join(fixes, " && ")+"`, and take them out of what makes them at a boot", rules...)
	case len(rules) > 0:
		return doctor.Failed("iptables-legacy has tables, which nft does not show", "", rules...)
	case len(tables) > 0:
		return doctor.Passed("iptables-legacy has no rules in its tables")
	}
	return doctor.Passed("iptables-legacy has no tables")
}

// legacyEntries are what a table has besides chains that let everything through, and the
// commands that leave it without.
func legacyEntries(family, saved string) (found, empty []string) {
	program := family + "tables-legacy"
	table, n := "", 0
	var undo []string
	for line := range strings.Lines(saved) {
		line = strings.TrimSpace(line)
		f := strings.Fields(line)
		switch {
		case strings.HasPrefix(line, "*"):
			table, n = line[1:], 0
			undo = []string{fault.Words(program, "-t", table, "-F"), fault.Words(program, "-t", table, "-X")}
		case strings.HasPrefix(line, ":") && len(f) > 1 && f[1] != "ACCEPT":
			n++
			if f[1] != "-" { // else a chain of the user's own
				undo = append(undo, fault.Words(program, "-t", table, "-P", f[0][1:], "ACCEPT"))
			}
		case strings.HasPrefix(line, "-A"):
			n++
		case line == "COMMIT" && n > 0:
			found = append(found, fmt.Sprintf("%s: table %s has %d chains or rules", program, table, n))
			empty = append(empty, undo...)
		}
	}
	return found, empty
}
