package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/pause"
)

// Group is the control group of one sandbox.
type Group struct {
	h  *Host
	id string
}

// Group names a group without making it, to reap what a dead run left.
func (h *Host) Group(id string) *Group { return &Group{h: h, id: id} }

// Create makes the group of a sandbox and sets its limits. When it fails
// nothing is left.
func (h *Host) Create(id string, l Limits) (*Group, error) {
	g := h.Group(id)
	var made []string
	err := func() error {
		for _, dir := range h.dirs(id) {
			if err := h.make(dir); err != nil {
				return err
			}
			made = append(made, dir)
		}
		if err := h.enable(); err != nil {
			return err
		}
		return g.set(l)
	}()
	if err == nil {
		return g, nil
	}
	for _, dir := range made {
		err = errors.Join(err, os.Remove(dir))
	}
	h.removeParents()
	return nil, fault.Wrap(err, "create control group "+parent+"/"+id,
		"check that "+mountPoint+" is writable and that no sandbox has this id")
}

// dir is the group's directory in the controller's hierarchy, "" when the
// controller is missing.
func (g *Group) dir(c Controller) string {
	root, ok := g.h.roots[c]
	if !ok {
		return ""
	}
	return filepath.Join(root, parent, g.id)
}

// Start prepares a process to be born in the group. It must be called, and the
// process started, on one locked thread; leave must follow on the same thread.
// Version 2 clones into the group; in version 1 the thread itself is inside
// until leave, so a failing leave means that the sandbox must not go on.
func (g *Group) Start(attr *syscall.SysProcAttr) (leave func() error, err error) {
	if g.h.v2 {
		fd, err := unix.Open(g.dir(Pids), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil, err
		}
		attr.UseCgroupFD, attr.CgroupFD = true, fd
		return func() error { return unix.Close(fd) }, nil
	}
	leave = func() error {
		var errs []error
		for c := range g.h.roots {
			errs = append(errs, write(filepath.Join(g.h.own[c], "tasks"), "0"))
		}
		return errors.Join(errs...)
	}
	for c := range g.h.roots {
		if err := write(filepath.Join(g.dir(c), "tasks"), "0"); err != nil {
			return nil, errors.Join(err, leave())
		}
	}
	return leave, nil
}

// Holds says whether the process is in the group in every hierarchy.
func (g *Group) Holds(pid int) error {
	paths, err := membership(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return err
	}
	for c := range g.h.roots {
		key := string(c)
		if g.h.v2 {
			key = ""
		}
		if p := paths[key]; !strings.HasSuffix(p, "/"+parent+"/"+g.id) {
			return fmt.Errorf("process %d is in %s control group %q, not in %s/%s", pid, c, p, parent, g.id)
		}
	}
	return nil
}

// Procs lists the group's processes, zombies too.
func (g *Group) Procs() ([]int, error) {
	seen := map[int]bool{}
	var pids []int
	for _, dir := range g.h.dirs(g.id) {
		data, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, w := range strings.Fields(string(data)) {
			pid, err := strconv.Atoi(w)
			// Zero is a process outside of our pid namespace.
			if err == nil && pid > 0 && !seen[pid] {
				seen[pid] = true
				pids = append(pids, pid)
			}
		}
	}
	return pids, nil
}

// Kill ends every process in the group and returns when it is empty.
func (g *Group) Kill(ctx context.Context) error {
	for {
		pids, err := g.Procs()
		if err != nil || len(pids) == 0 {
			return err
		}
		if g.h.v2 {
			_ = write(filepath.Join(g.dir(Pids), "cgroup.kill"), "1") // Since Linux 5.14.
		}
		for _, pid := range pids {
			g.kill(pid)
		}
		if err := pause.For(ctx, time.Millisecond); err != nil {
			return fmt.Errorf("processes %v do not die: %w", pids, err)
		}
	}
}

// kill signals a process that is surely still in the group: its number could
// have been given to another one since it was listed.
func (g *Group) kill(pid int) {
	if pid == os.Getpid() {
		return
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return
	}
	defer func() { _ = unix.Close(fd) }()
	if g.Holds(pid) == nil {
		_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	}
}

// Remove deletes the empty group. The kernel may call it busy for a moment after
// its last process.
func (g *Group) Remove(ctx context.Context) error {
	for _, dir := range g.h.dirs(g.id) {
		for {
			err := os.Remove(dir)
			if err == nil || errors.Is(err, fs.ErrNotExist) {
				break
			}
			if !errors.Is(err, unix.EBUSY) {
				return err
			}
			if pause.For(ctx, time.Millisecond) != nil {
				return err
			}
		}
	}
	g.h.removeParents()
	return nil
}

// removeParents deletes the shared parent groups when no sandbox is left.
func (h *Host) removeParents() {
	for _, dir := range h.dirs("") {
		_ = os.Remove(dir)
	}
}

// write sets a control file, which must exist. The kernel takes one write.
func write(path, value string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}
