package files

import (
	"archive/tar"
	"bufio"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/quavon/quavon/runner/job"
)

// Overlay is where Diff looks. Upper is the writable layer of the overlay that
// shows Lower at Target; paths in Protect, relative to Target, never appear.
type Overlay struct {
	Lower, Upper, Target string
	Protect              []string
}

// Diff writes what changed in an overlay as a tar stream: one entry per change,
// with the records of package agent, sorted bytewise with a "/" behind
// directories. A change is what git would call one (content, executable bit,
// type, link target) and, besides, a directory that is new or gone. Only the
// upper layer is walked, so the cost is that of the change. With content, added
// and modified files carry theirs, and modified and deleted ones a digest of
// what they were. Special files count as absent.
func Diff(o Overlay, content bool, w io.Writer, lim Limits) error {
	t, err := openLayers(o)
	if err != nil {
		return err
	}
	defer t.close()
	bw := bufio.NewWriterSize(w, bufferSize)
	d := differ{
		archive: archive{tw: tar.NewWriter(bw), meter: meter{max: lim}, buf: make([]byte, bufferSize)},
		protect: map[string]bool{},
		content: content,
	}
	for _, p := range o.Protect {
		d.protect[path.Clean(p)] = true
	}
	if d.dev, err = device(t.merged); err != nil {
		return err
	}
	if err := d.walk(t, ""); err != nil {
		return err
	}
	if err := d.tw.Close(); err != nil {
		return err
	}
	return bw.Flush()
}

type differ struct {
	archive
	protect map[string]bool
	content bool
	// dev is the overlay's own device, to tell mounts on top of it.
	dev uint64
}

// change is a path that is in the upper layer, or in the lower one and gone.
// Either side is nil when it isn't there.
type change struct {
	key      string
	old, now fs.FileInfo
}

// walk reports the changes below the directory rel ("" or "a/b/").
func (d *differ) walk(t layers, rel string) error {
	changes, err := d.changes(t, rel)
	if err != nil {
		return wrap(rel, err)
	}
	for _, c := range changes {
		if strings.HasSuffix(c.key, "/") {
			err = d.directory(t, rel, c)
		} else {
			err = d.leaf(t, rel, c)
		}
		if err != nil {
			return wrap(rel+c.key, err)
		}
	}
	return nil
}

// changes pairs what both layers have under each name. A name that is neither
// in the upper layer nor missing from the merged view is unchanged and not
// looked at. The merged view shows what an opaque directory hides: the mark
// itself is a trusted attribute, which the agent may not read.
func (d *differ) changes(t layers, rel string) ([]change, error) {
	upper, err := list(t.upper, rel)
	if err != nil {
		return nil, err
	}
	lower, err := list(t.lower, rel)
	if err != nil {
		return nil, err
	}
	shown := map[string]bool{}
	if t.upper != nil && t.lower != nil {
		merged, err := list(t.merged, rel)
		if err != nil {
			return nil, err
		}
		for _, name := range merged {
			shown[name] = true
		}
	}
	all := upper
	for _, name := range upper {
		shown[name] = true
	}
	gone := map[string]bool{}
	for _, name := range lower {
		if !shown[name] {
			all = append(all, name)
			gone[name] = true
		}
	}
	var cs []change
	for _, name := range all {
		if d.protect[rel+name] {
			continue
		}
		old, now, err := t.lstat(name, !gone[name])
		if err != nil {
			return nil, wrap(rel+name, err)
		}
		cs = append(cs, pair(old, now)...)
	}
	slices.SortFunc(cs, func(a, b change) int { return strings.Compare(a.key, b.key) })
	return cs, nil
}

// pair makes the changes of one name: a directory that became a file, or the
// other way round, is two.
func pair(old, now fs.FileInfo) []change {
	switch {
	case old == nil && now == nil:
		return nil
	case old == nil:
		return []change{{key: key(now), now: now}}
	case now == nil:
		return []change{{key: key(old), old: old}}
	case old.IsDir() != now.IsDir():
		return []change{{key: key(old), old: old}, {key: key(now), now: now}}
	}
	return []change{{key: key(now), old: old, now: now}}
}

// directory reports a directory that is new or gone, and what is below it.
func (d *differ) directory(t layers, rel string, c change) error {
	sub, err := t.descend(c)
	if err != nil {
		return err
	}
	defer sub.close()
	switch {
	case c.old == nil:
		err = d.record(rel+c.key, job.Added, c, nil)
	case c.now == nil:
		err = d.record(rel+c.key, job.Deleted, c, nil)
	default:
		if dev, err := device(sub.merged); err != nil || dev != d.dev {
			return err // another mount covers this directory
		}
	}
	if err != nil {
		return err
	}
	return d.walk(sub, rel+c.key)
}

// leaf reports a file or a symbolic link, if it changed.
func (d *differ) leaf(t layers, rel string, c change) error {
	switch {
	case c.old == nil:
		return d.record(rel+c.key, job.Added, c, &t)
	case c.now == nil:
		return d.record(rel+c.key, job.Deleted, c, &t)
	}
	same, err := d.same(t, c)
	if err != nil || same {
		return err
	}
	return d.record(rel+c.key, job.Modified, c, &t)
}

func device(root *os.Root) (uint64, error) {
	fi, err := root.Stat(".")
	if err != nil {
		return 0, err
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, syscall.ENOTSUP
	}
	return st.Dev, nil
}
