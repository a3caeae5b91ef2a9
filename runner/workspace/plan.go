package workspace

import (
	"context"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/quavon/quavon/runner/job"
)

// plan is what a write-back will do: what it takes away, then what it makes.
type plan struct {
	host   *host
	base   Base
	report Report
	// gone holds the keys of accepted deletions.
	gone    map[string]bool
	removes []step // deepest first
	makes   []step // in order
}

// step is one accepted change.
type step struct {
	*Entry
	// was is the host's file that is replaced or removed.
	was fs.FileInfo
}

func newPlan(h *host, b Base) *plan { return &plan{host: h, base: b, gone: map[string]bool{}} }

// check sorts all changes into accepted ones, skipped ones and conflicts:
// deletions first, from the leaves, as what is made may need their place.
func (p *plan) check(ctx context.Context, entries []Entry) error {
	for i := range entries {
		if e := &entries[len(entries)-1-i]; e.Kind == job.Deleted {
			if err := p.one(ctx, e, p.checkRemove); err != nil {
				return err
			}
		}
	}
	for i := range entries {
		if e := &entries[i]; e.Kind != job.Deleted {
			if err := p.one(ctx, e, p.checkMake); err != nil {
				return err
			}
		}
	}
	byPath := func(a, b Skip) int { return strings.Compare(a.Path, b.Path) }
	slices.SortFunc(p.report.Skipped, byPath)
	slices.SortFunc(p.report.Conflicts, byPath)
	return nil
}

// one decides on one change with the check for its kind.
func (p *plan) one(ctx context.Context, e *Entry, check func(found, *Entry) (string, error)) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if why := p.base.barred(e); why != "" {
		p.report.Skipped = append(p.report.Skipped, Skip{e.key(), why})
		return nil
	}
	f, err := p.host.find(e.Path)
	if err != nil {
		return wrap(e.Path, err)
	}
	defer f.Close()
	why, err := p.writable(f)
	if err == nil && why == "" {
		why, err = check(f, e)
	}
	switch {
	case err != nil:
		return wrap(e.Path, err)
	case why == whyNotEmpty:
		p.report.Skipped = append(p.report.Skipped, Skip{e.key(), why})
	case why != "":
		p.report.Conflicts = append(p.report.Conflicts, Skip{e.key(), why})
	default:
		p.accept(e, f.fi)
	}
	return nil
}

func (p *plan) accept(e *Entry, fi fs.FileInfo) {
	switch e.Kind {
	case job.Deleted:
		p.gone[e.key()] = true
		p.removes = append(p.removes, step{e, fi})
	case job.Modified:
		p.makes = append(p.makes, step{e, fi})
	default:
		p.makes = append(p.makes, step{e, nil})
	}
}

// writable says whether renames to where the path leads can work.
func (p *plan) writable(f found) (why string, err error) {
	self, err := f.dir.Stat(".")
	if err == nil && device(self) != device(p.host.self) {
		return whyOtherDisk, nil
	}
	if err == nil {
		err = accessible(f.dir)
	}
	return "", err
}

// checkRemove accepts a file that is still what the job was given, or a
// directory of which nothing stays.
func (p *plan) checkRemove(f found, e *Entry) (why string, err error) {
	switch {
	case e.Mode != ModeDir:
		return p.host.verify(f, e, io.Discard)
	case f.fi == nil:
		return whyGone, nil
	case f.stop != e.Path || !f.fi.IsDir():
		return whyNotDir, nil
	}
	d, err := f.dir.Open(f.fi.Name())
	if err != nil {
		return "", err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	for _, name := range names {
		if sub := e.Path + "/" + name; !p.gone[sub] && !p.gone[sub+"/"] {
			why = whyNotEmpty
		}
	}
	return why, err
}

// checkMake accepts a path where the host has nothing, or what is accepted to
// be removed, or the unchanged file that is replaced.
func (p *plan) checkMake(f found, e *Entry) (why string, err error) {
	isDir := f.fi != nil && f.fi.IsDir()
	switch {
	case f.fi == nil && e.Kind == job.Modified:
		return whyGone, nil
	case f.fi == nil:
	case f.stop != e.Path:
		if !p.gone[f.stop] {
			why = whyNotDir
		}
	case e.Kind == job.Modified:
		return p.host.verify(f, e, io.Discard)
	case e.Mode == ModeDir && !isDir && !p.gone[e.Path],
		e.Mode != ModeDir && (!isDir || !p.gone[e.Path+"/"]):
		why = whyThere
	}
	return why, nil
}

// accepted lists what is written, sorted as the stream was.
func (p *plan) accepted() []Entry {
	var list []Entry
	for _, s := range slices.Concat(p.removes, p.makes) {
		list = append(list, *s.Entry)
	}
	slices.SortFunc(list, func(a, b Entry) int { return strings.Compare(a.key(), b.key()) })
	return list
}
