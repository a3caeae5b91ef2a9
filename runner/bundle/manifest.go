package bundle

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/quavon/quavon/runner/image/lock"
)

// Bounds of a bundle.
const (
	maxManifest  = 8 << 20
	maxSignature = 64 << 10
	maxMembers   = 1 << 15
	maxPlatforms = 16
	maxLock      = 16 << 20
	// maxMember is what a tar's plain header can say, in bytes.
	maxMember = 8<<30 - 1
	maxTotal  = 256 << 30
)

// forms are made when they are first needed: every start of quavon would wait for them.
var forms = sync.OnceValue(func() *struct{ hex, digest, platform, image, version, member *regexp.Regexp } {
	return &struct{ hex, digest, platform, image, version, member *regexp.Regexp }{
		hex:      regexp.MustCompile(`^[0-9a-f]{64}$`),
		digest:   regexp.MustCompile(`^sha256:[0-9a-f]{64}$`),
		platform: regexp.MustCompile(`^linux/[a-z0-9]{1,16}(/[a-z0-9.]{1,8})?$`),
		image:    regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,62}$`),
		version:  regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9.+_-]{0,127}$`),
		member:   regexp.MustCompile(`^(?:` + strings.Join(rooms, "|") + `)$`),
	}
})

// rooms are the places that a member can be at. Whatever else there is would be for
// nobody.
var rooms = []string{
	LockName, LayoutName, IndexName,
	`blobs/sha256/[0-9a-f]{64}`,
	`signatures/[0-9a-f]{64}\.json`,
	`images/[A-Za-z0-9][A-Za-z0-9._-]*\.cdx\.json`,
	`bin/linux-[a-z0-9.-]{1,32}/(?:gvisor-bin/)?[A-Za-z0-9][A-Za-z0-9._-]*`,
	`templates/[a-z0-9][a-z0-9._-]*`,
}

// maxName is what fits into a tar's plain header.
const maxName = 100

// ParseManifest reads a manifest that must be in its one form, so that no two readers
// can see different things in it.
func ParseManifest(raw []byte) (*Manifest, error) {
	if len(raw) > maxManifest {
		return nil, fmt.Errorf("the manifest has more than %d bytes", maxManifest)
	}
	m := new(Manifest)
	if err := json.Unmarshal(raw, m); err != nil {
		return nil, fmt.Errorf("the manifest can't be read: %w", err)
	}
	if m.MediaType != MediaType {
		return nil, fmt.Errorf("the manifest has the type %.80q, this program reads %s", m.MediaType, MediaType)
	}
	if again, err := m.Encode(); err != nil || !bytes.Equal(again, raw) {
		return nil, errors.Join(err, errors.New("the manifest isn't written as quavon writes it"))
	}
	if err := m.Check(); err != nil {
		return nil, fmt.Errorf("the manifest is not valid: %w", err)
	}
	return m, nil
}

// Check says what is wrong with a manifest.
func (m *Manifest) Check() error {
	if !forms().version.MatchString(m.Version) {
		return fmt.Errorf("the version %.80q", m.Version)
	}
	return errors.Join(m.checkPlatforms(), m.checkMembers(), m.checkImages())
}

func (m *Manifest) checkPlatforms() error {
	if len(m.Platforms) == 0 || len(m.Platforms) > maxPlatforms {
		return fmt.Errorf("it has %d platforms", len(m.Platforms))
	}
	last := ""
	for _, p := range m.Platforms {
		switch {
		case !forms().platform.MatchString(p):
			return fmt.Errorf("the platform %.80q", p)
		case p <= last:
			return fmt.Errorf("the platform %s is there twice or out of order", p)
		}
		last = p
		for _, program := range []string{Quavon, Guest, Runsc} {
			if m.Member(Bin(p)+program) == nil {
				return fmt.Errorf("%s%s is missing", Bin(p), program)
			}
		}
	}
	return nil
}

func (m *Manifest) checkMembers() error {
	if len(m.Members) > maxMembers {
		return fmt.Errorf("it has more than %d members", maxMembers)
	}
	last, total := "", int64(0)
	for _, f := range m.Members {
		if err := f.check(); err != nil {
			return err
		}
		ours := func(p string) bool { return strings.HasPrefix(f.Name, Bin(p)) }
		if strings.HasPrefix(f.Name, "bin/") && !slices.ContainsFunc(m.Platforms, ours) {
			return fmt.Errorf("%s is for a platform that the bundle isn't for", f.Name)
		}
		if f.Name <= last {
			return fmt.Errorf("the member %s is there twice or out of order", f.Name)
		}
		last = f.Name
		if total += f.Size; total > maxTotal {
			return fmt.Errorf("its members have more than %d bytes", int64(maxTotal))
		}
	}
	for _, name := range []string{LockName, LayoutName, IndexName} {
		if m.Member(name) == nil {
			return fmt.Errorf("%s is missing", name)
		}
	}
	return nil
}

func (f *Member) check() error {
	switch {
	case len(f.Name) > maxName || !forms().member.MatchString(f.Name) || path.Clean(f.Name) != f.Name:
		return fmt.Errorf("the name %.120q is none that a member can have", f.Name)
	case f.Size < 0 || f.Size > maxMember:
		return fmt.Errorf("%s has the size %d", f.Name, f.Size)
	case !forms().hex.MatchString(f.SHA256):
		return fmt.Errorf("%s has the sha256 %.80q", f.Name, f.SHA256)
	case strings.HasPrefix(f.Name, "blobs/") && f.Name != Blob(f.SHA256):
		return fmt.Errorf("%s has the sha256 %s", f.Name, f.SHA256)
	}
	return nil
}

func (m *Manifest) checkImages() error {
	last := ""
	for _, i := range m.Images {
		switch {
		case !forms().image.MatchString(i.Name) || !forms().digest.MatchString(i.Config) || !forms().digest.MatchString(i.Digest):
			return fmt.Errorf("the image %.80q has no proper name or digest", i.Name)
		case !slices.Contains(m.Platforms, i.Platform):
			return fmt.Errorf("the image %s is for %.80q", i.Name, i.Platform)
		case i.key() <= last:
			return fmt.Errorf("the image %s is there twice or out of order", i.key())
		case m.Member(Blob(i.Digest)) == nil || m.Member(Blob(i.Config)) == nil:
			return fmt.Errorf("content of the image %s is missing", i.key())
		}
		last = i.key()
	}
	return nil
}

// agrees compares the images with the lock: each is the lock's, and none that the lock
// has for a platform of the bundle is missing.
func (m *Manifest) agrees(l *lock.File) error {
	want := map[string]string{}
	for _, i := range l.Images {
		for _, p := range i.Platforms {
			if slices.Contains(m.Platforms, p.Platform) {
				want[Image{Name: i.Name, Platform: p.Platform}.key()] = p.Config
			}
		}
	}
	for _, i := range m.Images {
		if want[i.key()] != i.Config {
			return fmt.Errorf("the image %s isn't the lock's", i.key())
		}
		delete(want, i.key())
	}
	for key := range want {
		return fmt.Errorf("the lock's image %s is missing", key)
	}
	return nil
}
