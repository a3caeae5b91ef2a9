// Package workspace takes what a job did to files back to the host: the list of
// changes, a git patch, changed files written to a host directory, and collected
// files. All of it comes from the guest and is hostile: streams are bounded and
// checked before anything is done with them, content waits in an unlinked spool
// file, and host directories are written to below an os.Root, never through
// symbolic links.
package workspace

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/quavon/quavon/runner/job"
)

// Limits bound what is taken from a guest: Bytes the content of all files
// together, Entries their number, directories and links included.
type Limits struct {
	Bytes   int64
	Entries int
}

// Mode is git's mode of a tree entry.
type Mode uint32

// The modes that changes can have; git has no other permissions than "may be
// executed".
const (
	ModeFile Mode = 0o100644
	ModeExec Mode = 0o100755
	ModeLink Mode = 0o120000
	ModeDir  Mode = 0o040000
)

func (m Mode) isFile() bool { return m == ModeFile || m == ModeExec }

// modeOf is git's mode of a host file; ok is false for special files.
func modeOf(fi fs.FileInfo) (m Mode, ok bool) {
	switch t := fi.Mode(); {
	case t.IsDir():
		return ModeDir, true
	case t&fs.ModeSymlink != 0:
		return ModeLink, true
	case !t.IsRegular():
		return 0, false
	case t&0o100 != 0:
		return ModeExec, true
	}
	return ModeFile, true
}

// Entry is one changed path.
type Entry struct {
	// Path is relative, clean, and any bytes but NUL.
	Path string
	Kind job.ChangeKind
	// Mode is what the path is now, or was when it is deleted.
	Mode Mode
	// Perm and ModTime are as the job left them.
	Perm    fs.FileMode
	ModTime time.Time
	// Old is what the path was; its Mode is 0 when it was not there.
	Old Old

	content blob // of files and links that are there
}

// Old identifies what the job was given.
type Old struct {
	Mode   Mode
	Size   int64
	SHA256 [32]byte
}

// key sorts entries as the stream does, and tells "a" from "a/".
func (e *Entry) key() string {
	if e.Mode == ModeDir {
		return e.Path + "/"
	}
	return e.Path
}

// Base is the host directory that the job was given a view of.
type Base struct {
	Dir string
	// Shown is the directory that the job was given, as os.Stat told before its
	// start: another one in its place isn't written to. Nil isn't compared.
	Shown fs.FileInfo
	// Since is when the job was started: what changed on the host after it is
	// not what the job saw.
	Since time.Time
	// Protect lists relative paths that take no changes, with all below them.
	Protect []string
	// RepoPath is where Dir lies in its repository, "" or with a "/" behind, for
	// a directory that is a copy; nil looks for it on this host.
	RepoPath *string
}

// Skip is a path that was left out, and why.
type Skip struct {
	Path string `json:"path"`
	Why  string `json:"why"`
}

// summary names a few paths for an error message.
func summary(list []Skip) string {
	var b strings.Builder
	for i, s := range list {
		if i == 3 {
			fmt.Fprintf(&b, " and %d more", len(list)-i)
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%s %s", quotePath(s.Path), s.Why)
	}
	return b.String()
}

// Leave drops a path from the changes, with all below it.
func (d *Diff) Leave(path string) {
	d.Entries = slices.DeleteFunc(d.Entries, func(e Entry) bool { return e.Path == path || strings.HasPrefix(e.Path, path+"/") })
}

// errNoContent is a mistake of the caller, not of the job.
var errNoContent = errors.New("changes were taken without content")

// Changes lists what changed, sorted by path. A directory that is new or gone
// is listed, with a "/" behind it, only when nothing below it is.
func (d *Diff) Changes() []job.Change {
	list := make([]job.Change, 0, len(d.Entries))
	for i, e := range d.Entries {
		if e.Mode == ModeDir && i+1 < len(d.Entries) && strings.HasPrefix(d.Entries[i+1].Path, e.key()) {
			continue
		}
		list = append(list, job.Change{Path: e.key(), Kind: e.Kind})
	}
	slices.SortFunc(list, func(a, b job.Change) int { return strings.Compare(a.Path, b.Path) })
	return list
}
