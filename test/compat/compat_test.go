//go:build compat

package compat

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
)

var (
	quavon = flag.String("quavon", "../../bin/quavon", "the quavon to run")
	report = flag.String("report", "", "write the rows of what ran to this file")
	keep   = flag.String("keep", "", "keep outputs below this directory")
)

// TestProjects needs the package registries, and about 20 minutes on two processors.
func TestProjects(t *testing.T) {
	cache := os.Getenv("QUAVON_COMPAT_CACHE")
	if cache == "" {
		cache = filepath.Join(must(os.UserCacheDir())(t), "quavon", "compat")
	}
	binary := must(filepath.Abs(*quavon))(t)
	rows := map[string]string{}
	for i := range projects {
		p := &projects[i]
		t.Run(p.Name, func(t *testing.T) { rows[p.Name] = compare(t, p, binary, cache) })
	}
	if *report != "" {
		if err := updateReport(*report, rows); err != nil {
			t.Error(err)
		}
	}
}

// compare returns the project's row; every test that doesn't end alike fails t.
func compare(t *testing.T, p *project, binary, cache string) string {
	workspace := must(p.fetch(t.Context(), cache))(t)
	scratch := scratchDir(t, p.Name)
	outside := must(p.outside(t.Context(), workspace, scratch))(t)
	inside := must(p.inside(t.Context(), binary, workspace, scratch))(t)
	t.Logf("outside %v in %v; inside %v in %v, %.1f×", outside.Tests.count(), outside.Took,
		inside.Tests.count(), inside.Took, ratio(inside.Took, outside.Took))
	if n := outside.Tests.total(); n < 200 && outside.Took.Seconds() < 20 {
		t.Errorf("only %d tests in %v: too little to show anything", n, outside.Took)
	}
	diff := differences(outside.Tests, inside.Tests)
	for _, line := range diff {
		t.Error(line)
	}
	return row(p, outside, inside, len(diff))
}

// scratchDir is one that the unprivileged user outside can reach.
func scratchDir(t *testing.T, name string) string {
	if *keep != "" {
		dir := filepath.Join(*keep, name)
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	dir := must(os.MkdirTemp("/tmp", "quavon-compat-"))(t) // t.TempDir's parents are closed to others
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// must fails the test on an error: must(f())(t).
func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}
