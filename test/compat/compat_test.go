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
	report = flag.String("report", "", "write what ran to this file, and keep the rest of it")
	images = flag.String("images", "", "run inside the images go, node and python of this state directory; see test/images")
	keep   = flag.String("keep", "", "keep outputs below this directory")
)

// TestProjects needs the package registries, and about 20 minutes on two processors.
func TestProjects(t *testing.T) {
	cache := os.Getenv("QUAVON_COMPAT_CACHE")
	if cache == "" {
		cache = filepath.Join(must(os.UserCacheDir())(t), "quavon", "compat")
	}
	binary := must(filepath.Abs(*quavon))(t)
	parts := map[string]*comparison{}
	for i := range projects {
		p := &projects[i]
		t.Run(p.Name, func(t *testing.T) { parts[p.Name] = compare(t, p, binary, cache) })
	}
	if *report != "" {
		title := hostTitle
		if *images != "" {
			title = imageTitle
		}
		if err := updateReport(*report, title, parts); err != nil {
			t.Error(err)
		}
	}
}

// rounds is how often a difference has to show: one that doesn't is the test's own.
const rounds = 2

// compare returns the project's part of the report; every test that doesn't end
// alike, and isn't known for it, fails t.
func compare(t *testing.T, p *project, binary, cache string) *comparison {
	workspace := must(p.fetch(t.Context(), cache))(t)
	var c *comparison
	for round := range rounds {
		again := runBoth(t, p, binary, workspace)
		if round == 0 {
			c = again
		} else {
			c.confirm(again)
		}
		if len(c.unknown(p)) == 0 {
			break
		}
	}
	for test, how := range c.unknown(p) {
		t.Errorf("%s: %s", test, how)
	}
	if len(c.Differ) < len(p.Known) {
		t.Errorf("fewer tests differ than the list says: %v", c.Differ)
	}
	return c
}

// runBoth is one round.
func runBoth(t *testing.T, p *project, binary, workspace string) *comparison {
	scratch := scratchDir(t, p.Name)
	hosts := must(command(t.Context(), workspace, binary, "run", "--", "cat", "/etc/hosts"))(t)
	if err := os.WriteFile(filepath.Join(scratch, "hosts"), hosts, 0o644); err != nil {
		t.Fatal(err)
	}
	outside := must(p.outside(t.Context(), workspace, scratch))(t)
	inside := must(p.inside(t.Context(), binary, *images, workspace, scratch))(t)
	c := &comparison{Outside: outside, Inside: inside, Differ: differences(outside.Tests, inside.Tests)}
	t.Logf("outside %v in %v; inside %v in %v; differ: %v", outside.Tests.count(), outside.Took,
		inside.Tests.count(), inside.Took, c.Differ)
	if n := outside.Tests.total(); n < 200 && outside.Took.Seconds() < 20 {
		t.Errorf("only %d tests in %v: too little to show anything", n, outside.Took)
	}
	return c
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
	dir := must(os.MkdirTemp("/tmp", "quavon-compat-"))(t) //nolint:usetesting // its parents are closed to others
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
