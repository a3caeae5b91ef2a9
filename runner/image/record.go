package image

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/renameio/v2"
	"golang.org/x/sys/unix"

	"github.com/quavon/quavon/runner/bounded"
	"github.com/quavon/quavon/runner/image/flatten"
)

const (
	recordVersion = 1
	// rootFormat is part of what a root is made from: raise it when the same
	// layers lead to other bytes.
	rootFormat = 1
)

// Record is what the store knows of an image. The image's identity is the digest
// of its config, which is the same in all sources and covers all layers.
type Record struct {
	Version  int         `json:"version"`
	Config   v1.Hash     `json:"config"`
	Platform v1.Platform `json:"platform"`
	// Names are the operator's; the record's file doesn't have them.
	Names []string `json:"names,omitempty"`
	// Origins are where the image came from, sorted.
	Origins []Origin  `json:"origins"`
	DiffIDs []v1.Hash `json:"diff_ids"`
	// Run is what the image's config says about running it.
	Run Run `json:"run"`
	// Root is the prepared root file system.
	Root RootFile `json:"root"`
	// Report is what the root leaves out of the layers.
	Report flatten.Report `json:"report"`
}

// Origin is one place an image was imported from. The digests are empty where
// the source has none.
type Origin struct {
	From     string `json:"from"`
	Index    string `json:"index,omitempty"`
	Manifest string `json:"manifest,omitempty"`
}

// Run is how an image wants to be run.
type Run struct {
	User       string   `json:"user,omitempty"`
	Env        []string `json:"env,omitempty"`
	WorkDir    string   `json:"workdir,omitempty"`
	Entrypoint []string `json:"entrypoint,omitempty"`
	Cmd        []string `json:"cmd,omitempty"`
}

// RootFile is a root's EROFS image on disk.
type RootFile struct {
	Format int `json:"format"`
	// Hash is sha256 over the sha256 of each MiB, in hexadecimal.
	Hash string `json:"hash"`
	Size int64  `json:"size"`
	// Allocated bytes on disk; holes make it less than Size.
	Allocated int64 `json:"allocated"`
	Entries   int64 `json:"entries"`
	// Passwd and Group say where /etc/passwd and /etc/group lie in the file.
	Passwd Extent `json:"passwd"`
	Group  Extent `json:"group"`
	// Seen is the file as it was when its content was last known to be right.
	Seen Identity `json:"seen"`
}

// Extent is a piece of a file, in bytes.
type Extent struct {
	Offset int64 `json:"offset"`
	Size   int64 `json:"size"`
}

// Identity changes whenever a file's content does.
type Identity struct {
	Dev   uint64 `json:"dev"`
	Inode uint64 `json:"inode"`
	Size  int64  `json:"size"`
	Mtime int64  `json:"mtime_ns"`
	Ctime int64  `json:"ctime_ns"`
}

// Identify tells what a file is now.
func Identify(f *os.File) (Identity, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return Identity{}, &fs.PathError{Op: "stat", Path: f.Name(), Err: err}
	}
	return Identity{st.Dev, st.Ino, st.Size, st.Mtim.Nano(), st.Ctim.Nano()}, nil
}

// has says whether a digest names the image: its config, manifest or index.
func (r *Record) has(digest string) bool {
	if digest == "" {
		return false
	}
	if r.Config.String() == digest {
		return true
	}
	return slices.ContainsFunc(r.Origins, func(o Origin) bool { return o.Index == digest || o.Manifest == digest })
}

func (r *Record) addOrigin(o Origin) {
	if slices.Contains(r.Origins, o) {
		return
	}
	r.Origins = append(r.Origins, o)
	slices.SortFunc(r.Origins, func(a, b Origin) int {
		return strings.Compare(a.From+a.Manifest+a.Index, b.From+b.Manifest+b.Index)
	})
}

// maxRecord bounds a record's file.
const maxRecord = 8 << 20

func readRecord(path string) (*Record, error) {
	raw, err := bounded.ReadFile(path, maxRecord)
	if err != nil {
		return nil, err
	}
	r := new(Record)
	if err := json.Unmarshal(raw, r); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if r.Version != recordVersion || hexOf(path) != r.Config.Hex {
		return nil, fmt.Errorf("%s: not a record of version %d for this image", path, recordVersion)
	}
	return r, nil
}

func hexOf(path string) string { return strings.TrimSuffix(filepath.Base(path), ".json") }

func (r *Record) write(path string) error {
	nameless := *r
	nameless.Names = nil
	raw, err := json.MarshalIndent(nameless, "", "  ")
	if err != nil {
		return err
	}
	return renameio.WriteFile(path, append(raw, '\n'), 0o600)
}

// records reads all records, sorted by digest. Those that can't be read are
// joined in the error; the rest are returned.
func (s *Store) records() ([]*Record, error) {
	paths, err := filepath.Glob(filepath.Join(s.dir, recordsDir, "*.json"))
	if err != nil {
		return nil, err
	}
	var all []*Record
	named, err := s.readNames()
	errs := []error{err}
	for _, p := range paths {
		r, err := readRecord(p)
		switch {
		case err == nil:
			r.Names = named.of(r.Config)
			all = append(all, r)
		case !errors.Is(err, fs.ErrNotExist): // removed meanwhile
			errs = append(errs, err)
		}
	}
	return all, errors.Join(errs...)
}
