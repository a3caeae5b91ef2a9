package commands

import (
	"strings"
	"testing"
)

// TestRunnerID: a host's name can be an id, and anything else that is none is refused.
func TestRunnerID(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"r1":                         "r1",
		"ip-10-0-0-1.Region.example": "ip-10-0-0-1-region-example",
		"":                           "",
		"no id":                      "",
		"-x":                         "",
		".x":                         "",
		"a/b":                        "",
		strings.Repeat("x", 64):      strings.Repeat("x", 64),
		strings.Repeat("x", 65):      "",
		"node_1":                     "",
	} {
		id, err := newSettings(&setting{name: envRunnerID, def: given}).runnerID()
		if id != want || (err != nil) != (want == "") {
			t.Errorf("%q is %q, %v; want %q", given, id, err, want)
		}
	}
}
