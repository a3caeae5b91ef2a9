package compose

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/aymanbagabas/go-udiff"

	"github.com/quavon/quavon/installer/phase"
	"github.com/quavon/quavon/installer/regular"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/templates"
)

// ownFile refuses to write over a compose file of somebody else's.
func (s *services) ownFile() error {
	path := s.Target.Compose()
	now, err := regular.ReadFile(path, maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	first, _, _ := strings.Cut(templates.Compose, "\n")
	if err == nil && !strings.HasPrefix(string(now), first) {
		return fault.New(path+" was not written by `quavon install`, which would write over it",
			"use --dir with another directory; or move it away, and what belongs to these services into "+overrides[0])
	}
	return err
}

func fileChange(path string, now []byte, show bool) []phase.Change {
	before, err := os.ReadFile(path)
	c := phase.Change{Action: phase.Edit, Target: path, Summary: "bring up to date"}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		c.Action, c.Summary = phase.Create, "write"
	case string(before) == string(now):
		return nil
	}
	if show {
		c.Diff = udiff.Unified("before", "after", string(before), string(now))
	}
	return []phase.Change{c}
}

// write puts the files in place, owned by who reads them in the containers.
func (s *services) write(tx phase.Tx, w *wanted) error {
	dir := filepath.Join(s.Target.Dir, runDir)
	// The upper one keeps others out, whoever Owner is on this host.
	if err := errors.Join(tx.MkdirAll(filepath.Dir(dir), 0o700), tx.MkdirAll(dir, 0o700)); err != nil {
		return err
	}
	if err := tx.WriteFile(s.secret(usersFile), w.users, 0o600); err != nil {
		return err
	}
	own := []string{dir}
	for _, name := range slices.Sorted(maps.Keys(mounted)) {
		own = append(own, s.secret(name))
	}
	for _, path := range own {
		if err := giveTo(tx, path); err != nil {
			return err
		}
	}
	return tx.WriteFile(s.Target.Compose(), w.compose, 0o644)
}
