package cgroup

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/quavon/quavon/runner/fault"
)

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

// Abandoned lists the groups that have existed for some time without a process.
// Those of sandboxes that are starting are younger.
func (h *Host) Abandoned(age time.Duration) []string {
	var ids []string
	for _, dir := range h.dirs("") {
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue
		}
		for _, e := range entries {
			info, err := e.Info()
			if err != nil || !e.IsDir() || time.Since(info.ModTime()) < age || slices.Contains(ids, e.Name()) {
				continue
			}
			if pids, err := h.Group(e.Name()).Procs(); err == nil && len(pids) == 0 {
				ids = append(ids, e.Name())
			}
		}
	}
	return ids
}

// enable passes version 2's controllers down to the sandboxes' groups. Writing
// what is already enabled changes nothing.
func (h *Host) enable() error {
	if !h.v2 {
		return nil
	}
	if h.delegated != "" {
		if err := vacate(h.delegated); err != nil {
			return fault.Wrap(err, "move this service's processes in "+h.delegated, "set Delegate=yes for the service's unit")
		}
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
