package rootfs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/quavon/quavon/imagebuild/ext4"
	"github.com/quavon/quavon/runner/bounded"
	"github.com/quavon/quavon/runner/image"
	"github.com/quavon/quavon/runner/image/lock"
)

// record is what the maker remembers of one file.
type record struct {
	// Format of the record and of what writes the file systems.
	Format string `json:"format"`
	// Path is absolute.
	Path string         `json:"path"`
	Made Made           `json:"made"`
	Seen image.Identity `json:"seen"`
}

func format(k lock.Kind) string {
	if k == lock.KindEROFS {
		return "1 " + erofsFormat
	}
	return "1 " + ext4.Format
}

// Current returns what was made at path of the image with this config and with
// these options, if it is still there. A file that was touched since it was made is
// read again.
func (m *Maker) Current(ctx context.Context, config v1.Hash, path string, o Options) (*Made, bool) {
	abs, err := filepath.Abs(path)
	if err != nil || m.Records == "" {
		return nil, false
	}
	r, err := readRecord(m.record(abs))
	if err != nil || r.Format != format(o.Kind) || r.Path != abs || r.Made.Image != config ||
		r.Made.Kind != o.Kind || !maps.Equal(r.Made.Options, o.Fields()) {
		return nil, false
	}
	f, err := bounded.Open(path)
	if err != nil {
		return nil, false
	}
	defer f.Close()
	if !r.holds(ctx, f) {
		return nil, false
	}
	r.Made.Path = path
	return &r.Made, m.remember(&r.Made, f) == nil
}

// holds says whether a file is what the record tells of.
func (r *record) holds(ctx context.Context, f *os.File) bool {
	now, err := image.Identify(f)
	switch {
	case err != nil || now.Size != r.Made.Size:
		return false
	case now == r.Seen:
		return true
	}
	sum, err := hash(ctx, f)
	after, errAfter := image.Identify(f)
	return err == nil && errAfter == nil && sum == r.Made.SHA256 && after == now
}

// remember notes what was made in f.
func (m *Maker) remember(made *Made, f *os.File) error {
	if m.Records == "" {
		return nil
	}
	abs, err := filepath.Abs(made.Path)
	if err != nil {
		return err
	}
	r := record{Format: format(made.Kind), Path: abs, Made: *made}
	if r.Seen, err = image.Identify(f); err != nil {
		return err
	}
	if old, err := readRecord(m.record(abs)); err == nil && old.Seen == r.Seen {
		return nil
	}
	if err := os.MkdirAll(m.Records, 0o700); err != nil {
		return err
	}
	raw, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return errors.Join(writeFile(m.record(abs), append(raw, '\n')), m.forget())
}

func (m *Maker) record(path string) string {
	sum := sha256.Sum256([]byte(path))
	return filepath.Join(m.Records, hex.EncodeToString(sum[:])+".json")
}

// maxRecord bounds a record's file.
const maxRecord = 1 << 20

func readRecord(path string) (*record, error) {
	raw, err := bounded.ReadFile(path, maxRecord)
	if err != nil {
		return nil, err
	}
	r := new(record)
	return r, json.Unmarshal(raw, r)
}

// forget drops the records of files that are gone.
func (m *Maker) forget() error {
	paths, err := filepath.Glob(filepath.Join(m.Records, "*.json"))
	if err != nil {
		return err
	}
	for _, p := range paths {
		if r, err := readRecord(p); err == nil {
			if _, err := os.Lstat(r.Path); !errors.Is(err, fs.ErrNotExist) {
				continue
			}
		}
		if err := os.Remove(p); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
