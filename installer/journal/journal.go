// Package journal keeps what an installation has done, so that it can be taken back:
// when a phase fails, after its process was killed, and when everything is uninstalled.
//
// Below its directory are
//
//	lock              held while an installer runs
//	state.json        what stands: phases that are done, and every step that made it so
//	phase.json        the steps that are under way; there only meanwhile
//	backups/          what was in files before, by digest
//	kept/             files of others that could not be put back where they were
//	generations/      the files of installations that succeeded
//
// A step is noted in phase.json, on disk, before it is made. When the phase is done its
// steps move into state.json, in one rename.
package journal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/gofrs/flock"
	"golang.org/x/sys/unix"

	"github.com/quavon/quavon/installer/phase"
	"github.com/quavon/quavon/runner/fault"
)

// Schema is the version of the files' form.
const Schema = 1

// Options are what a journal needs of others.
type Options struct {
	// Dir is the installer's own directory.
	Dir string
	// Version is the program's, written down for those who read the files.
	Version string
	// Revert returns a function that takes a change out of a file that somebody else
	// has changed since, nil for files that only can be put back whole.
	Revert func(path string) Revert
	// Data says that a file is worth as much as the operator's data and is left by an
	// uninstall without purge.
	Data func(path string) bool
	// Shared is another installation that needs what is at a path, "" for none: an uninstall
	// leaves it there. nil where nothing is shared.
	Shared func(path string) (string, error)
	// Undo takes back an act.
	Undo func(ctx context.Context, name string, act phase.Act, how phase.How) error
	// Hook is called between steps, with their names; for tests.
	Hook func(string)
}

// Revert is now without what changed between before and after. before is nil for a file
// that wasn't there; a nil next means that nothing is left. ok is false when it can't be
// told apart any more; an error when it must not be, until somebody has done something.
type Revert func(before, after, now []byte) (next []byte, ok bool, err error)

// Journal is an installation's. One process has it at a time.
type Journal struct {
	Options
	state state
	lock  *flock.Flock
}

// state is state.json.
type state struct {
	Schema int `json:"schema"`
	// Version is of the program that wrote last.
	Version string `json:"version"`
	// Seq is the number of the last phase that was committed.
	Seq        int             `json:"seq"`
	Phases     map[string]Done `json:"phases"`
	Generation int             `json:"generation,omitempty"`
	// MadeDir says that the directory above the journal's was made for it, MadeDirs how
	// many above were.
	MadeDir  bool     `json:"madeDir,omitempty"`
	MadeDirs int      `json:"madeDirs,omitempty"`
	Owned    []Record `json:"owned"`
}

// Done is a phase that stands.
type Done struct {
	At      time.Time `json:"at"`
	Version string    `json:"version"`
}

const (
	lockName, stateName, pendingName = "lock", "state.json", "phase.json"
	backupDir, keptDir               = "backups", "kept"
)

// Exists says whether anything was begun here.
func Exists(o Options) bool { return exists(o.Dir) }

func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// Open takes the lock and reads the state. Close releases it.
func Open(o Options) (*Journal, error) {
	j := &Journal{Options: o}
	if err := j.take(); err != nil {
		return nil, err
	}
	var err error
	if j.state, err = readState(o.Dir); err == nil {
		err = Sweep(o)
	}
	if err != nil {
		_ = j.lock.Unlock() // the first error counts
		return nil, err
	}
	return j, nil
}

// Peek reads the state without a lock, for those who only look; there may be none.
func Peek(o Options) (*Journal, error) {
	s, err := readState(o.Dir)
	return &Journal{Options: o, state: s}, err
}

// Close releases the lock.
func (j *Journal) Close() error {
	if j.lock == nil {
		return nil
	}
	return j.lock.Close()
}

func (j *Journal) point(name string) {
	if j.Hook != nil {
		j.Hook(name)
	}
}

// Done says since when a phase stands.
func (j *Journal) Done(name string) (Done, bool) {
	d, ok := j.state.Phases[name]
	return d, ok
}

// Keys are those of a phase's acts of a name, of what stands and of what was under way.
func (j *Journal) Keys(phase, name string) (all []string, err error) {
	p, err := j.pending()
	for _, r := range slices.Concat(j.state.Owned, p.Records) {
		if r.Kind == kindAct && r.Phase == phase && r.Act.Name == name {
			all = append(all, r.Act.Key)
		}
	}
	return all, err
}

// Installed says that phases stand: an uninstall leaves none, though it may leave data.
func (j *Journal) Installed() bool { return len(j.state.Phases) > 0 }

// Empty says that nothing stands.
func (j *Journal) Empty() bool { return len(j.state.Phases) == 0 && len(j.state.Owned) == 0 }

func readState(dir string) (s state, err error) {
	path := filepath.Join(dir, stateName)
	err = readJSON(path, &s)
	if errors.Is(err, fs.ErrNotExist) {
		return state{Schema: Schema, Phases: map[string]Done{}}, nil
	}
	if err == nil {
		err = errors.Join(known(s.Schema, s.Version), sound(s.Owned))
	}
	if err != nil {
		return s, fault.Wrap(err, "read what is installed, "+path,
			"use the quavon that wrote it; or move the file away: what is installed is then taken for the operator's")
	}
	if s.Phases == nil {
		s.Phases = map[string]Done{}
	}
	return s, nil
}

func known(schema int, version string) error {
	if schema < 1 || schema > Schema {
		return fmt.Errorf("it has form %d of quavon %q, and this quavon knows forms 1 to %d", schema, version, Schema)
	}
	return nil
}

func readJSON(path string, into any) error {
	l, err := read(path)
	if err != nil {
		return err
	}
	if !l.Existed {
		return &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
	}
	return json.Unmarshal(l.data, into)
}

// save writes one of the journal's own files.
func (j *Journal) save(name string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	own := look{Mode: 0o600, UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}
	return j.replace(filepath.Join(j.Dir, name), append(data, '\n'), own)
}

func (j *Journal) saveState() error {
	j.state.Schema, j.state.Version = Schema, j.Version
	return j.save(stateName, j.state)
}

// Leave removes the journal's directory when nothing stands any more and nothing of
// others is kept in it.
func (j *Journal) Leave() error {
	if !j.Empty() {
		return nil
	}
	if kept, err := os.ReadDir(filepath.Join(j.Dir, keptDir)); err == nil && len(kept) > 0 {
		return nil
	}
	for _, name := range []string{stateName, pendingName, backupDir, generationDir, keptDir, lockName} {
		path := filepath.Join(j.Dir, name)
		if err := errors.Join(os.RemoveAll(temporary(path)), os.RemoveAll(path)); err != nil { // a killed process leaves the first
			return err
		}
	}
	made := j.state.MadeDirs
	if made == 0 && j.state.MadeDir {
		made = 1
	}
	if err := remove(j.Dir); errors.Is(err, unix.ENOTEMPTY) && exists(filepath.Join(j.Dir, lockName)) {
		return nil // another has begun here
	} else if err != nil {
		return err
	}
	for dir := filepath.Dir(j.Dir); made > 0; made-- {
		if err := remove(dir); errors.Is(err, unix.ENOTEMPTY) {
			return nil // others have put something there
		} else if err != nil {
			return err
		}
		dir = filepath.Dir(dir)
	}
	return nil
}
