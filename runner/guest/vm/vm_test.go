package vm

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestFindPort: test/qemu has the rest, in a machine.
func TestFindPort(t *testing.T) {
	t.Parallel()
	class := t.TempDir()
	for port, name := range map[string]string{"vport0p1": "org.other\n", "vport0p2": PortName + "\n", "vport0p3": strings.Repeat("x", 5000)} {
		if err := os.Mkdir(filepath.Join(class, port), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(class, port, "name"), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := findPort(class, PortName); got != "vport0p2" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	if got, err := findPort(class, "none"); err == nil {
		t.Errorf("found %q", got)
	}
}

// TestNobodyThere doesn't wait for ever; a pipe without a writer hangs up too.
func TestNobodyThere(t *testing.T) {
	t.Parallel()
	if _, err := open(filepath.Join(t.TempDir(), "none"), time.Now()); err == nil {
		t.Error("a port that isn't there was opened")
	}
}
