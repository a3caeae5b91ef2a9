// Package hostlist compares what a host has before and after something ran:
// processes, mounts, control groups, namespaces, loop devices, System V shared
// memory and the files of given directories. The lists are whole: nothing is
// left out for lack of a label, so what a sandbox forgot shows even when it
// doesn't look like a sandbox's.
package hostlist

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

// EnvExact makes comparisons exact: set it where nothing else runs. CI=true does
// so too. Without them only what this process could have left is compared.
const EnvExact = "QUAVON_TEST_EXACT"

// Lister takes snapshots.
type Lister struct {
	// Dirs are directories whose files are listed.
	Dirs []string
	// Shared says that others use the host too. Lists then have only processes
	// that descend from this one or from an orphan that runs one of Programs, and what
	// names one of Dirs, Programs or Words.
	Shared   bool
	Programs []string
	Words    []string
	// More lists what else is to be compared, such as a daemon's objects; nil
	// nothing.
	More func() []string
}

// Snapshot is a set of lines like "process 12@3456 /usr/bin/runsc".
type Snapshot map[string]bool

// New lists dirs too. It is exact when the environment says so; programs are the
// executables an orphan of ours could run, words what ours have in their names.
func New(dirs, programs, words []string) *Lister {
	return &Lister{Dirs: dirs, Programs: programs, Words: words, Shared: os.Getenv(EnvExact) == "" && os.Getenv("CI") != "true"}
}

// Take lists the host as it is now. What can't be read, for want of privilege or
// because it is vanishing, is not in it.
func (l *Lister) Take() Snapshot {
	s := Snapshot{}
	l.processes(s)
	l.mounts(s)
	l.cgroups(s)
	l.loops(s)
	l.sharedMemory(s)
	if l.More != nil {
		for _, line := range l.More() {
			s[line] = true
		}
	}
	for _, dir := range l.Dirs {
		_ = filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if err == nil {
				s["file "+path] = true
			}
			return nil
		})
	}
	return s
}

// Diff says what was added and removed, sorted.
func Diff(before, after Snapshot) []string {
	var d []string
	for line := range after {
		if !before[line] {
			d = append(d, "+ "+line)
		}
	}
	for line := range before {
		if !after[line] && !transient(line) {
			d = append(d, "- "+line)
		}
	}
	slices.Sort(d)
	return d
}

// transient says whether a line may vanish by itself: a session, a service or an
// engine's shim that was there before was somebody else's and ends at any time,
// and takes its groups and namespaces along.
func transient(line string) bool {
	kind, _, _ := strings.Cut(line, " ")
	return kind == "process" || kind == "cgroup" || kind == "namespace"
}

// Settle takes snapshots until one equals before, since the kernel needs a moment
// to take things down, and returns the last difference if none does in time.
func (l *Lister) Settle(ctx context.Context, before Snapshot, wait time.Duration) []string {
	deadline := time.Now().Add(wait)
	for {
		d := Diff(before, l.Take())
		if d == nil || time.Now().After(deadline) || ctx.Err() != nil {
			return d
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// ours says whether a shared host's line can have come from this process.
func (l *Lister) ours(line string) bool {
	return !l.Shared || slices.ContainsFunc(slices.Concat(l.Dirs, l.Programs, l.Words), func(word string) bool {
		return strings.Contains(line, word)
	})
}

func (l *Lister) mounts(s Snapshot) {
	// Process 1 has the host's own namespace; without privilege ours has to do.
	data, err := os.ReadFile("/proc/1/mountinfo")
	if err != nil {
		data, _ = os.ReadFile("/proc/self/mountinfo")
	}
	for line := range strings.Lines(string(data)) {
		if line = strings.TrimSpace(line); l.ours(line) {
			s["mount "+line] = true
		}
	}
}

func (l *Lister) cgroups(s Snapshot) {
	data, _ := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.Lines(string(data)) {
		f := strings.Fields(line)
		if len(f) < 10 || !strings.Contains(line, " - cgroup") {
			continue
		}
		_ = filepath.WalkDir(f[4], func(path string, e fs.DirEntry, err error) error {
			if err == nil && e.IsDir() && l.ours(path) {
				s["cgroup "+path] = true
			}
			return nil
		})
	}
}

func (l *Lister) loops(s Snapshot) {
	files, _ := filepath.Glob("/sys/block/loop*/loop/backing_file")
	for _, f := range files {
		data, _ := os.ReadFile(f)
		line := fmt.Sprintf("loop %s %s", f, bytes.TrimSpace(data))
		if l.ours(line) {
			s[line] = true
		}
	}
}

func (l *Lister) sharedMemory(s Snapshot) {
	data, _ := os.ReadFile("/proc/sysvipc/shm")
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) > 1 && !l.Shared {
			s["shm "+f[0]+" "+f[1]] = true
		}
	}
}
