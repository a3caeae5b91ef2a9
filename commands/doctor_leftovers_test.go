package commands

import (
	"crypto/rand"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quavon/quavon/doctor"
)

// TestTraces shows that what is looked for is found: a process, a file, and nothing of
// others.
func TestTraces(t *testing.T) {
	t.Parallel()
	id, another := "doctor-limit-trace-"+strings.ToLower(rand.Text()), rand.Text()
	dir := t.TempDir()
	if found := traces([]string{id}, dir); len(found) > 0 {
		t.Errorf("nothing is there, and yet %q", found)
	}
	if err := os.MkdirAll(filepath.Join(dir, "sandboxes", id, "deep"), 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sleep", "1000")
	cmd.Args[0] = "sleep-" + id
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	found := strings.Join(traces([]string{id, another}, dir), "\n")
	for _, want := range []string{"process ", filepath.Join(dir, "sandboxes", id)} {
		if !strings.Contains(found, want) {
			t.Errorf("no %q in %q", want, found)
		}
	}
	if found := traces([]string{another}, dir); len(found) > 0 {
		t.Errorf("another's: %q", found)
	}
	if f := (&limitsSeen{held: []string{"memory"}, left: []string{"process 1"}}).finding(); f.State != doctor.Fail || f.Fix == "" {
		t.Errorf("%s %s", f.State, f.Message)
	}
	if f := (&limitsSeen{held: []string{"memory"}, unsure: []string{"disk: x"}}).finding(); f.State != doctor.Error {
		t.Errorf("%s %s", f.State, f.Message)
	}
}
