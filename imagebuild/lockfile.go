package imagebuild

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/renameio/v2"

	"github.com/quavon/quavon/imagebuild/declare"
	"github.com/quavon/quavon/runner/bounded"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/image/lock"
)

// Endings of the files beside the lock: what it was before, to go back to, and what
// a trial would make it.
const (
	Previous = ".prev"
	Next     = ".next"
)

// lockFiles are a lock and its neighbours. What any of them has need not be made.
type lockFiles struct {
	path    string
	raw     []byte
	current *lock.File
	others  []*lock.File
}

func readLocks(path string) (*lockFiles, error) {
	f := &lockFiles{path: path}
	var err error
	if f.raw, f.current, err = readLock(path); err != nil {
		return nil, err
	}
	for _, ending := range []string{Next, Previous} {
		// These are a convenience: one that can't be read is as good as none.
		if _, l, err := readLock(path + ending); err == nil && l != nil {
			f.others = append(f.others, l)
		}
	}
	return f, nil
}

// readLock reads a lock, nil when there is none.
func readLock(path string) ([]byte, *lock.File, error) {
	l, err := lock.Read(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil, nil
	case err != nil:
		return nil, nil, err
	}
	raw, err := bounded.ReadFile(path, lock.MaxFile)
	return raw, l, err
}

// all are the locks in which to look for what was made, the current one first.
func (f *lockFiles) all() []*lock.File {
	if f.current == nil {
		return f.others
	}
	return append([]*lock.File{f.current}, f.others...)
}

func findIn(l *lock.File, name, sourceDigest, platform string) (*lock.Image, *lock.Platform) {
	for k := range l.Images {
		if img := &l.Images[k]; img.Name == name && img.SourceDigest == sourceDigest {
			return img, platformOf(img, platform)
		}
	}
	return nil, nil
}

func platformOf(img *lock.Image, name string) *lock.Platform {
	for k := range img.Platforms {
		if img.Platforms[k].Platform == name {
			return &img.Platforms[k]
		}
	}
	return nil
}

func sortPlatforms(img *lock.Image) {
	slices.SortFunc(img.Platforms, func(a, b lock.Platform) int { return strings.Compare(a.Platform, b.Platform) })
}

// start is a new lock with what the current one has.
func (f *lockFiles) start(b *Builder) *lock.File {
	l := &lock.File{SchemaVersion: lock.SchemaVersion, Builder: lock.Builder{Version: b.Version, Format: format}, Images: []lock.Image{}}
	if f.current != nil {
		l.Images = slices.Clone(f.current.Images)
	}
	return l
}

// put replaces or adds an image, in order.
func put(l *lock.File, img lock.Image) {
	at, found := slices.BinarySearchFunc(l.Images, img.Name, func(i lock.Image, name string) int { return strings.Compare(i.Name, name) })
	if found {
		l.Images[at] = img
		return
	}
	l.Images = slices.Insert(l.Images, at, img)
}

// prune drops images that were made from a declaration which has them no more.
// Those that were added by hand have no source digest, and stay.
func (b *Builder) prune(l *lock.File) {
	l.Images = slices.DeleteFunc(l.Images, func(i lock.Image) bool {
		gone := i.SourceDigest != "" && b.Declaration.Image(i.Name) == nil
		if gone {
			b.tell(Event{Image: i.Name, Text: "dropped from the lock: the declaration has it no more"})
		}
		return gone
	})
}

// sum notes what all images were built from.
func (b *Builder) sum(_ context.Context, l *lock.File) error {
	type input struct {
		Name, Source string
		Artefacts    []declare.Artefact `json:",omitempty"`
	}
	var all []input
	for _, img := range l.Images {
		in := input{Name: img.Name, Source: img.SourceDigest}
		if d := b.Declaration.Image(img.Name); d != nil {
			in.Artefacts = d.Artefacts
		}
		all = append(all, in)
	}
	var err error
	l.Inputs, err = digestOf(all)
	return err
}

// write writes the lock, and keeps the one before; a trial's is written beside it.
// A lock that would only name another version of this program is left alone.
func (f *lockFiles) write(l *lock.File, trial bool) (changed bool, err error) {
	if f.current != nil {
		same := *l
		same.Builder = f.current.Builder
		if raw, err := same.Encode(); err != nil || bytes.Equal(raw, f.raw) {
			return false, err
		}
	}
	raw, err := l.Encode()
	if err != nil {
		return false, fault.Wrap(err, "can't write the image lock", "tell us: this is a mistake in quavon")
	}
	path := f.path
	if trial {
		path += Next
	} else if f.raw != nil {
		if err := renameio.WriteFile(f.path+Previous, f.raw, 0o644); err != nil {
			return false, f.fault(err)
		}
	}
	if err := renameio.WriteFile(path, raw, 0o644); err != nil {
		return false, f.fault(err)
	}
	if !trial {
		if err := os.Remove(f.path + Next); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return true, f.fault(err)
		}
	}
	return true, nil
}

func (f *lockFiles) fault(err error) error {
	return fault.Wrap(err, "can't write the image lock", "make "+filepath.Dir(f.path)+" writable for you")
}
