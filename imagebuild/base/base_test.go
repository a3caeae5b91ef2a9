package base

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quavon/quavon/runner/fault"
	it "github.com/quavon/quavon/runner/image/imagetest"
)

func TestShippedRecipe(t *testing.T) {
	t.Parallel()
	r, err := Read("../../templates/images/debian")
	if err != nil {
		t.Fatal(err)
	}
	if pins := r.Pins["amd64"]; len(pins) < 70 || name(pins[0]) != "adduser" && name(pins[0]) != "apt" {
		t.Errorf("odd pins: %q", pins)
	}
	_, err = r.Make(t.Context(), "riscv64", t.TempDir(), Options{})
	if err == nil || !strings.Contains(err.Error(), "pins no packages for riscv64") {
		t.Errorf("an architecture without pins: %v", err)
	}
}

func TestRecipeRefused(t *testing.T) {
	t.Parallel()
	good := "suite: trixie\ninclude: [ca-certificates]\ntime: 2026-01-01T00:00:00Z\n"
	for what, c := range map[string]struct{ recipe, pins, why string }{
		"unknown key":  {good + "sweet: trixie\n", "a=1", "field sweet not found"},
		"no time":      {"suite: trixie\n", "a=1", "no time after 1970"},
		"option":       {"suite: --help\ntime: 2026-01-01T00:00:00Z\n", "a=1", `suite "--help"`},
		"package":      {"suite: trixie\ninclude: ['a,?b']\ntime: 2026-01-01T00:00:00Z\n", "a=1", `"a,?b" is not the name`},
		"no version":   {good, "adduser", `amd64.txt:1: "adduser" is not NAME=VERSION`},
		"injection":    {good, "apt=1\nPin: x=2", `amd64.txt:2: "Pin: x=2"`},
		"unsorted":     {good, "bash=1\napt=1", `amd64.txt:2: "apt=1" is not after "bash=1"`},
		"twice":        {good, "apt=1\napt=2", `amd64.txt:2: "apt=2" is not after "apt=1"`},
		"empty":        {good, "", "amd64.txt:1:"},
		"not yaml":     {"\t", "a=1", "recipe.yaml"},
		"much too big": {good + "#" + strings.Repeat("x", maxFile), "a=1", "no file of at most"},
	} {
		dir := t.TempDir()
		for file, text := range map[string]string{"recipe.yaml": c.recipe, "amd64.txt": c.pins} {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := Read(dir); err == nil || !strings.Contains(err.Error(), c.why) {
			t.Errorf("%s: got %v, want %s", what, err, c.why)
		}
	}
	if _, err := Read(t.TempDir()); !errors.Is(err, os.ErrNotExist) || fault.Hint(err) == "" {
		t.Errorf("no recipe at all: %v", err)
	}
}

func TestMoved(t *testing.T) {
	t.Parallel()
	diff := differences([]string{"apt=1", "bash=1", "curl=1"}, []string{"apt=2", "bash=1", "dash=1"})
	if got := strings.Join(diff, " "); got != "+ apt=2 - apt=1 - curl=1 + dash=1" && got != "- apt=1 + apt=2 - curl=1 + dash=1" {
		t.Errorf("got %s", got)
	}
	if err := moved(diff); !errors.Is(err, ErrMoved) || !strings.Contains(err.Error(), "- curl=1") || fault.Hint(err) == "" {
		t.Errorf("got %v", err)
	}
}

func recipe() *Recipe {
	return &Recipe{
		Suite: "trixie", Time: time.Unix(1767225600, 0), Pins: map[string][]string{"amd64": {"apt=1"}},
	}
}

// TestMirrorFails has the real mmdebstrap meet a mirror that isn't there.
func TestMirrorFails(t *testing.T) {
	t.Parallel()
	it.NeedTool(t, "mmdebstrap")
	dir := t.TempDir()
	_, err := recipe().Make(t.Context(), "amd64", dir, Options{Sources: []byte("deb file:/nonexistent/mirror trixie main\n")})
	if err == nil || !strings.Contains(err.Error(), "/nonexistent/mirror") || fault.Hint(err) == "" {
		t.Errorf("got %v", err)
	}
	nothingIn(t, dir)
}

// TestCancelled ends mmdebstrap while it waits for a mirror that never answers.
func TestCancelled(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	it.NeedTool(t, "mmdebstrap")
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	var begun time.Time
	mirror := silent(t, func() {
		if ctx.Err() == nil {
			begun = time.Now()
		}
		cancel(why)
	})
	dir := t.TempDir()
	_, err := recipe().Make(ctx, "amd64", dir, Options{Sources: []byte("deb [trusted=yes] http://" + mirror + "/debian trixie main\n")})
	// By itself apt would try for minutes.
	if took := time.Since(begun); !errors.Is(err, why) || took > time.Minute {
		t.Errorf("got %v after %v", err, took)
	}
	nothingIn(t, dir)
	nothingIn(t, tmp)
}

func nothingIn(t *testing.T, dir string) {
	t.Helper()
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
