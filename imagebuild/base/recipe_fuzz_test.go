package base

import (
	"strings"
	"testing"
	"testing/fstest"
)

// FuzzRecipe reads recipes that anybody may have written: what is accepted can't
// smuggle options or lines into mmdebstrap's arguments and files.
func FuzzRecipe(f *testing.F) {
	f.Add("suite: trixie\ninclude: [ca-certificates]\ntime: 2026-01-01T00:00:00Z\n", "apt=3.0\nbash=5.2.37-2+b9\n")
	f.Add("suite: -\ninclude: ['--a', 'b c']\ntime: 1970-01-01T00:00:00Z\n", "a=1\nPin: x=2\n")
	f.Fuzz(func(t *testing.T, recipe, pins string) {
		r, err := read(fstest.MapFS{"recipe.yaml": {Data: []byte(recipe)}, "amd64.txt": {Data: []byte(pins)}})
		if err != nil {
			return
		}
		for _, s := range append(append([]string{r.Suite}, r.Include...), r.Pins["amd64"]...) {
			if s == "" || s[0] == '-' || strings.ContainsAny(s, " ,'\"\n\t?") {
				t.Errorf("accepted %q", s)
			}
		}
	})
}
