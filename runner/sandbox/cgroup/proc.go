package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

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
