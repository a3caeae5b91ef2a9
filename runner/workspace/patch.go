package workspace

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/job"
)

const (
	// maxText is the size, in bytes, from which on content is written as binary.
	maxText = 1 << 20
	// maxPatch is the longest patch that git apply takes.
	maxPatch = 1023 << 20
	// maxBase bounds the old content that is copied to compare with, in bytes.
	maxBase = 4 << 30
)

// Patch writes the changes as a patch that git apply takes, in both directions:
// text as hunks, everything else as git's binary form. Directories alone are
// nothing to git. Old content is read from the base; when that is no longer
// what the job was given, nothing can be said and the error names the paths.
// Paths are relative to the top of the repository that the base lies in, as in
// all git patches. The list tells what was left out because git refuses it.
func (d *Diff) Patch(ctx context.Context, w io.Writer, b Base) ([]Skip, error) {
	if !d.Content {
		return nil, errNoContent
	}
	h, err := openHost(b)
	if err != nil {
		return nil, fault.Wrap(err, "read the workspace", "check that "+b.Dir+" is there and can be read")
	}
	defer h.Close()
	changes, skipped, err := d.compare(ctx, h, b)
	if err != nil {
		return skipped, err
	}
	out := bufio.NewWriterSize(&limitedWriter{w, maxPatch}, 64<<10)
	prefix := b.prefix()
	for _, c := range changes {
		c.path = prefix + c.path
		if ctx.Err() != nil {
			return skipped, context.Cause(ctx)
		}
		if err := c.write(out); err != nil {
			return skipped, fault.Wrap(err, "write the patch", "take the files themselves with --collect GLOB")
		}
	}
	if err := out.Flush(); err != nil {
		return skipped, fault.Wrap(err, "write the patch",
			"check that there is room and the file can be written, or take the files themselves with --collect GLOB")
	}
	return skipped, nil
}

// PatchFile writes the patch to a file that is there complete or not at all. A
// path that is a pipe or a device is written to as it stands.
func (d *Diff) PatchFile(ctx context.Context, path string, b Base) (skipped []Skip, err error) {
	err = WriteFile(path, func(w io.Writer) (err error) {
		skipped, err = d.Patch(ctx, w, b)
		return err
	})
	if err != nil && fault.Hint(err) == "" {
		err = fault.Wrap(err, "write the patch", "name another file with --patch")
	}
	return skipped, err
}

// fileChange is one file's way from old to new.
type fileChange struct {
	path          string
	before, after side
}

// compare pairs each changed file with what the host has for it.
func (d *Diff) compare(ctx context.Context, h *host, b Base) (list []fileChange, skipped []Skip, err error) {
	var lost []Skip
	for i := range d.Entries {
		e := &d.Entries[i]
		if ctx.Err() != nil {
			return nil, nil, context.Cause(ctx)
		}
		if e.Mode == ModeDir {
			continue
		}
		if why := b.barred(e); why != "" {
			skipped = append(skipped, Skip{e.Path, why})
			continue
		}
		old, why, err := d.before(h, e)
		if err != nil {
			return nil, nil, fault.Wrap(err, "read "+quotePath(e.Path)+" in the workspace",
				"check that it can be read, and run the job again")
		}
		if why != "" {
			lost = append(lost, Skip{e.Path, why})
			continue
		}
		c := fileChange{path: e.Path, before: old}
		if e.Kind != job.Deleted {
			c.after = side{e.Mode, e.content}
		}
		list = append(list, c)
	}
	if lost != nil {
		return nil, skipped, fault.New("the workspace changed while the job ran: "+summary(lost),
			"run the job again; --collect GLOB takes files as the job left them")
	}
	return list, skipped, nil
}

// before is what the host has in place of a change, copied to the spool so that
// it can't change any more.
func (d *Diff) before(h *host, e *Entry) (side, string, error) {
	f, err := h.find(e.Path)
	if err != nil {
		return side{}, "", err
	}
	defer f.Close()
	if e.Kind == job.Added {
		if f.fi != nil && f.stop == e.Path && !f.fi.IsDir() {
			return side{}, whyThere, nil
		}
		return side{}, "", nil
	}
	if h.copied += e.Old.Size; h.copied > maxBase {
		return side{}, "", fmt.Errorf("more than %d GiB were changed or deleted", maxBase>>30)
	}
	start := d.spool.end
	why, err := h.verify(f, e, d.spool)
	return side{e.Old.Mode, d.spool.since(start)}, why, err
}

// write renders one change. A change of type is, for git, a deletion and a
// creation.
func (c fileChange) write(w *bufio.Writer) error {
	if c.before.mode != 0 && c.after.mode != 0 && c.before.mode.isFile() != c.after.mode.isFile() {
		gone := fileChange{path: c.path, before: c.before}
		made := fileChange{path: c.path, after: c.after}
		return errors.Join(gone.write(w), made.write(w))
	}
	oldID, err := c.before.id()
	if err != nil {
		return err
	}
	newID, err := c.after.id()
	if err != nil {
		return err
	}
	if oldID == newID && c.before.mode == c.after.mode {
		return nil
	}
	c.writeHeader(w, oldID, newID)
	if oldID == newID || c.before.size == 0 && c.after.size == 0 {
		return nil
	}
	before, textBefore, err := c.before.asText()
	if err != nil {
		return err
	}
	after, textAfter, err := c.after.asText()
	if err != nil {
		return err
	}
	if !textBefore || !textAfter {
		return writeBinary(w, c.before.blob, c.after.blob)
	}
	fmt.Fprintf(w, "--- %s\n+++ %s\n", c.before.label("a/", c.path), c.after.label("b/", c.path))
	writeHunks(w, before, after)
	return nil
}

func (c fileChange) writeHeader(w *bufio.Writer, oldID, newID string) {
	fmt.Fprintf(w, "diff --git %s %s\n", patchName("a/"+c.path), patchName("b/"+c.path))
	suffix := ""
	switch {
	case c.before.mode == 0:
		fmt.Fprintf(w, "new file mode %06o\n", c.after.mode)
	case c.after.mode == 0:
		fmt.Fprintf(w, "deleted file mode %06o\n", c.before.mode)
	case c.before.mode != c.after.mode:
		fmt.Fprintf(w, "old mode %06o\nnew mode %06o\n", c.before.mode, c.after.mode)
	default:
		suffix = fmt.Sprintf(" %06o", c.after.mode)
	}
	if oldID != newID {
		fmt.Fprintf(w, "index %s..%s%s\n", oldID, newID, suffix)
	}
}

// limitedWriter fails when more than left bytes are written.
type limitedWriter struct {
	w    io.Writer
	left int64
}

func (l *limitedWriter) Write(p []byte) (int, error) {
	if int64(len(p)) > l.left {
		return 0, fmt.Errorf("longer than the %d MiB that git apply takes", maxPatch>>20)
	}
	l.left -= int64(len(p))
	return l.w.Write(p)
}
