package compat

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		kind ecosystem
		text string
		want results
	}{
		"go": {
			golang, `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"{\"Action\":\"fail\"}\n"}
{"Action":"pass","Package":"p","Test":"TestA"}
not JSON
{"Action":"fail","Package":"p"}
`, results{"p TestA": {"pass"}},
		},
		"lines": {
			npm, "noise without end\ncompat {\"test\":\"a\",\"result\":\"skip\"}\ncompat {\"test\":\"a\",\"result\":\"pass\"}\ncompat broken\n",
			results{"a": {"pass", "skip"}},
		},
	} {
		got, err := parse(c.kind, strings.NewReader(c.text))
		if err != nil || !cmp.Equal(got, c.want) {
			t.Errorf("%s: %v, %s", name, err, cmp.Diff(c.want, got))
		}
	}
	if _, err := parse(python, strings.NewReader("collected 0 items\n")); err == nil {
		t.Error("a run without tests was taken for one with")
	}
}

func TestDifferences(t *testing.T) {
	t.Parallel()
	outside := results{"same": {"pass"}, "flips": {"pass"}, "gone": {"pass"}, "twice": {"pass", "pass"}}
	inside := results{"same": {"pass"}, "flips": {"fail"}, "new": {"skip"}, "twice": {"pass"}}
	want := map[string]string{
		"flips": "outside pass, inside fail",
		"gone":  "outside pass, inside not run",
		"new":   "outside not run, inside skip",
		"twice": "outside pass+pass, inside pass",
	}
	if diff := cmp.Diff(want, differences(outside, inside)); diff != "" {
		t.Error(diff)
	}
}
