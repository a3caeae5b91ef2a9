package commands

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// leftTime is how long what a job had may take to go once the job has ended: a busy host takes
// its time. lookEvery is when it is looked for again.
const (
	leftTime  = 20 * time.Second
	lookEvery = 300 * time.Millisecond
)

// leftovers looks for what jobs have left on the host: processes, mounts, control groups
// and files that have a job's id in their name.
func (s *localSandbox) leftovers(ctx context.Context, ids []string) ([]string, error) {
	deadline := time.Now().Add(leftTime)
	for {
		found := traces(ids, s.runner.Spool)
		if len(found) == 0 || time.Now().After(deadline) {
			removed, err := s.reaped(ctx, ids)
			return append(found, removed...), err
		}
		select {
		case <-time.After(lookEvery):
		case <-ctx.Done():
			return found, context.Cause(ctx)
		}
	}
}

// reaped asks the backend for what is left, as a runner does when it starts: only it
// sees what an engine has.
func (s *localSandbox) reaped(ctx context.Context, ids []string) (found []string, err error) {
	removed, err := s.runner.Backend.Reap(ctx)
	for _, id := range removed {
		if slices.Contains(ids, id) {
			found = append(found, "sandbox "+id)
		}
	}
	return found, err
}

func traces(ids []string, spool string) []string {
	mine := func(text string) bool {
		return slices.ContainsFunc(ids, func(id string) bool { return strings.Contains(text, id) })
	}
	var found []string
	procs, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range procs {
		line, _ := os.ReadFile(file) // a process may end meanwhile
		if mine(string(line)) {
			found = append(found, fmt.Sprintf("process %s: %.120s", filepath.Base(filepath.Dir(file)), bytes.ReplaceAll(line, []byte{0},
				[]byte{' '})))
		}
	}
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.Lines(string(mounts)) {
		if f := strings.Fields(line); len(f) > 4 && mine(f[4]) {
			found = append(found, "mount "+f[4])
		}
	}
	return append(found, append(named("/sys/fs/cgroup", mine), named(spool, mine)...)...)
}

// most bounds how many names are looked at below a directory, deep how far below it.
const (
	mostNames = 100_000
	deep      = 6
)

// named lists what lies below a directory under a name that counts.
func named(root string, mine func(string) bool) (found []string) {
	n := 0
	_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error { // what can't be read isn't ours
		rel := strings.TrimPrefix(path, root)
		switch n++; {
		case n > mostNames:
			return fs.SkipAll
		case err != nil:
			return fs.SkipDir
		case mine(d.Name()):
			found = append(found, path)
			return fs.SkipDir
		case d.IsDir() && strings.Count(rel, "/") >= deep:
			return fs.SkipDir
		}
		return nil
	})
	return found
}
