package sandboxtest

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/quavon/quavon/runner/disk"
	"github.com/quavon/quavon/test/cache"
)

// built are the paths of the programs that this process has asked for, by package.
var built struct {
	sync.Mutex
	paths map[string]string
}

// program builds one of this module's static programs, or takes the one that env
// names. Test binaries share what they build: no test knows that it is the last.
func program(t testing.TB, pkg, env string) string {
	t.Helper()
	if p := os.Getenv(env); p != "" {
		return p
	}
	built.Lock()
	defer built.Unlock()
	if p := built.paths[pkg]; p != "" {
		return p
	}
	p, err := build(pkg)
	if err != nil {
		t.Fatalf("build %s: %v", pkg, err)
	}
	if built.paths == nil {
		built.paths = map[string]string{}
	}
	built.paths[pkg] = p
	return p
}

// build makes a program in a directory that is named by its content, so that test
// binaries of different sources can run at once. Each has a directory of its own, since
// one of them is shown to a sandbox as a whole.
func build(pkg string) (string, error) {
	kept, err := cacheDir()
	if err != nil {
		return "", err
	}
	prune(kept)
	fresh, err := os.MkdirTemp(kept, "new-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(fresh) }()
	name := filepath.Base(pkg)
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", filepath.Join(fresh, name),
		"github.com/quavon/quavon/"+pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", errors.Join(err, errors.New(string(out)))
	}
	sum, err := disk.Sum(filepath.Join(fresh, name))
	if err != nil {
		return "", err
	}
	dir := filepath.Join(kept, name+"-"+sum[:16])
	err = cmp.Or(os.Chmod(fresh, 0o755), os.Rename(fresh, dir))
	if errors.Is(err, fs.ErrExist) { // the same program
		err = nil
	}
	now := time.Now()
	return filepath.Join(dir, name), cmp.Or(err, os.Chtimes(dir, now, now))
}

// cacheDir is where programs for tests are kept.
func cacheDir() (string, error) {
	dir, err := cache.Dir()
	if err != nil {
		return "", err
	}
	dir = filepath.Join(dir, "test")
	return dir, os.MkdirAll(dir, 0o755)
}

// prune removes what no test has asked for in a week.
func prune(dir string) {
	const old = 7 * 24 * time.Hour
	entries, _ := os.ReadDir(dir) // it was made just now
	for _, e := range entries {
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > old {
			_ = os.RemoveAll(filepath.Join(dir, e.Name())) // the next one tries again
		}
	}
}
