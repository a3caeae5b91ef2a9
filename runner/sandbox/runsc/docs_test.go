package runsc

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quavon/quavon/runner/sandbox"
	"github.com/quavon/quavon/runner/sandbox/cgroup"
)

// The published matrix is what the code does.
func TestDocumentedMatrix(t *testing.T) {
	data, err := os.ReadFile("../../../docs/backends.md")
	if err != nil {
		t.Fatal(err)
	}
	columns := map[string]sandbox.Policies{"runsc, root": {}, "runsc, rootless": {}}
	var header []string
	for line := range strings.Lines(string(data)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if cells[0] == "policy" {
			header = cells
		}
		if header == nil || !strings.HasPrefix(cells[0], "`") || len(cells) != len(header) {
			continue
		}
		for i, name := range header {
			if column := columns[name]; column != nil {
				column[sandbox.Policy(strings.Trim(cells[0], "`"))] = strings.TrimPrefix(cells[i], "enforced")
			}
		}
	}
	for name, b := range map[string]*Backend{
		"runsc, root":     {cgroups: &cgroup.Host{}}, // One that misses nothing.
		"runsc, rootless": {rootless: true},
	} {
		if diff := cmp.Diff(b.Policies(), columns[name]); diff != "" {
			t.Errorf("%s (-code +docs/backends.md):\n%s", name, diff)
		}
	}
}
