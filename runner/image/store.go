// Package image keeps images that jobs can run: verified, flattened into one
// read-only EROFS file each, shared by all sandboxes.
//
// A store is a directory:
//
//	names.json         the operator's names for images
//	records/HEX.json   what is known of an image; HEX is its config's digest
//	roots/HEX.erofs    its root file system; a shared lock says it is in use
//	signatures/HEX.json  a signature that the lock names by this digest
//	locks/HEX          held while the image is imported, checked or removed
//	tmp/HEX            an import's working directory, stale when locks/HEX is free
//
// A record is written last and removed first, so an image is there when its
// record is.
package image

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gofrs/flock"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/job"
)

const (
	recordsDir = "records"
	rootsDir   = "roots"
	locksDir   = "locks"
	tmpDir     = "tmp"

	scratchLock = "scratch"
)

// Store is a directory of images. It is safe for concurrent use, also by several
// processes.
type Store struct {
	dir string
	// required says what signatures images must have; see Require.
	required atomic.Pointer[requirement]
	// scratch is held, shared with others, by who has asked for Scratch.
	scratch *flock.Flock
}

// OpenStore opens the store in dir, which only the caller's user can write to,
// and makes what is missing.
func OpenStore(dir string) (*Store, error) {
	for _, d := range []string{recordsDir, rootsDir, locksDir, tmpDir} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o700); err != nil {
			return nil, fault.Wrap(err, "can't open the image store", "make "+dir+" writable for you")
		}
	}
	return &Store{dir: dir, scratch: flock.New(filepath.Join(dir, locksDir, scratchLock))}, nil
}

func (s *Store) record(id v1.Hash) string { return filepath.Join(s.dir, recordsDir, id.Hex+".json") }
func (s *Store) root(id v1.Hash) string   { return filepath.Join(s.dir, rootsDir, id.Hex+".erofs") }
func (s *Store) work(id v1.Hash) string   { return filepath.Join(s.dir, tmpDir, id.Hex) }

// Path is a place beside the store's own files, for what is made from its images.
func (s *Store) Path(name string) string { return filepath.Join(s.dir, name) }

// Scratch is a directory for temporary files that are as big as images. What lies there is
// left alone while a store that was asked for it is in use.
func (s *Store) Scratch() string {
	_ = s.scratch.RLock() // who can't lock can't write there either
	return filepath.Join(s.dir, tmpDir)
}

const pollLock = 20 * time.Millisecond

// lock waits until no other process imports, checks or removes the image.
func (s *Store) lock(ctx context.Context, id v1.Hash) (*flock.Flock, error) {
	l := flock.New(filepath.Join(s.dir, locksDir, id.Hex))
	if _, err := l.TryLockContext(ctx, pollLock); err != nil {
		return nil, errors.Join(fmt.Errorf("lock image %s: %w", id, err), l.Close())
	}
	return l, nil
}

// List returns all images, sorted by digest. Records that can't be read are in
// the error; the others are returned all the same.
func (s *Store) List() ([]*Record, error) { return s.records() }

// Find returns the image that ref names: by name, by a digest of its config,
// manifest or index, by REPOSITORY@digest, or by at least 8 digits of its config's
// digest.
func (s *Store) Find(ref string) (*Record, error) {
	all, readErr := s.records()
	_, digest, at := strings.Cut(ref, "@")
	if !at {
		digest = ref
	}
	var found []*Record
	for _, r := range all {
		if r.has(digest) || !at && (slices.Contains(r.Names, ref) || len(ref) >= 8 && strings.HasPrefix(r.Config.Hex, ref)) {
			found = append(found, r)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return nil, unknown(ref, at, readErr)
	}
	return nil, fault.New("more than one image is called "+ref, "use a digest; `quavon images ls` shows them").
		WithCode(string(job.ReasonImageUnknown))
}

func unknown(ref string, at bool, err error) error {
	hint := "`quavon images ls` shows what there is, `quavon images pull` and `import` add to it"
	if at {
		hint = "run `quavon images pull " + ref + "` first"
	} else if strings.Contains(ref, ":") && !strings.HasPrefix(ref, "sha256:") {
		hint = "tags are not used here: a name is what --name gave it, or use REPOSITORY@sha256:…"
	}
	return &fault.Error{What: "the store has no image " + ref, Err: err, Hint: hint, Code: string(job.ReasonImageUnknown)}
}
