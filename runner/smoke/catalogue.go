package smoke

import "slices"

// Catalogue lists the probes, in the order of docs/probes.md.
func Catalogue() []Entry {
	return slices.Concat(
		identityEntries(), privilegeEntries(), filesystemEntries(), deviceEntries(), networkEntries(),
		crossingEntries(), limitsEntries(), controlEntries(), timingEntries(),
	)
}
