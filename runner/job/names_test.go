package job

import (
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
)

// The names of secrets and of their headers are what these patterns say.
func TestNames(t *testing.T) {
	t.Parallel()
	variable := regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)
	field := regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")
	names := []string{"", "A", "_", "1", "A1", "1A", "A\n", "A b", "Ä", "\xff", strings.Repeat("a", 128), strings.Repeat("a", 129), "X-Y", "a:b"}
	for range 5000 {
		b := make([]byte, rand.IntN(4))
		for i := range b {
			b[i] = byte(rand.IntN(256))
		}
		names = append(names, string(b))
	}
	for _, name := range names {
		if got, want := isVariable(name), variable.MatchString(name); got != want {
			t.Errorf("variable %q: %v, want %v", name, got, want)
		}
		if got, want := isField(name), field.MatchString(name); got != want {
			t.Errorf("field %q: %v, want %v", name, got, want)
		}
	}
}
