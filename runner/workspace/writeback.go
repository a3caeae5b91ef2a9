package workspace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/job"
)

// Report is what WriteBack did.
type Report struct {
	Written []job.Change `json:"written,omitempty"`
	// Skipped lists paths that are never written, such as .git.
	Skipped []Skip `json:"skipped,omitempty"`
	// Conflicts lists paths that are no longer what the job was given.
	Conflicts []Skip `json:"conflicts,omitempty"`
}

// WriteBack applies the changes to the base directory. Everything is checked
// first; a conflict means that nothing is written, unless keepConflicts says to
// leave just those paths as the host has them, as is right for caches. Then all
// new content is brought to the directory's file system and put in place by
// renames, which are undone when one fails. Symbolic links are never followed,
// setuid, setgid and sticky bits not taken over, and new files belong to the
// directory's owner.
func (d *Diff) WriteBack(ctx context.Context, b Base, keepConflicts bool) (Report, error) {
	if !d.Content {
		return Report{}, errNoContent
	}
	h, err := openHost(b)
	if err != nil {
		return Report{}, fault.Wrap(err, "open the workspace", "check that "+b.Dir+" is there and can be written to")
	}
	defer h.Close()
	unlock, err := h.lock()
	if err != nil {
		return Report{}, err
	}
	defer unlock()
	p := newPlan(h, b)
	if err := p.check(ctx, d.Entries); err != nil {
		return p.report, fault.Wrap(err, "compare with the workspace", "nothing was written; check that all of "+b.Dir+" can be read")
	}
	if p.report.Conflicts != nil && !keepConflicts {
		return p.report, fault.New("the workspace changed while the job ran: "+summary(p.report.Conflicts),
			"nothing was written; run the job again, or take its changes with --collect")
	}
	if err := p.apply(ctx); err != nil {
		return p.report, fault.Wrap(err, "write to the workspace",
			"what was written was taken back; check the room and the permissions in "+b.Dir)
	}
	p.report.Written = (&Diff{Entries: p.accepted()}).Changes()
	return p.report, nil
}

// lock keeps other write-backs out of the directory and removes what a killed
// one left, if that was only preparing.
func (h *host) lock() (unlock func(), err error) {
	dir, err := h.root.Open(".")
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(fault.Wrap(err, "write to "+h.root.Name(), "another quavon is writing there: try again"), dir.Close())
	}
	unlock = func() {
		_ = unix.Flock(int(dir.Fd()), unix.LOCK_UN) // also for processes that are being started, which have it too
		dir.Close()
	}
	names, err := dir.Readdirnames(-1)
	for _, name := range names {
		if err == nil && strings.HasPrefix(name, stagePrefix) && h.isStage(name) {
			err = h.removeStale(name)
		}
	}
	if err != nil {
		unlock()
		return nil, err
	}
	return unlock, nil
}

// isStage tells a directory that a write-back has made from one that only has
// such a name, which a checkout may: no checkout makes a directory private.
func (h *host) isStage(name string) bool {
	fi, err := h.root.Lstat(name)
	return err == nil && fi.IsDir() && fi.Mode().Perm() == 0o700 && int(stat(fi).Uid) == os.Geteuid()
}

// removeStale removes an interrupted write-back's directory. One that holds
// the user's own files, moved there to be replaced, is left to the user.
func (h *host) removeStale(name string) error {
	dir, err := h.root.OpenRoot(name)
	if err != nil {
		return err
	}
	defer dir.Close()
	if _, err := dir.Lstat(oldDir); err == nil {
		return fault.New("an earlier write-back was interrupted while it replaced files",
			fmt.Sprintf("%s/%s/%s holds what it had replaced: move back what you need, then remove %s", h.root.Name(), name, oldDir, name))
	}
	return h.root.RemoveAll(name)
}

// accessible says whether this process may replace entries of a directory.
func accessible(dir *os.Root) error {
	f, err := dir.Open(".")
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Faccessat(int(f.Fd()), ".", unix.W_OK|unix.X_OK, unix.AT_EACCESS)
}
