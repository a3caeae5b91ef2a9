package smoke_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quavon/quavon/runner/sandbox/sandboxtest"
	"github.com/quavon/quavon/runner/smoke"
	"github.com/quavon/quavon/runner/smoke/weak"
)

var update = flag.Bool("update", false, "write the lists of docs/probes.md anew")

// listed begins the part of docs/probes.md that is the catalogue's.
const listed = "## Probes\n"

// The page has a heading for each probe and a row for each weakened sandbox, as they
// are in the code.
func TestDocs(t *testing.T) {
	path := filepath.Join(sandboxtest.Module(t), "docs", "probes.md")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, have, ok := strings.Cut(string(data), listed)
	if !ok {
		t.Fatalf("%s has no %q", path, listed)
	}
	want := catalogueText()
	if *update {
		if err := os.WriteFile(path, []byte(head+listed+want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("docs/probes.md is not the catalogue's; go test ./runner/smoke -run TestDocs -update\n%s", diff)
	}
}

func catalogueText() string {
	var b strings.Builder
	for _, e := range smoke.Catalogue() {
		fmt.Fprintf(&b, "\n### %s\n\nHolds when %s.\n\n", e.ID, e.Title)
		fmt.Fprintf(&b, "**Control.** %s.\n\n", strings.ToUpper(e.Control[:1])+e.Control[1:])
		fmt.Fprintf(&b, "**Broken in** %s.%s\n", names(e.Weak), marks(e))
		if e.AsRoot != nil {
			fmt.Fprintf(&b, "\nWhere jobs are root **broken in** %s.\n", names(e.AsRoot))
		}
		for _, backend := range slices.Sorted(maps.Keys(e.Skip)) {
			fmt.Fprintf(&b, "\n**Not applicable** with %s: %s.\n", backend, e.Skip[backend])
		}
	}
	b.WriteString("\n## Weakened sandboxes\n\n| name | what is weak |\n| --- | --- |\n")
	for _, a := range weak.Arms {
		fmt.Fprintf(&b, "| `%s` | %s |\n", a.Name, a.What)
	}
	return b.String()
}

func names(list []string) string {
	var out []string
	for _, n := range list {
		out = append(out, "`"+n+"`")
	}
	return strings.Join(out, ", ")
}

// marks says when a probe is made.
func marks(e smoke.Entry) string {
	text := ""
	if e.Quick {
		text += " In the quick set."
	}
	if e.Root {
		text += " Needs root on the host."
	}
	if e.Alone != nil {
		text += " In a sandbox of its own."
	}
	return text
}
