// Package bundle packs what somebody who helps needs to see: the doctor's report,
// versions, configuration and recent logs. Everything goes through one mask, which
// hides secrets by their values and by their looks, before it is kept.
package bundle

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"filippo.io/age"
	"github.com/klauspost/compress/zstd"

	"github.com/quavon/quavon/runner/fault"
)

// maxEntry bounds one entry, in bytes; the end is what is kept of a longer one, since
// that is the newest of a log.
const maxEntry = 1 << 20

// Entry is one file of a bundle.
type Entry struct {
	Name string
	// About says what it is, in a few words.
	About string
	Data  []byte
}

// Bundle is what is going to be packed.
type Bundle struct {
	Entries []Entry

	mask *Mask
}

// New is an empty bundle whose entries go through mask.
func New(mask *Mask) *Bundle { return &Bundle{mask: mask} }

// Add masks a text and keeps it. An empty one is left out. A text that is too long is
// masked whole before it is cut, so that the cut leaves no half of a secret.
func (b *Bundle) Add(name, about, text string) {
	if text = b.mask.Hide(text); strings.TrimSpace(text) == "" {
		return
	}
	if len(text) > maxEntry {
		rest := text[len(text)-maxEntry:]
		text = "[the beginning is left out]\n" + rest[strings.IndexByte(rest, '\n')+1:]
	}
	b.Entries = append(b.Entries, Entry{Name: name, About: about, Data: []byte(text)})
}

// List is what is in the bundle, for people: a line an entry.
func (b *Bundle) List() string {
	var out strings.Builder
	for _, e := range b.Entries {
		fmt.Fprintf(&out, "%8d  %-24s  %s\n", len(e.Data), e.Name, e.About)
	}
	return out.String()
}

// contents is the list with digests, as sha256sum -c reads it.
func (b *Bundle) contents() []byte {
	var out bytes.Buffer
	for _, e := range b.Entries {
		sum := sha256.Sum256(e.Data)
		fmt.Fprintf(&out, "%s  %s\n", hex.EncodeToString(sum[:]), e.Name)
	}
	return out.Bytes()
}

// write packs the entries into a tar.
func (b *Bundle) write(w io.Writer, at time.Time) error {
	t := tar.NewWriter(w)
	for _, e := range append([]Entry{{Name: "SHA256SUMS", Data: b.contents()}}, b.Entries...) {
		h := &tar.Header{
			Name: "quavon-support/" + e.Name, Mode: 0o600, Size: int64(len(e.Data)), ModTime: at.Truncate(time.Second),
			Typeflag: tar.TypeReg,
		}
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		if _, err := t.Write(e.Data); err != nil {
			return err
		}
	}
	return t.Close()
}

// Recipients reads public keys of age.
func Recipients(keys []string) ([]age.Recipient, error) {
	var out []age.Recipient
	for _, key := range keys {
		r, err := age.ParseRecipients(strings.NewReader(key))
		if err != nil {
			// The words of age quote the key, which may be somebody's private one.
			return nil, fault.New("a --recipient is no public key of age", "it begins with age1; `age-keygen -y KEYFILE` shows it")
		}
		out = append(out, r...)
	}
	return out, nil
}

// Endings of a bundle's name; age's stands behind one of the others.
const (
	GzipEnding = ".tar.gz"
	ZstdEnding = ".tar.zst"
	AgeEnding  = ".age"
)

// WriteFile writes the bundle as path's ending says, encrypted for the recipients
// when there are any. It is the writer's alone to read, and nothing is there before
// it is whole; what is there already is an error.
func (b *Bundle) WriteFile(path string, to []age.Recipient, at time.Time) (err error) {
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		return errors.Join(err, exists(path))
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".quavon-support-") // with mode 0600
	if err != nil {
		return fault.Wrap(err, "make the bundle", "name a directory you may write to: --file")
	}
	defer func() { err = errors.Join(err, os.Remove(f.Name())) }()
	if err := errors.Join(b.pack(f, path, to, at), f.Sync(), f.Close()); err != nil {
		return err
	}
	// Unlike a rename, a link never replaces what somebody else made meanwhile.
	if err := os.Link(f.Name(), path); errors.Is(err, os.ErrExist) {
		return exists(path)
	} else if err != nil {
		return err
	}
	return nil
}

func exists(path string) error {
	return fault.New(path+" is there already", "remove it, or name another: --file")
}

// pack stacks archive, compression and encryption.
func (b *Bundle) pack(w io.Writer, path string, to []age.Recipient, at time.Time) error {
	var closers []io.Closer
	if len(to) > 0 {
		enc, err := age.Encrypt(w, to...)
		if err != nil {
			return err
		}
		w, closers = enc, append(closers, enc)
	}
	switch plain := strings.TrimSuffix(path, AgeEnding); {
	case strings.HasSuffix(plain, GzipEnding):
		z := gzip.NewWriter(w)
		w, closers = z, append(closers, z)
	case strings.HasSuffix(plain, ZstdEnding):
		z, err := zstd.NewWriter(w)
		if err != nil {
			return err
		}
		w, closers = z, append(closers, z)
	default:
		return fault.New(path+" has an unknown ending", "use "+GzipEnding+" or "+ZstdEnding+", with "+AgeEnding+" behind it when encrypted")
	}
	err := b.write(w, at)
	for i := len(closers) - 1; i >= 0; i-- {
		err = errors.Join(err, closers[i].Close())
	}
	return err
}
