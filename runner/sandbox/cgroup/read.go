package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Limits reads back what the kernel enforces; zero is "no limit". It fails when
// swap would let a group past its memory limit.
func (g *Group) Limits() (Limits, error) {
	var l Limits
	var errs [3]error
	l.Memory, errs[0] = g.readMemory()
	l.CPUs, errs[1] = g.readCPU()
	if dir := g.dir(Pids); dir != "" {
		l.Tasks, errs[2] = readLimit(filepath.Join(dir, g.h.files().tasks))
	}
	return l, errors.Join(errs[:]...)
}

func (g *Group) readMemory() (int64, error) {
	dir, f := g.dir(Memory), g.h.files()
	if dir == "" {
		return 0, nil
	}
	limit, err := readLimit(filepath.Join(dir, f.memory))
	if err != nil || limit == 0 {
		return 0, err
	}
	swap, err := readNumber(filepath.Join(dir, f.swap))
	switch {
	case errors.Is(err, fs.ErrNotExist) && swapOn():
		return 0, errors.New("this host swaps, and its kernel doesn't count swap: start it with swapaccount=1, or run swapoff -a")
	case errors.Is(err, fs.ErrNotExist):
		return limit, nil
	case err != nil:
		return 0, err
	case g.h.v2 && swap != 0, !g.h.v2 && swap != limit:
		return 0, fmt.Errorf("%s is %d: memory can be swapped out past the limit", f.swap, swap)
	}
	return limit, nil
}

func (g *Group) readCPU() (float64, error) {
	dir := g.dir(CPU)
	if dir == "" {
		return 0, nil
	}
	names := []string{"cpu.cfs_quota_us", "cpu.cfs_period_us"}
	if g.h.v2 {
		names = []string{"cpu.max"}
	}
	var fields []string
	for _, n := range names {
		data, err := os.ReadFile(filepath.Join(dir, n))
		if err != nil {
			return 0, err
		}
		fields = append(fields, strings.Fields(string(data))...)
	}
	if len(fields) != 2 {
		return 0, fmt.Errorf("unexpected CPU limit %q", fields)
	}
	if fields[0] == "max" || fields[0] == "-1" {
		return 0, nil
	}
	quota, err1 := strconv.ParseFloat(fields[0], 64)
	per, err2 := strconv.ParseFloat(fields[1], 64)
	if err := errors.Join(err1, err2); err != nil || per == 0 {
		return 0, fmt.Errorf("unexpected CPU limit %q: %w", fields, err)
	}
	return quota / per, nil
}

// Events count how often a limit was met.
type Events struct {
	// OOMKills are processes ended for want of memory.
	OOMKills int64
	// TasksRefused are processes or threads that were not created.
	TasksRefused int64
}

// Events reads the counters; they last until Remove.
func (g *Group) Events() (Events, error) {
	var e Events
	var errs [2]error
	f := g.h.files()
	if dir := g.dir(Memory); dir != "" {
		e.OOMKills, errs[0] = readField(filepath.Join(dir, f.oom), "oom_kill")
	}
	if dir := g.dir(Pids); dir != "" {
		e.TasksRefused, errs[1] = readField(filepath.Join(dir, f.events), "max")
	}
	return e, errors.Join(errs[:]...)
}

// MemoryUsed is the group's current memory in bytes, the page cache included.
func (g *Group) MemoryUsed() (int64, error) {
	dir, err := g.need(Memory)
	if err != nil {
		return 0, err
	}
	name := "memory.usage_in_bytes"
	if g.h.v2 {
		name = "memory.current"
	}
	return readNumber(filepath.Join(dir, name))
}

// unlimited is version 1's "no limit": the largest page-aligned number.
const unlimited = math.MaxInt64 &^ 0xffff

// readLimit reads a limit file; 0 is "no limit".
func readLimit(path string) (int64, error) {
	n, err := readNumber(path)
	if n >= unlimited {
		return 0, err
	}
	return n, err
}

func readNumber(path string) (int64, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	s := strings.TrimSpace(string(data))
	if s == "max" {
		return math.MaxInt64, nil
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", path, err)
	}
	return n, nil
}

// readField reads "name value" from a file of such lines.
func readField(path, name string) (int64, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == name {
			return strconv.ParseInt(f[1], 10, 64)
		}
	}
	return 0, fmt.Errorf("%s has no %s", path, name)
}
