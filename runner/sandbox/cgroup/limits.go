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

// Limits are what a group bounds; zero leaves a resource alone.
type Limits struct {
	// Memory in bytes, without swap.
	Memory int64
	// CPUs is a share of processor time, 1.5 = one and a half processors.
	CPUs float64
	// Tasks counts processes and threads of the host.
	Tasks int64
}

// period is the kernel's default scheduling period in microseconds, and
// minQuota its least quota.
const (
	period   = 100_000
	minQuota = 1_000
)

// files names a version's control files.
type files struct{ memory, swap, tasks, events, oom string }

func (h *Host) files() files {
	if h.v2 {
		return files{"memory.max", "memory.swap.max", "pids.max", "pids.events", "memory.events"}
	}
	return files{"memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "pids.max", "pids.events", "memory.oom_control"}
}

func (g *Group) set(l Limits) error {
	for _, f := range []func(Limits) error{g.setMemory, g.setCPU, g.setTasks} {
		if err := f(l); err != nil {
			return err
		}
	}
	return nil
}

func (g *Group) need(c Controller) (string, error) {
	if why := g.h.Missing(c); why != "" {
		return "", errors.New(why)
	}
	return g.dir(c), nil
}

// setMemory bounds memory and forbids swap, where the kernel counts swap. In
// version 2 running out ends the whole sandbox, not a random part of it.
func (g *Group) setMemory(l Limits) error {
	if l.Memory == 0 {
		return nil
	}
	dir, err := g.need(Memory)
	if err != nil {
		return err
	}
	f, limit := g.h.files(), strconv.FormatInt(l.Memory, 10)
	if err := write(filepath.Join(dir, f.memory), limit); err != nil {
		return err
	}
	// Version 1 counts memory and swap together.
	swap := map[bool]string{false: limit, true: "0"}[g.h.v2]
	if err := optional(write(filepath.Join(dir, f.swap), swap)); err != nil {
		return err
	}
	if g.h.v2 {
		return optional(write(filepath.Join(dir, "memory.oom.group"), "1"))
	}
	return optional(write(filepath.Join(dir, "memory.swappiness"), "0"))
}

// optional forgives a control file that this kernel doesn't have.
func optional(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// swapOn says whether the host can swap at all.
func swapOn() bool {
	data, err := os.ReadFile("/proc/swaps")
	return err == nil && strings.Count(string(data), "\n") > 1
}

func (g *Group) setCPU(l Limits) error {
	if l.CPUs == 0 {
		return nil
	}
	dir, err := g.need(CPU)
	if err != nil {
		return err
	}
	quota := int64(math.Round(l.CPUs * period))
	if quota < minQuota {
		return fmt.Errorf("a share of %g CPUs is below the kernel's minimum of %g", l.CPUs, float64(minQuota)/period)
	}
	if g.h.v2 {
		return write(filepath.Join(dir, "cpu.max"), fmt.Sprintf("%d %d", quota, period))
	}
	if err := write(filepath.Join(dir, "cpu.cfs_period_us"), strconv.Itoa(period)); err != nil {
		return err
	}
	return write(filepath.Join(dir, "cpu.cfs_quota_us"), strconv.FormatInt(quota, 10))
}

func (g *Group) setTasks(l Limits) error {
	if l.Tasks == 0 {
		return nil
	}
	dir, err := g.need(Pids)
	if err != nil {
		return err
	}
	return write(filepath.Join(dir, g.h.files().tasks), strconv.FormatInt(l.Tasks, 10))
}
