package bundle

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/quavon/quavon/runner/bounded"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/image/lock"
)

// Bundle is an open bundle whose manifest is signed as it must be. What its members
// hold is checked when they are read.
type Bundle struct {
	Manifest *Manifest
	// Digest of the manifest, and so of all there is.
	Digest v1.Hash
	// Signer is the key that was asked for, "" when none was.
	Signer string
	// Signed says that there is a signature at all.
	Signed bool
	// Lock is the lock of images.
	Lock *lock.File
	Path string
	// Size of the file in bytes.
	Size int64

	f *os.File
	// first is where the first member's header is.
	first int64
	at    map[string]int64
}

// Open opens a bundle and checks its manifest, its signature, its size and its lock.
func Open(ctx context.Context, path string, t Trust) (*Bundle, error) {
	b := &Bundle{Path: path, at: map[string]int64{}}
	if err := b.open(ctx, t); err != nil {
		if b.f != nil {
			err = errors.Join(err, b.f.Close())
		}
		return nil, fault.Wrap(err, "can't use the bundle "+path, hintOf(err))
	}
	return b, nil
}

func hintOf(err error) string {
	if hint := fault.Hint(err); hint != "" {
		return hint
	}
	return "copy it again from where it was made, and compare with `sha256sum` there"
}

// Close closes the file.
func (b *Bundle) Close() error { return b.f.Close() }

func (b *Bundle) open(ctx context.Context, t Trust) (err error) {
	if b.f, err = bounded.Open(b.Path); err != nil {
		return fault.Wrap(err, "open it", "name a file that `quavon build bundle` made")
	}
	info, err := b.f.Stat()
	if err != nil {
		return err
	}
	b.Size = info.Size()
	manifest, err := b.head(ManifestName, maxManifest)
	if err != nil {
		return err
	}
	if manifest == nil {
		return fault.New("it is no bundle", "name a file that `quavon build bundle` made")
	}
	signature, err := b.head(SignatureName, maxSignature)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(manifest)
	b.Digest, b.Signed = v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(sum[:])}, signature != nil
	// Nothing is read out of a manifest before it is known to be trusted.
	if b.Signer, err = t.check(ctx, signature, b.Digest); err != nil {
		return err
	}
	if b.Manifest, err = ParseManifest(manifest); err != nil {
		return err
	}
	return errors.Join(b.place(), b.readLock())
}

// head reads a member before the first that the manifest names; nil when there is
// another in its place.
func (b *Bundle) head(name string, limit int64) ([]byte, error) {
	head := make([]byte, block)
	if _, err := b.f.ReadAt(head, b.first); err != nil {
		return nil, cut(err)
	}
	size := sizeIn(head, limit)
	if size < 0 {
		return nil, nil
	}
	r := io.NewSectionReader(b.f, b.first, framed(size))
	if err := expect(r, name, size); err != nil {
		return nil, nil //nolint:nilerr // it is another's header, which is looked at later
	}
	raw := make([]byte, size)
	if _, err := io.ReadFull(r, raw); err != nil {
		return nil, cut(err)
	}
	b.first += framed(size)
	return raw, zeros(r, padding(size))
}

// place works out where each member is, and whether the file is as long as it must be.
func (b *Bundle) place() error {
	at := b.first
	for _, m := range b.Manifest.Members {
		b.at[m.Name] = at + block
		at += framed(m.Size)
	}
	switch want := at + end; {
	case b.Size < want:
		return fmt.Errorf("it is cut short: it has %d bytes, and should have %d", b.Size, want)
	case b.Size > want:
		return fmt.Errorf("something was added to it: it has %d bytes, and should have %d", b.Size, want)
	}
	return nil
}

func (b *Bundle) readLock() error {
	raw, err := b.ReadFile(LockName, maxLock)
	if err != nil {
		return err
	}
	if b.Lock, err = lock.Parse(LockName, raw); err != nil {
		return err
	}
	return b.Manifest.agrees(b.Lock)
}

// Open reads a member; the reader fails at the end when the content isn't what the
// manifest says.
func (b *Bundle) Open(name string) (io.ReadCloser, error) {
	m, at := b.Manifest.Member(name), b.at[name]
	if m == nil || at == 0 {
		return nil, &os.PathError{Op: "open", Path: b.Path + ":" + name, Err: os.ErrNotExist}
	}
	return &member{Member: m, r: io.NewSectionReader(b.f, at, m.Size), sum: sha256.New()}, nil
}

// ReadFile reads a small member of at most limit bytes.
func (b *Bundle) ReadFile(name string, limit int64) ([]byte, error) {
	r, err := b.Open(name)
	if err != nil {
		return nil, err
	}
	raw, err := bounded.ReadAll(r, limit)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return raw, nil
}

// member is a member that is being read.
type member struct {
	*Member
	r    io.Reader
	sum  hash.Hash
	done int64
}

// Read implements io.Reader.
func (m *member) Read(p []byte) (int, error) {
	n, err := m.r.Read(p)
	m.sum.Write(p[:n])
	m.done += int64(n)
	if err != io.EOF {
		return n, err
	}
	if m.done < m.Size {
		return n, fmt.Errorf("%s is cut short", m.Name)
	}
	if got := hex.EncodeToString(m.sum.Sum(nil)); got != m.SHA256 {
		return n, fmt.Errorf("%s is damaged: its sha256 is %s, and should be %s", m.Name, got, m.SHA256)
	}
	return n, io.EOF
}

// Close implements io.Closer.
func (*member) Close() error { return nil }

// Verify reads all of the file. progress is told how many bytes were read of how many;
// nil for nobody.
func (b *Bundle) Verify(ctx context.Context, progress func(done, total int64)) error {
	if err := b.verify(ctx, progress); err != nil {
		return fault.Wrap(err, "can't use the bundle "+b.Path, hintOf(err))
	}
	return nil
}

func (b *Bundle) verify(ctx context.Context, progress func(done, total int64)) error {
	at := b.first
	r := bufio.NewReaderSize(io.NewSectionReader(b.f, at, b.Size-at), 1<<20)
	buf := make([]byte, 1<<20)
	for i := range b.Manifest.Members {
		m := &b.Manifest.Members[i]
		if err := expect(r, m.Name, m.Size); err != nil {
			return err
		}
		at += block
		content := &member{Member: m, r: io.LimitReader(r, m.Size), sum: sha256.New()}
		for err := error(nil); err != io.EOF; { //nolint:errorlint // a reader's own
			var n int
			if n, err = content.Read(buf); err != nil && err != io.EOF { //nolint:errorlint // a reader's own
				return err
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if at += int64(n); progress != nil {
				progress(at, b.Size)
			}
		}
		at += padding(m.Size)
		if err := zeros(r, padding(m.Size)); err != nil {
			return err
		}
	}
	return zeros(r, end)
}
