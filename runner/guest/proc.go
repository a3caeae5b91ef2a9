package guest

import (
	"bytes"
	"os"
	"strconv"
)

// process is one entry of /proc.
type process struct {
	pid, parent, session int
	name                 string
	// start is when it was started; a pid alone may be someone else's later.
	start  string
	zombie bool
}

// processes lists /proc; what ends meanwhile is left out.
func processes() []process {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1) // what was read before an error counts
	var list []process
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + name + "/stat")
		if err != nil {
			continue
		}
		if p, ok := parseStat(pid, stat); ok {
			list = append(list, p)
		}
	}
	return list
}

// parseStat reads "pid (name) state ppid pgrp session …", see proc(5); the name
// may hold anything.
func parseStat(pid int, stat []byte) (process, bool) {
	begin, end := bytes.IndexByte(stat, '('), bytes.LastIndexByte(stat, ')')
	if begin < 0 || end < begin {
		return process{}, false
	}
	fields := bytes.Fields(stat[end+1:])
	if len(fields) < 20 {
		return process{}, false
	}
	parent, err1 := strconv.Atoi(string(fields[1]))
	session, err2 := strconv.Atoi(string(fields[3]))
	p := process{
		pid: pid, parent: parent, session: session, name: string(stat[begin+1 : end]),
		start: string(fields[19]), zombie: fields[0][0] == 'Z',
	}
	return p, err1 == nil && err2 == nil
}

// herd is a command's session, all that descends from it, and who was one of
// them at an earlier look: a process whose parent has ended isn't lost.
type herd struct {
	leader int
	known  map[int]string // pid to start
}

// look lists the live members.
func (h *herd) look() []process {
	live := closure(processes(), func(p process) bool {
		return p.pid == h.leader || p.session == h.leader || h.known[p.pid] == p.start
	})
	h.known = map[int]string{}
	for _, p := range live {
		h.known[p.pid] = p.start
	}
	return live
}

// descendants lists the live processes below the agent.
func descendants() []process {
	self := os.Getpid()
	return closure(processes(), func(p process) bool { return p.parent == self })
}

// closure lists the live processes that root picks and their descendants.
func closure(all []process, root func(process) bool) []process {
	children := map[int][]process{}
	var open []process
	for _, p := range all {
		children[p.parent] = append(children[p.parent], p)
		if root(p) {
			open = append(open, p)
		}
	}
	seen := map[int]bool{}
	var live []process
	for len(open) > 0 {
		p := open[len(open)-1]
		open = open[:len(open)-1]
		if seen[p.pid] {
			continue
		}
		seen[p.pid] = true
		open = append(open, children[p.pid]...)
		if !p.zombie {
			live = append(live, p)
		}
	}
	return live
}
