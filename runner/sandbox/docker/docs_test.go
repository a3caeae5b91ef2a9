package docker

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quavon/quavon/runner/sandbox"
)

// The published matrix is what the code does, for each of the four.
func TestDocumentedMatrix(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../../../docs/backends.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := sandbox.Policies{}
	column := -1
	for line := range strings.Lines(string(data)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
			if cells[0] == "policy" && cells[i] == `docker-\*` {
				column = i
			}
		}
		if column > 0 && column < len(cells) && strings.HasPrefix(cells[0], "`") {
			documented[sandbox.Policy(strings.Trim(cells[0], "`"))] = strings.TrimPrefix(cells[column], "enforced")
		}
	}
	for _, name := range Names {
		b := &Backend{Config: Config{Name: name}}
		if diff := cmp.Diff(b.Policies(), documented); diff != "" {
			t.Errorf("%s (-code +docs/backends.md):\n%s", name, diff)
		}
	}
}
