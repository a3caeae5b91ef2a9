// Package cgroup bounds a sandbox's processes by the host's control groups,
// version 1 or 2: one group per sandbox, made before its first process, read
// back after, and removed when empty.
package cgroup

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Controller is a resource the kernel can bound.
type Controller string

// Controllers that sandboxes are bounded by.
const (
	Memory Controller = "memory"
	CPU    Controller = "cpu"
	Pids   Controller = "pids"
)

var controllers = []Controller{Memory, CPU, Pids}

// parent is the group that all sandboxes' groups are in. It is removed with the
// last of them.
const parent = "quavon"

// mountPoint is where every distribution mounts control groups.
const mountPoint = "/sys/fs/cgroup"

// Host is a host's control group hierarchies. It is immutable.
type Host struct {
	v2 bool
	// delegated is the directory of the group that sandboxes' groups must stay in, ""
	// for none: version 2's, see delegated.go.
	delegated string
	// roots has the top directory of each controller's hierarchy; version 2 has
	// one for all.
	roots map[Controller]string
	// own has the directories of the group this process is in, by controller.
	own map[Controller]string
	// missing says why a controller can't be used.
	missing map[Controller]string
	// mkdir makes a group; tests without a kernel replace it.
	mkdir func(string) error
}

// Detect finds the hierarchies. It never fails: what can't be used is told by
// Missing.
func Detect() *Host {
	h := &Host{
		roots:   map[Controller]string{},
		own:     map[Controller]string{},
		missing: map[Controller]string{},
		mkdir:   func(p string) error { return os.Mkdir(p, 0o755) },
	}
	h.v2 = fsMagic(mountPoint) == unix.CGROUP2_SUPER_MAGIC
	top := mountPoint
	if h.v2 {
		h.delegated = delegated()
		top = cmp.Or(h.delegated, mountPoint)
	}
	for _, c := range controllers {
		root := top
		if !h.v2 {
			root = filepath.Join(mountPoint, string(c))
		}
		if why := h.probe(c, root); why != "" {
			h.missing[c] = why
			continue
		}
		h.roots[c] = root
	}
	if !h.v2 {
		h.findOwn()
	}
	return h
}

// Missing says why a controller can't bound anything here, "" when it can.
func (h *Host) Missing(c Controller) string { return h.missing[c] }

// Version is 1 or 2.
func (h *Host) Version() int {
	if h.v2 {
		return 2
	}
	return 1
}

func (h *Host) probe(c Controller, root string) string {
	if !h.v2 && fsMagic(root) != unix.CGROUP_SUPER_MAGIC {
		return fmt.Sprintf("no %s control group hierarchy is mounted at %s", c, root)
	}
	if err := unix.Access(root, unix.W_OK); err != nil {
		return fmt.Sprintf("%s is not writable", root)
	}
	if h.v2 {
		return probeV2(c, root, h.delegated != "")
	}
	return ""
}

// probeV2 looks without writing: a controller must be offered at the top and be
// enabled for subgroups, or be possible to enable. A top group that isn't the
// machine's own can't enable controllers while it has processes, which are ours to move
// when it was delegated.
func probeV2(c Controller, root string, ours bool) string {
	if !slices.Contains(words(root, "cgroup.controllers"), string(c)) {
		return fmt.Sprintf("the %s controller is not available in %s", c, root)
	}
	if slices.Contains(words(root, "cgroup.subtree_control"), string(c)) {
		return ""
	}
	_, err := os.Stat(filepath.Join(root, "cgroup.type"))
	if err == nil && !ours && len(words(root, "cgroup.procs")) > 0 {
		return fmt.Sprintf("the %s controller is not enabled in %s, which has processes", c, root)
	}
	return ""
}

func fsMagic(path string) int64 {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return 0
	}
	return st.Type
}

func words(dir, file string) []string {
	data, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return nil
	}
	return strings.Fields(string(data))
}
