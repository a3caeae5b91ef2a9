// Package race makes tests tell of data races in programs that they start, which are the
// test's own binary by another name. A program that is killed hides what the race detector
// saw in it, and so does one that ends with an exit code of its own.
package race

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Env is for the environment of programs, NAME=value. The test fails in its end when one of
// them had a race.
func Env(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	t.Cleanup(func() {
		reports, _ := filepath.Glob(filepath.Join(dir, "*")) // the pattern is right
		for _, file := range reports {
			text, err := os.ReadFile(file)
			t.Errorf("a program has a data race: %v\n%s", err, text)
		}
	})
	return "GORACE=" + strings.TrimSpace(os.Getenv("GORACE")+" log_path="+filepath.Join(dir, "race"))
}
