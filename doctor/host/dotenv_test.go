package host

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/dotenv"
	"golang.org/x/tools/txtar"
)

// FuzzStatements compares what is read assignment by assignment with what compose
// reads of the whole.
func FuzzStatements(f *testing.F) {
	for _, s := range []string{
		"A=1\nB=2\n", "A='x\ny'\nB=\"z\"\n", "A=\"x\"y\nB=2\n", "export A=b\n  C: d\n# c\n\nS\n", "A=it's\nB='it\\'s'\n", "A=b\rB=c\r\n", "redis://x\n", "A=${", "A B=c\n",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 4096 || strings.ContainsAny(text, "$\x00") {
			return // what variables lead to is the parser's own, and depends on the order
		}
		h := load(t, new(txtar.Archive))
		all, err := h.config().statements(text)
		want, theirs := dotenv.UnmarshalWithLookup(text, nil)
		if err != nil || theirs != nil {
			// One assignment may be refused where the whole would be read, as one with
			// hundreds of lines; the other way round the file would be called readable.
			if err == nil {
				t.Fatalf("compose refuses %q: %v", text, theirs)
			}
			return
		}
		got := map[string]string{}
		for _, s := range all {
			got[s.key] = s.value
			s.surprises(new(oddities))
		}
		if !maps.Equal(got, want) && !slices.Contains(slices.Collect(maps.Keys(want)), "") {
			t.Fatalf("%q: %q, compose reads %q", text, got, want)
		}
	})
}
