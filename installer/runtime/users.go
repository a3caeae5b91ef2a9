package runtime

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/renameio/v2"

	"github.com/quavon/quavon/installer/daemonjson"
	"github.com/quavon/quavon/installer/phase"
	"github.com/quavon/quavon/installer/regular"
	"github.com/quavon/quavon/runner/fault"
)

// Several installations of a host may have one directory for gVisor, as those of two engines
// do. Each notes there that it uses it. An uninstall leaves what others use and notes that it
// was left, so that the last of them takes it away.

// Files below gVisor's directory.
const (
	usersDir = "users"
	leftFile = "left"
)

// user is an installation that uses gVisor, by the engine with that daemon.json.
type user struct {
	Dir        string `json:"dir"`
	DaemonJSON string `json:"daemonJSON"`
}

// left is what an uninstall has left to others: the programs, and entries in these files.
type left struct {
	DaemonJSON []string `json:"daemonJSON"`
}

// maxUser bounds such a file, in bytes.
const maxUser = 64 << 10

func (u user) file(lib string) string {
	sum := sha256.Sum256([]byte(u.Dir))
	return filepath.Join(lib, usersDir, hex.EncodeToString(sum[:8])+".json")
}

// noted says that the user is noted as it is.
func (u user) noted(lib string) bool {
	var now user
	return readNote(u.file(lib), &now) == nil && now == u
}

// note writes the user down.
func (u user) note(lib string) error { return writeNote(u.file(lib), u) }

func readNote(path string, into any) error {
	data, err := regular.ReadFile(path, maxUser)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fault.Wrap(err, "read who uses gVisor, "+path,
			"remove it; the installation that it was of notes itself again by `quavon install`")
	}
	return nil
}

func writeNote(path string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return renameio.WriteFile(path, append(data, '\n'), 0o644)
}

// usersOf are the installations that use gVisor there, besides the one in dir. A note whose
// installation is gone, or was moved, is none.
func usersOf(lib, dir string) (all []user, err error) {
	paths, err := filepath.Glob(filepath.Join(escaped(lib), usersDir, "*.json"))
	for _, path := range paths {
		var u user
		switch err := readNote(path, &u); {
		case errors.Is(err, fs.ErrNotExist):
			continue // it was just being uninstalled
		case err != nil:
			return nil, err
		}
		if phase.Installed(u.Dir) && !phase.SameFile(u.Dir, dir) {
			all = append(all, u)
		}
	}
	return all, err
}

var glob = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`)

func escaped(path string) string { return glob.Replace(path) }

// of says that a user's engine has that daemon.json.
func (u user) of(path string) bool { return phase.SameFile(u.DaemonJSON, path) }

// Shared is another installation that needs what one in dir has written at a path, which is
// the link to gVisor or a daemon.json; "" for none.
func Shared(dir, path string) (string, error) {
	lib, needs := filepath.Dir(path), func(user) bool { return true }
	if filepath.Base(path) != linkName {
		if lib = libOf(path); lib == "" {
			return "", nil
		}
		needs = func(u user) bool { return u.of(path) }
	}
	all, err := usersOf(lib, dir)
	if i := slices.IndexFunc(all, needs); i >= 0 {
		return all[i].Dir, err
	}
	return "", err
}

// libOf is the directory of the gVisor that a daemon.json registers, "" for none of ours.
func libOf(path string) string {
	if filepath.Ext(path) != ".json" {
		return ""
	}
	data, err := regular.ReadFile(path, maxFile)
	if err != nil {
		return ""
	}
	f, err := daemonjson.Parse(data)
	if err != nil {
		return ""
	}
	var e registered
	raw, there := f.Runtime(Name)
	if !there || json.Unmarshal(raw, &e) != nil || filepath.Base(filepath.Dir(e.Path)) != linkName {
		return ""
	}
	return filepath.Dir(filepath.Dir(e.Path))
}

// leaveTo notes that others have what an uninstall leaves of a directory of gVisor's.
func leaveTo(lib string, daemonJSON ...string) error {
	var l left
	path := filepath.Join(lib, usersDir, leftFile)
	if err := readNote(path, &l); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	l.DaemonJSON = slices.Compact(slices.Sorted(slices.Values(append(l.DaemonJSON, daemonJSON...))))
	return writeNote(path, l)
}

// resign takes the installation's note away. The last one also removes what those before
// have left to it.
func (r *Runtime) resign(ctx context.Context, act phase.Act, show phase.Reporter) error {
	lib := act.Key
	own, notes := user{Dir: act.Data["dir"]}.file(lib), filepath.Join(lib, usersDir)
	others, err := usersOf(lib, r.Target.Dir)
	if err != nil {
		return err
	}
	var l left
	leftErr := readNote(filepath.Join(notes, leftFile), &l)
	if leftErr != nil && !errors.Is(leftErr, fs.ErrNotExist) {
		return leftErr
	}
	for _, path := range l.DaemonJSON {
		if slices.ContainsFunc(others, func(u user) bool { return u.of(path) }) {
			continue
		}
		if err := r.takeOut(ctx, lib, path, show); err != nil {
			return err
		}
	}
	if len(others) > 0 {
		return removed(own)
	}
	if leftErr == nil {
		if err := removePrograms(lib); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(notes); err != nil { // with those of installations that are gone
		return err
	}
	if leftErr == nil {
		_ = os.Remove(lib) // there may be more in it, which isn't ours
	}
	return nil
}

// removePrograms removes all versions of gVisor, and the link to one.
func removePrograms(lib string) error {
	if err := removed(filepath.Join(lib, linkName)); err != nil {
		return err
	}
	versions, err := filepath.Glob(filepath.Join(escaped(lib), linkName+"-*"))
	for _, path := range versions {
		err = errors.Join(err, os.RemoveAll(path))
	}
	return err
}

func removed(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
