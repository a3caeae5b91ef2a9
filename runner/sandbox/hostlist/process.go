package hostlist

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

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
	for ok := true; ok; p, ok = all[p.parent] {
		if p.parent == 1 && slices.Contains(l.Programs, strings.TrimSuffix(p.program, " (deleted)")) {
			return true
		}
	}
	return false
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
