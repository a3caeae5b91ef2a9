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
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// EnvExact makes comparisons exact: set it where nothing else runs. CI=true does
// so too. Without them only what this process could have left is compared.
const EnvExact = "QUAVON_TEST_EXACT"

// Lister takes snapshots.
type Lister struct {
	// Dirs are directories whose files are listed.
	Dirs []string
	// Shared says that others use the host too. Lists then have only processes
	// that descend from this one, orphans that run one of Programs, and what
	// names one of Dirs, Programs or Words.
	Shared   bool
	Programs []string
	Words    []string
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
		if !after[line] {
			d = append(d, "- "+line)
		}
	}
	slices.Sort(d)
	return d
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

// process is one of /proc.
type process struct {
	pid, parent int
	start       string
	kernel      bool
	program     string
}

// kernelThread is the kernel's PF_KTHREAD.
const kernelThread = 0x00200000

func readProcess(pid int) (process, bool) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return process{}, false
	}
	// Fields after the name, which is in parentheses and may contain anything:
	// state, parent, …, flags (7th), …, start time (20th).
	end := bytes.LastIndexByte(data, ')')
	f := strings.Fields(string(data[end+1:]))
	if len(f) < 20 {
		return process{}, false
	}
	parent, _ := strconv.Atoi(f[1])
	flags, _ := strconv.ParseUint(f[6], 10, 64)
	p := process{pid: pid, parent: parent, start: f[19], kernel: flags&kernelThread != 0}
	name := string(data[bytes.IndexByte(data, '(') : end+1])
	exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	if err != nil {
		exe = name
	}
	p.program = exe
	return p, true
}

func userProcesses() map[int]process {
	all := map[int]process{}
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			if p, ok := readProcess(pid); ok && !p.kernel {
				all[pid] = p
			}
		}
	}
	return all
}

// Descendants lists the processes that this one has started, at any remove.
func Descendants() []int {
	all := userProcesses()
	var pids []int
	for pid, p := range all {
		if pid != os.Getpid() && below(all, p) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// below says whether a process is this one or descends from it.
func below(all map[int]process, p process) bool {
	for ok := true; ok; p, ok = all[p.parent] {
		if p.pid == os.Getpid() {
			return true
		}
	}
	return false
}

// processes lists user processes with the namespaces of all their threads.
// Kernel threads come and go with the kernel's work.
func (l *Lister) processes(s Snapshot) {
	all := userProcesses()
	for pid, p := range all {
		if l.Shared && !l.related(all, p) {
			continue
		}
		if pid != os.Getpid() {
			s[fmt.Sprintf("process %d@%s %s", pid, p.start, p.program)] = true
		}
		namespaces(s, pid)
	}
}

func (l *Lister) related(all map[int]process, p process) bool {
	if below(all, p) {
		return true
	}
	return p.parent == 1 && slices.ContainsFunc(l.Programs, func(prog string) bool {
		return strings.TrimSuffix(p.program, " (deleted)") == prog || p.program == "("+filepath.Base(prog)+")"
	})
}

func namespaces(s Snapshot, pid int) {
	links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/ns/*", pid))
	for _, link := range links {
		// The _for_children ones differ only before the next fork.
		if strings.HasSuffix(link, "_for_children") {
			continue
		}
		var buf [64]byte
		if n, err := unix.Readlink(link, buf[:]); err == nil {
			s["namespace "+string(buf[:n])] = true
		}
	}
}
