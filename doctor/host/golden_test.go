package host

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/quavon/quavon/doctor"
)

var update = flag.Bool("update", false, "write the golden files")

// TestGolden compares what each check says of each host on which it doesn't hold, whole:
// message, details and fix.
func TestGolden(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/cases/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	said := map[string]*txtar.Archive{}
	for _, file := range files {
		over, want := readCase(t, file)
		if want["state"] != "fail" && want["state"] != "warn" {
			continue
		}
		c, err := doctor.Find(Checks(load(t, over).config()), want["code"])
		if err != nil {
			t.Fatal(err)
		}
		f := doctor.Run(t.Context(), []*doctor.Check{alone(c)}, nil).Results[0].Finding
		if said[c.Code] == nil {
			said[c.Code] = &txtar.Archive{}
		}
		name := strings.TrimSuffix(filepath.Base(file), ".txtar")
		said[c.Code].Files = append(said[c.Code].Files, txtar.File{Name: name, Data: []byte(whole(f))})
	}
	for code, a := range said {
		path := filepath.Join("testdata", "golden", code+".txtar")
		got := txtar.Format(a)
		if *update {
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, got, 0o600)); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s differs (go test ./doctor/host -update writes it): %v\n%s", path, err, got)
		}
	}
}

// whole is all of a finding.
func whole(f doctor.Finding) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", f.State, f.Message)
	for _, d := range f.Details {
		fmt.Fprintf(&b, "- %s\n", d)
	}
	fmt.Fprintf(&b, "fix: %s\n", f.Fix)
	return b.String()
}
