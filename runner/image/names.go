package image

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

	"github.com/gofrs/flock"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/renameio/v2"

	"github.com/quavon/quavon/runner/bounded"
)

// names maps the operator's names to the digests of configs. One file has them
// all, so that a name can't belong to two images.
type names map[string]v1.Hash

func (s *Store) namesFile() string { return filepath.Join(s.dir, "names.json") }

func (s *Store) readNames() (names, error) {
	n := names{}
	raw, err := bounded.ReadFile(s.namesFile(), maxRecord)
	if errors.Is(err, fs.ErrNotExist) {
		return n, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(raw, &n); err != nil {
		return nil, fmt.Errorf("%s: %w", s.namesFile(), err)
	}
	return n, nil
}

// changeNames writes what change makes of the names.
func (s *Store) changeNames(ctx context.Context, change func(names)) (err error) {
	l := flock.New(filepath.Join(s.dir, locksDir, "names"))
	if _, err := l.TryLockContext(ctx, pollLock); err != nil {
		return errors.Join(err, l.Close())
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	n, err := s.readNames()
	if err != nil {
		return err
	}
	before := maps.Clone(n)
	if change(n); maps.Equal(n, before) {
		return nil
	}
	raw, err := json.MarshalIndent(n, "", "  ")
	if err != nil {
		return err
	}
	return renameio.WriteFile(s.namesFile(), append(raw, '\n'), 0o600)
}

// Rename gives an image a name, which another image loses.
func (s *Store) Rename(ctx context.Context, r *Record, name string) error {
	return s.name(ctx, r, name)
}

// of lists an image's names, sorted.
func (n names) of(id v1.Hash) []string {
	var list []string
	for name, at := range n {
		if at == id {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return list
}
