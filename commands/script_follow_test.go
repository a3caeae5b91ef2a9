package commands

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/quavon/quavon/test/race"
)

// follow makes a script that fails tell what its background programs wrote into files
// named log or *.log, and fails a script in whose programs the race detector saw a race.
func follow(e *testscript.Env) {
	t := e.T().(testing.TB) //nolint:forcetypeassert // so says testscript of a script that testscript.Run runs
	name, value, _ := strings.Cut(race.Env(t), "=")
	e.Setenv(name, value)
	e.Defer(func() {
		if t.Failed() {
			tell(t, e.WorkDir, func(name string) bool { return name == "log" || strings.HasSuffix(name, ".log") })
		}
	})
}

// maxTold is how much of a file is told: its end.
const maxTold = 64 << 10

func tell(t testing.TB, dir string, which func(name string) bool) {
	t.Helper()
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || !which(d.Name()) {
			return nil //nolint:nilerr // what can't be read isn't told
		}
		text, err := os.ReadFile(path)
		t.Logf("%s (%v):\n%s", path, err, text[max(0, len(text)-maxTold):])
		return nil
	})
}
