package sbom

import (
	"cmp"
	"slices"
	"strings"
)

// Change is a package that differs between two lists.
type Change struct {
	Type, Name string
	// Old and New are versions, joined by commas when there are several; "" for none.
	Old, New string
}

// Diff compares two lists.
func Diff(before, after []Package) []Change {
	type key struct{ typ, name string }
	was, is := map[key][]string{}, map[key][]string{}
	for _, p := range before {
		was[key{p.Type, p.Name}] = append(was[key{p.Type, p.Name}], p.Version)
	}
	for _, p := range after {
		is[key{p.Type, p.Name}] = append(is[key{p.Type, p.Name}], p.Version)
	}
	var out []Change
	for k := range is {
		if was[k] == nil {
			was[k] = nil // so that one loop meets all keys
		}
	}
	for k := range was {
		c := Change{k.typ, k.name, versions(was[k]), versions(is[k])}
		if c.Old != c.New {
			out = append(out, c)
		}
	}
	slices.SortFunc(out, func(a, b Change) int { return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.Name, b.Name)) })
	return out
}

func versions(list []string) string {
	slices.Sort(list)
	return strings.Join(slices.Compact(list), ", ")
}
