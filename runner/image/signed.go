package image

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/image/lock"
	"github.com/quavon/quavon/runner/image/signature"
	"github.com/quavon/quavon/runner/job"
)

// requirement is a lock whose signatures images must have, and a directory of bundles
// that the store may not have yet.
type requirement struct {
	lock   *lock.File
	beside string
}

// Require makes the store refuse an image that l wants signed unless its
// signature verifies, whatever name the image is asked for by. Bundles are looked
// for in the store and then in beside, a directory. nil requires nothing. A runner
// reads its lock again while jobs use the store: what is asked of the store from now
// on goes by l.
func (s *Store) Require(l *lock.File, beside string) { s.required.Store(&requirement{l, beside}) }

// requires is what the last Require said.
func (s *Store) requires() requirement {
	if r := s.required.Load(); r != nil {
		return *r
	}
	return requirement{}
}

// images are those of the lock.
func (r requirement) images() []lock.Image {
	if r.lock == nil {
		return nil
	}
	return r.lock.Images
}

// AddBundle keeps a signature in the store and returns its digest.
func (s *Store) AddBundle(b *signature.Bundle) (string, error) {
	digest, err := b.Write(s.bundles())
	if err != nil {
		return "", fault.Wrap(err, "can't store the signature of "+b.Digest.String(), "check that "+s.dir+" is writable and not full")
	}
	return digest, nil
}

func (s *Store) bundles() string { return filepath.Join(s.dir, signature.Dir) }

// Bundle returns the signature with the digest.
func (s *Store) Bundle(digest string) (*signature.Bundle, error) {
	b, err := signature.Read(s.bundles(), digest)
	if beside := s.requires().beside; errors.Is(err, fs.ErrNotExist) && beside != "" {
		b, err = signature.Read(beside, digest)
	}
	return b, err
}

// Signatures lists what the lock says of who signed the image.
func (s *Store) Signatures(r *Record) []*lock.Signature {
	var all []*lock.Signature
	for _, p := range s.locked(r) {
		if p.Signature != nil {
			all = append(all, p.Signature)
		}
	}
	return all
}

// signed checks all signatures that the lock wants of an image.
func (s *Store) signed(ctx context.Context, r *Record) error {
	for img, p := range s.locked(r) {
		if p.Signature == nil {
			continue
		}
		if err := s.checkSigned(ctx, r, img, p); err != nil {
			return fault.Wrap(err, "the image "+img.Name+" is not signed as the lock says",
				"run `quavon images pull`, or `quavon build images` to look for its signature").
				WithCode(string(job.ReasonRejected))
		}
	}
	return nil
}

// basesSigned checks the signatures that bases of an image had to have.
func (s *Store) basesSigned(ctx context.Context, r *Record) error {
	for img, p := range s.locked(r) {
		for _, base := range p.BaseSignatures {
			if err := s.checkBase(ctx, base); err != nil {
				return fault.Wrap(err, "the base "+base.Base+" of "+img.Name+" is not signed as the lock says",
					"restore "+signature.Dir+" beside the lock, or run `quavon build images`").WithCode(string(job.ReasonRejected))
			}
		}
	}
	return nil
}

func (s *Store) checkBase(ctx context.Context, base lock.BaseSignature) error {
	b, err := s.bundleOf(&base.Signature)
	if err != nil {
		return err
	}
	return b.Check(ctx, wanted(&base.Signature, base.Base))
}

// locked are the lock's entries that are this image.
func (s *Store) locked(r *Record) iter.Seq2[*lock.Image, *lock.Platform] {
	return func(yield func(*lock.Image, *lock.Platform) bool) {
		images := s.requires().images()
		for i := range images {
			img := &images[i]
			for j := range img.Platforms {
				if p := &img.Platforms[j]; p.Config == r.Config.String() && !yield(img, p) {
					return
				}
			}
		}
	}
}

func (s *Store) checkSigned(ctx context.Context, r *Record, img *lock.Image, p *lock.Platform) error {
	b, err := s.bundleOf(p.Signature)
	if err != nil {
		return err
	}
	if err := b.Check(ctx, wanted(p.Signature, img.Index, p.Manifest, p.Config)); err != nil {
		return err
	}
	if !r.has(b.Digest.String()) {
		return fmt.Errorf("%s was signed, but the image came here another way", b.Digest)
	}
	return nil
}

// sweepBundles removes signatures of images that are gone, unless the lock names
// them.
func (s *Store) sweepBundles(c *Collected) error {
	keep := map[string]bool{}
	for _, img := range s.requires().images() {
		for _, p := range img.Platforms {
			if p.Signature != nil {
				keep[p.Signature.Bundle] = true
			}
		}
	}
	left, err := s.records()
	if err != nil {
		return err
	}
	paths, err := filepath.Glob(filepath.Join(s.bundles(), "*.json"))
	if err != nil {
		return err
	}
	for _, path := range paths {
		digest := "sha256:" + hexOf(path)
		b, err := signature.Read(s.bundles(), digest)
		if keep[digest] || err == nil && slices.ContainsFunc(left, func(r *Record) bool { return r.has(b.Digest.String()) }) {
			continue
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		c.Leftovers = append(c.Leftovers, path)
	}
	return nil
}

func (s *Store) bundleOf(want *lock.Signature) (*signature.Bundle, error) {
	b, err := s.Bundle(want.Bundle)
	if errors.Is(err, fs.ErrNotExist) {
		err = errors.New("its signature isn't here")
	}
	return b, err
}

// wanted is what the lock says of a signature; any of the digests may have been
// signed, "" is none.
func wanted(s *lock.Signature, digests ...string) signature.Wanted {
	w := signature.Wanted{
		Met:         signature.Met{Key: s.Key, Issuer: s.Issuer, Identity: s.Identity},
		TrustedRoot: s.TrustedRoot,
	}
	for _, d := range digests {
		if h, err := v1.NewHash(d); err == nil {
			w.Digests = append(w.Digests, h)
		}
	}
	return w
}
