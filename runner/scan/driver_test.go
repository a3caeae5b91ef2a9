package scan

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/quavon/quavon/test/need"
)

// drive runs the driver itself, with other tools than the real ones.
func drive(t *testing.T, root string, planned []plannedTool) runs {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		need.Skip(t, "python3 is missing: %v", err)
	}
	tmp := t.TempDir()
	text, err := json.Marshal(plan{Root: root, Tmp: tmp, To: "-", Aside: ".aside", Most: 1000, Timeout: 5, Tools: planned, Files: map[string]string{tmp + "/f": "text"}})
	if err != nil {
		t.Fatal(err)
	}
	var errOut bytes.Buffer
	cmd := exec.Command(python, "-I", "-c", driver, string(text))
	cmd.Stderr = &errOut
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, &errOut)
	}
	all, err := readRuns(bytes.NewReader(out))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func (all *runs) of(tool string) (list []oneRun) {
	for _, r := range all.Runs {
		if r.Tool == tool {
			list = append(list, r)
		}
	}
	return list
}

func TestDriver(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for _, path := range []string{"go.mod", "a/go.mod", "a/vendor/x/go.mod", "b/testdata/go.mod", ".c/go.mod", "node_modules/d/go.mod", "node_modules/d/x.rb", "a/b/x.js"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, path)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, path), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, ".gitleaksignore"), []byte("x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	sh := func(line string) []string { return []string{"/bin/sh", "-c", line} }
	begin := time.Now()
	all := drive(t, root, []plannedTool{
		{Name: "env", Argv: sh(`echo "$A $HOME"; echo err >&2; exit 3`), Env: map[string]string{"A": "b"}},
		{Name: "modules", Argv: sh("pwd"), Marker: "go.mod"},
		{Name: "sleeps", Argv: sh("echo before; sleep 60 & sleep 60")},
		{Name: "aside", Argv: sh("test ! -e .gitleaksignore && cat .aside")},
		{Name: "missing", Argv: []string{"/no/such/tool"}},
		{Name: "killed", Argv: sh("kill -9 $$")},
		{Name: "loud", Argv: sh("yes | head -c 100000")},
		{Name: "script", Argv: sh("true"), Only: []string{".js", ".ts"}},
		{Name: "ruby", Argv: sh("true"), Only: []string{".rb"}},
	})
	if took := time.Since(begin); took > 50*time.Second { // a sleep is a minute
		t.Errorf("it took %s", took)
	}
	if r := all.of("env")[0]; r.Exit != 3 || string(r.err) != "err\n" || !bytes.HasPrefix(r.out, []byte("b /")) {
		t.Errorf("env: %+v %s", r, r.out)
	}
	var dirs []string
	for _, r := range all.of("modules") {
		dirs = append(dirs, r.Dir)
		if string(r.out) != r.Dir+"\n" {
			t.Errorf("%s ran in %s", r.Dir, r.out)
		}
	}
	if len(dirs) != 2 || len(all.of("script")) != 1 || len(all.of("ruby")) != 0 || len(all.Skipped) != 1 || all.Skipped[0] != "ruby" {
		t.Errorf("modules in %v, skipped %v", dirs, all.Skipped)
	}
	if r := all.of("sleeps")[0]; !r.TimedOut || string(r.out) != "before\n" || r.Wall < 4.9 {
		t.Errorf("sleeps: %+v", r)
	}
	if r := all.of("aside")[0]; string(r.out) != "x\n" {
		t.Errorf("aside: %+v", r)
	}
	if r := all.of("missing")[0]; r.Failed == "" {
		t.Errorf("missing: %+v", r)
	}
	if r := all.of("killed")[0]; r.Exit != -9 || r.TimedOut {
		t.Errorf("killed: %+v", r)
	}
	if r := all.of("loud")[0]; len(r.out) != 1001 {
		t.Errorf("loud: %d bytes", len(r.out))
	}
}
