// Package cgroup bounds a sandbox's processes by the host's control groups,
// version 1 or 2: one group per sandbox, made before its first process, read
// back after, and removed when empty.
package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/quavon/quavon/runner/fault"
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
	for _, c := range controllers {
		root := mountPoint
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
		return probeV2(c, root)
	}
	return ""
}

// probeV2 looks without writing: a controller must be offered at the top and be
// enabled for subgroups, or be possible to enable. A top group that isn't the
// machine's own can't enable controllers while it has processes.
func probeV2(c Controller, root string) string {
	if !slices.Contains(words(root, "cgroup.controllers"), string(c)) {
		return fmt.Sprintf("the %s controller is not available in %s", c, root)
	}
	if slices.Contains(words(root, "cgroup.subtree_control"), string(c)) {
		return ""
	}
	_, err := os.Stat(filepath.Join(root, "cgroup.type"))
	if err == nil && len(words(root, "cgroup.procs")) > 0 {
		return fmt.Sprintf("the %s controller is not enabled in %s, which has processes", c, root)
	}
	return ""
}

// findOwn fills own for version 1, whose threads are moved between groups. A
// controller whose group can't be found can't be used.
func (h *Host) findOwn() {
	paths, err := membership("/proc/thread-self/cgroup")
	for c, root := range h.roots {
		dir := ""
		if err == nil {
			dir, err = inMount(root, paths[string(c)])
		}
		if err != nil {
			h.missing[c] = fmt.Sprintf("this process's %s control group was not found: %v", c, err)
			delete(h.roots, c)
			continue
		}
		h.own[c] = dir
	}
}

// inMount is the directory of a group below a hierarchy's mount point. In a
// container the mount may begin at the container's own group.
func inMount(root, path string) (string, error) {
	mounted, err := mountRoot(root)
	if err != nil {
		return "", err
	}
	rel, err := filepath.Rel(mounted, path)
	if err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
		return "", fmt.Errorf("%s is outside of %s", path, mounted)
	}
	dir := filepath.Join(root, rel)
	return dir, unix.Access(filepath.Join(dir, "tasks"), unix.W_OK)
}

// mountRoot is the group that a mount point shows at its top.
func mountRoot(point string) (string, error) {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", err
	}
	root := ""
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) > 4 && f[4] == point {
			root = f[3] // The last mount on a point is the visible one.
		}
	}
	if root == "" {
		return "", fmt.Errorf("%s is not a mount point", point)
	}
	return root, nil
}

// membership reads a /proc/PID/cgroup file: controller (or "" for version 2) to
// path.
func membership(file string) (map[string]string, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	paths := map[string]string{}
	for line := range strings.Lines(string(data)) {
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(f) != 3 {
			return nil, fmt.Errorf("%s: unexpected line %q", file, line)
		}
		for _, c := range strings.Split(f[1], ",") {
			paths[c] = f[2]
		}
	}
	return paths, nil
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

// dirs lists the distinct directories of a group.
func (h *Host) dirs(id string) []string {
	var dirs []string
	for _, c := range controllers {
		root, ok := h.roots[c]
		if !ok {
			continue
		}
		if d := filepath.Join(root, parent, id); !slices.Contains(dirs, d) {
			dirs = append(dirs, d)
		}
	}
	return dirs
}

// make creates one directory of a group below the shared parent, which another
// process may be removing at the same time. It fails when the group exists and
// has processes; an empty one is stale and replaced, with its counters.
func (h *Host) make(dir string) error {
	for try := 0; ; try++ {
		err := h.mkdir(filepath.Dir(dir))
		if err == nil || errors.Is(err, os.ErrExist) {
			err = h.mkdir(dir)
		}
		if errors.Is(err, os.ErrExist) && os.Remove(dir) == nil {
			continue
		}
		if !errors.Is(err, os.ErrNotExist) || try == 10 {
			return err
		}
	}
}

// enable passes version 2's controllers down to the sandboxes' groups. Writing
// what is already enabled changes nothing.
func (h *Host) enable() error {
	if !h.v2 {
		return nil
	}
	for _, dir := range []string{mountPointOf(h), filepath.Join(mountPointOf(h), parent)} {
		var want []string
		have := words(dir, "cgroup.subtree_control")
		for _, c := range controllers {
			if h.roots[c] != "" && !slices.Contains(have, string(c)) {
				want = append(want, "+"+string(c))
			}
		}
		if want == nil {
			continue
		}
		if err := write(filepath.Join(dir, "cgroup.subtree_control"), strings.Join(want, " ")); err != nil {
			return fault.Wrap(err, "enable control group controllers",
				"check that "+dir+" has no processes of its own and that its controllers are delegated")
		}
	}
	return nil
}

func mountPointOf(h *Host) string {
	for _, root := range h.roots {
		return root
	}
	return mountPoint
}
