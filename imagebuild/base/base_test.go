package base

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "pin what the mirror has today")

const shipped = "../../templates/images/debian"

func TestShipped(t *testing.T) {
	r, err := Read(shipped)
	if err != nil {
		t.Fatal(err)
	}
	b, err := r.Make(t.Context(), "amd64", t.TempDir(), Options{Unpinned: *update})
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		pins := strings.Join(b.Packages, "\n") + "\n"
		if err := os.WriteFile(filepath.Join(shipped, "amd64.txt"), []byte(pins), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	d, err := b.Image.Digest()
	t.Log(d, err)
}
