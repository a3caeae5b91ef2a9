package engine

import (
	"cmp"
	"slices"
	"strings"
)

// minSecret is the shortest text that is worth hiding: shorter ones would hide
// ordinary words.
const minSecret = 6

// redactor hides secrets in what a build writes.
type redactor struct{ r *strings.Replacer }

// newRedactor hides the lines of secrets, and of lines like "key = value" the
// values, since that is what a careless program prints.
func newRedactor(secrets map[string][]byte) *redactor {
	var hidden []string
	for _, content := range secrets {
		for line := range strings.Lines(string(content)) {
			line = strings.TrimSpace(line)
			_, value, _ := strings.Cut(line, "=")
			for _, s := range []string{line, strings.Trim(strings.TrimSpace(value), `"'`)} {
				if len(s) >= minSecret {
					hidden = append(hidden, s)
				}
			}
		}
	}
	slices.SortFunc(hidden, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	var pairs []string
	for _, s := range hidden {
		pairs = append(pairs, s, "[secret]")
	}
	return &redactor{strings.NewReplacer(pairs...)}
}

func (r *redactor) text(s string) string { return r.r.Replace(s) }
