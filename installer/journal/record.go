package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/quavon/quavon/installer/phase"
	"github.com/quavon/quavon/runner/disk"
)

// Kinds of steps.
const (
	kindFile = "file"
	kindDir  = "dir"
	kindLink = "link"
	kindAct  = "act"
)

// Record is one step, with what is needed to take it back.
type Record struct {
	Phase string `json:"phase"`
	Kind  string `json:"kind"`
	Path  string `json:"path,omitempty"`
	// Before and After are a file; After is empty for one that was removed.
	Before look `json:"before,omitzero"`
	After  look `json:"after,omitzero"`
	// Was and Is are what a link points at, "" for no link.
	Was string     `json:"was,omitempty"`
	Is  string     `json:"is,omitempty"`
	Act *phase.Act `json:"act,omitempty"`
	// Left says that an uninstall took the act back but for what it keeps.
	Left bool `json:"left,omitempty"`
}

// sound refuses steps that no journal has written, as a damaged disk shows them: they say
// what is removed.
func sound(records []Record) error {
	for _, r := range records {
		switch r.Kind {
		case kindAct:
			if r.Act == nil {
				return errors.New("it has an act that isn't there")
			}
		case kindFile, kindDir, kindLink:
			if !filepath.IsAbs(r.Path) {
				return fmt.Errorf("it has a step of the path %q", r.Path)
			}
		default:
			return fmt.Errorf("it has a step of the kind %q", r.Kind)
		}
	}
	return nil
}

// pending is phase.json.
type pending struct {
	Schema  int    `json:"schema"`
	Version string `json:"version"`
	Seq     int    `json:"seq"`
	// Phases are those that were entered; they are done together or not at all.
	Phases  []string `json:"phases"`
	Records []Record `json:"records"`
}

// Tx are the steps of one phase, or of several, that are under way.
type Tx struct {
	j *Journal
	p pending
}

var _ phase.Tx = (*Tx)(nil)

// Begin begins steps that stand together. Enter says whose they are.
func (j *Journal) Begin() *Tx {
	return &Tx{j: j, p: pending{Schema: Schema, Version: j.Version, Seq: j.state.Seq + 1}}
}

// Enter makes what follows steps of a phase.
func (t *Tx) Enter(name string) error {
	t.p.Phases = append(t.p.Phases, name)
	t.j.point("enter " + name)
	return t.j.save(pendingName, t.p)
}

// Steps is how many steps were made.
func (t *Tx) Steps() int { return len(t.p.Records) }

// note writes a step down before it is made.
func (t *Tx) note(r Record) error {
	r.Phase = t.p.Phases[len(t.p.Phases)-1]
	t.p.Records = append(t.p.Records, r)
	if err := t.j.save(pendingName, t.p); err != nil {
		t.p.Records = t.p.Records[:len(t.p.Records)-1]
		return err
	}
	t.j.point("noted " + r.Kind + " " + r.Path)
	return nil
}

// WriteFile implements phase.Tx.
func (t *Tx) WriteFile(path string, data []byte, mode fs.FileMode) error {
	path, err := resolve(path)
	if err != nil {
		return err
	}
	before, err := read(path)
	if err != nil {
		return err
	}
	after := look{Existed: true, Mode: mode, UID: uint32(os.Geteuid()), GID: uint32(os.Getegid()), Contents: digest(data)}
	if before.Existed {
		after.Mode, after.UID, after.GID = before.Mode, before.UID, before.GID
		if before.Contents == after.Contents {
			return nil
		}
	}
	if err := t.keep(path, before, data); err != nil {
		return err
	}
	if err := t.note(Record{Kind: kindFile, Path: path, Before: before, After: after}); err != nil {
		return err
	}
	return t.j.replace(path, data, after)
}

// keep puts into the backups what was in a file, and what will be where that is needed
// to tell later what others have changed.
func (t *Tx) keep(path string, before look, after []byte) error {
	if before.Existed {
		if err := t.j.backup(before.data); err != nil {
			return err
		}
	}
	if t.j.reverter(path) != nil && after != nil {
		return t.j.backup(after)
	}
	return nil
}

// Remove implements phase.Tx.
func (t *Tx) Remove(path string) error {
	path, err := resolve(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	before, err := read(path)
	if err != nil || !before.Existed {
		return err
	}
	if err := t.keep(path, before, nil); err != nil {
		return err
	}
	if err := t.note(Record{Kind: kindFile, Path: path, Before: before}); err != nil {
		return err
	}
	return remove(path)
}

// MkdirAll implements phase.Tx.
func (t *Tx) MkdirAll(path string, mode fs.FileMode) error {
	info, err := os.Stat(path)
	if err == nil && !info.IsDir() {
		return &fs.PathError{Op: "mkdir", Path: path, Err: errors.New("it is no directory")}
	}
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := t.MkdirAll(filepath.Dir(path), mode); err != nil {
		return err
	}
	if err := t.note(Record{Kind: kindDir, Path: path}); err != nil {
		return err
	}
	if err := os.Mkdir(path, mode); err != nil {
		return err
	}
	if err := os.Chmod(path, mode); err != nil { // whatever the umask
		return err
	}
	return disk.SyncDir(filepath.Dir(path))
}

// Symlink implements phase.Tx.
func (t *Tx) Symlink(target, path string) error {
	was, err := linkAt(path)
	if err != nil || was == target {
		return err
	}
	if err := t.note(Record{Kind: kindLink, Path: path, Was: was, Is: target}); err != nil {
		return err
	}
	return t.j.link(target, path)
}

// Act implements phase.Tx.
func (t *Tx) Act(act phase.Act, do func() error) error {
	if err := t.note(Record{Kind: kindAct, Act: &act}); err != nil {
		return err
	}
	return do()
}

// linkAt is what the link at path points at, "" when there is nothing.
func linkAt(path string) (string, error) {
	target, err := os.Readlink(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return target, err
}

// link makes a link point elsewhere in one step.
func (j *Journal) link(target, path string) error {
	tmp := temporary(path)
	if err := remove(tmp); err != nil {
		return err
	}
	if err := os.Symlink(target, tmp); err != nil {
		return err
	}
	j.point("rename " + path)
	if err := os.Rename(tmp, path); err != nil {
		_ = os.Remove(tmp) // the first error counts
		return err
	}
	return disk.SyncDir(filepath.Dir(path))
}
