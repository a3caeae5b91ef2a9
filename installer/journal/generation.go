package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/quavon/quavon/installer/regular"
	"github.com/quavon/quavon/runner/fault"
)

const (
	generationDir  = "generations"
	maxGenerations = 3
)

// Generation is what an installation that succeeded was made of.
type Generation struct {
	Schema  int       `json:"schema"`
	Number  int       `json:"number"`
	Version string    `json:"version"`
	At      time.Time `json:"at"`
	Files   []Saved   `json:"files"`
	// Beside are the operator's files that bore on it, by path with their sha256, "" for one
	// that wasn't there. nil in what an earlier quavon wrote.
	Beside map[string]string `json:"beside,omitempty"`
}

// Saved is a file, or a link.
type Saved struct {
	Path     string      `json:"path"`
	Contents string      `json:"contents,omitempty"`
	Mode     fs.FileMode `json:"mode,omitempty"`
	Link     string      `json:"link,omitempty"`
}

// Keep copies files and links away as a new generation, unless the current one is the
// same. What isn't there is left out. Of the watched files it notes what they are.
func (j *Journal) Keep(paths, watched []string) (made bool, err error) {
	g := Generation{Schema: Schema, Version: j.Version, At: time.Now().UTC().Truncate(time.Second)}
	if g.Beside, err = digests(watched); err != nil {
		return false, err
	}
	data := map[string][]byte{}
	for _, path := range paths {
		s, content, err := saved(path)
		if err != nil {
			return false, err
		}
		if s.Path != "" {
			g.Files = append(g.Files, s)
			data[s.Contents] = content
		}
	}
	all, err := j.Generations()
	if err != nil {
		return false, err
	}
	for _, old := range all {
		if old.Number == j.state.Generation && slices.Equal(old.Files, g.Files) && old.Version == g.Version {
			return false, j.setBeside(old, g.Beside)
		}
		// A newer one was left by a rollback, or by a process that was killed: it isn't
		// what stood before.
		if old.Number > j.state.Generation {
			if err := os.RemoveAll(filepath.Join(j.Dir, generationDir, strconv.Itoa(old.Number))); err != nil {
				return false, err
			}
		}
	}
	all = slices.DeleteFunc(all, func(old Generation) bool { return old.Number > j.state.Generation })
	g.Number = j.state.Generation + 1
	return true, j.addGeneration(g, data, all)
}

// setBeside notes what bears on a generation by now.
func (j *Journal) setBeside(g Generation, beside map[string]string) error {
	if maps.Equal(g.Beside, beside) {
		return nil
	}
	g.Beside = beside
	return j.save(filepath.Join(generationDir, strconv.Itoa(g.Number), manifestName), g)
}

func digests(paths []string) (map[string]string, error) {
	all := map[string]string{}
	for _, path := range paths {
		data, err := regular.ReadFile(path, MaxFile)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		if all[path] = ""; err == nil {
			all[path] = digest(data)
		}
	}
	return all, nil
}

// Differing are the files beside a generation that aren't what they were when it was made.
func (g Generation) Differing() ([]string, error) {
	now, err := digests(slices.Sorted(maps.Keys(g.Beside)))
	var all []string
	for _, path := range slices.Sorted(maps.Keys(now)) {
		if now[path] != g.Beside[path] {
			all = append(all, path)
		}
	}
	return all, err
}

func saved(path string) (Saved, []byte, error) {
	if target, err := os.Readlink(path); err == nil {
		return Saved{Path: path, Link: target}, nil, nil
	}
	l, err := read(path)
	if err != nil || !l.Existed {
		return Saved{}, nil, err
	}
	return Saved{Path: path, Contents: l.Contents, Mode: l.Mode}, l.data, nil
}

func (j *Journal) addGeneration(g Generation, data map[string][]byte, old []Generation) error {
	name := filepath.Join(generationDir, strconv.Itoa(g.Number))
	dir := filepath.Join(j.Dir, name)
	// What a killed process left has no manifest, and is made anew.
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o700)); err != nil {
		return err
	}
	own := look{Mode: 0o600, UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}
	for contents, content := range data {
		if contents == "" {
			continue
		}
		if err := j.replace(filepath.Join(dir, contents), content, own); err != nil {
			return err
		}
	}
	if err := j.save(filepath.Join(name, manifestName), g); err != nil {
		return err
	}
	if err := j.setGeneration(g.Number); err != nil {
		return err
	}
	for i := 0; i < len(old)-maxGenerations+1; i++ {
		if err := os.RemoveAll(filepath.Join(j.Dir, generationDir, strconv.Itoa(old[i].Number))); err != nil {
			return err
		}
	}
	return nil
}

const manifestName = "manifest.json"

func (j *Journal) setGeneration(n int) error {
	j.state.Generation = n
	return j.saveState()
}

// Generations are those that are kept, oldest first.
func (j *Journal) Generations() ([]Generation, error) {
	entries, err := os.ReadDir(filepath.Join(j.Dir, generationDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var all []Generation
	for _, e := range entries {
		var g Generation
		path := filepath.Join(j.Dir, generationDir, e.Name(), manifestName)
		switch err := readJSON(path, &g); {
		case errors.Is(err, fs.ErrNotExist):
			continue // never finished
		case err != nil:
			return nil, fault.Wrap(err, "read what was installed, "+path, "remove "+filepath.Dir(path))
		}
		if err := known(g.Schema, g.Version); err != nil {
			return nil, fault.Wrap(err, "read what was installed, "+path, "use the quavon that wrote it")
		}
		all = append(all, g)
	}
	slices.SortFunc(all, func(a, b Generation) int { return a.Number - b.Number })
	return all, err
}

// Current is the generation that stands, ok is false for none.
func (j *Journal) Current() (g Generation, ok bool, err error) {
	all, err := j.Generations()
	i := slices.IndexFunc(all, func(g Generation) bool { return g.Number == j.state.Generation })
	if err != nil || i < 0 {
		return g, false, err
	}
	return all[i], true, nil
}

// Previous is the newest generation before the one that stands.
func (j *Journal) Previous() (g Generation, ok bool, err error) {
	all, err := j.Generations()
	for _, x := range all {
		if x.Number < j.state.Generation {
			g, ok = x, true
		}
	}
	return g, ok, err
}

// Restore puts a generation's files back; what only the current one has is removed.
func (t *Tx) Restore(g Generation) error {
	current, ok, err := t.j.Current()
	if err != nil {
		return err
	}
	for _, s := range current.Files {
		same := func(x Saved) bool { return x.Path == s.Path }
		if ok && s.Link == "" && !slices.ContainsFunc(g.Files, same) {
			if err := t.Remove(s.Path); err != nil {
				return err
			}
		}
	}
	for _, s := range g.Files {
		if err := t.restoreOne(g, s); err != nil {
			return fault.Wrap(err, "put back "+s.Path, "")
		}
	}
	return nil
}

func (t *Tx) restoreOne(g Generation, s Saved) error {
	if s.Link != "" {
		return t.Symlink(s.Link, s.Path)
	}
	path := filepath.Join(t.j.Dir, generationDir, strconv.Itoa(g.Number), s.Contents)
	l, err := read(path)
	if err != nil {
		return err
	}
	if !l.Existed || l.Contents != s.Contents {
		return fmt.Errorf("%s is missing or damaged", path)
	}
	return t.WriteFile(s.Path, l.data, s.Mode)
}

// CommitTo makes all steps stand, and g the current generation.
func (t *Tx) CommitTo(g Generation) error {
	t.j.state.Generation = g.Number
	return t.Commit()
}
