// Package base makes base images from Debian packages at pinned versions, with
// mmdebstrap. The same recipe gives the same bytes on every host and from every
// mirror, so a base has a digest that nobody had to be trusted for.
//
// A recipe is a directory:
//
//	recipe.yaml   the suite, the packages asked for, and the time that files get
//	amd64.txt     all packages of an architecture, one NAME=VERSION a line, sorted
package base

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/quavon/quavon/runner/fault"
)

// Recipe is what a base is made of.
type Recipe struct {
	// Suite of Debian: "trixie".
	Suite string `yaml:"suite"`
	// Include names packages besides the essential ones and apt.
	Include []string `yaml:"include"`
	// Time is the latest that a file of the base may have.
	Time time.Time `yaml:"time"`
	// Pins are all packages by architecture, sorted: "adduser=3.152".
	Pins map[string][]string `yaml:"-"`
}

const maxFile = 1 << 20

var (
	suiteRE   = regexp.MustCompile(`^[a-z][a-z-]{1,30}$`)
	packageRE = regexp.MustCompile(`^[a-z0-9][a-z0-9+.-]+$`)
	pinRE     = regexp.MustCompile(`^[a-z0-9][a-z0-9+.-]+=[0-9][A-Za-z0-9.+:~-]*$`)
)

// Read reads and checks the recipe in dir.
func Read(dir string) (*Recipe, error) {
	r, err := read(os.DirFS(dir))
	if err != nil {
		return nil, fault.Wrap(err, "the recipe of a base in "+dir+" is not valid", "correct it; docs/images-shipped.md describes recipes")
	}
	return r, nil
}

func read(dir fs.FS) (*Recipe, error) {
	raw, err := readFile(dir, "recipe.yaml")
	if err != nil {
		return nil, err
	}
	r := &Recipe{Pins: map[string][]string{}}
	d := yaml.NewDecoder(bytes.NewReader(raw))
	d.KnownFields(true)
	if err := d.Decode(r); err != nil {
		return nil, fmt.Errorf("recipe.yaml: %w", err)
	}
	if err := r.check(); err != nil {
		return nil, fmt.Errorf("recipe.yaml: %w", err)
	}
	lists, err := fs.Glob(dir, "*.txt")
	if err != nil {
		return nil, err
	}
	for _, name := range lists {
		raw, err := readFile(dir, name)
		if err != nil {
			return nil, err
		}
		pins := strings.Split(strings.TrimSuffix(string(raw), "\n"), "\n")
		if err := checkPins(pins); err != nil {
			return nil, fmt.Errorf("%s:%w", name, err)
		}
		r.Pins[strings.TrimSuffix(name, ".txt")] = pins
	}
	return r, nil
}

func readFile(dir fs.FS, name string) ([]byte, error) {
	i, err := fs.Stat(dir, name)
	if err != nil {
		return nil, err
	}
	if !i.Mode().IsRegular() || i.Size() > maxFile {
		return nil, fmt.Errorf("%s is no file of at most %d bytes", name, maxFile)
	}
	return fs.ReadFile(dir, filepath.ToSlash(name))
}

func (r *Recipe) check() error {
	if !suiteRE.MatchString(r.Suite) {
		return fmt.Errorf("the suite %q is not a name such as trixie", r.Suite)
	}
	for _, p := range r.Include {
		if !packageRE.MatchString(p) {
			return fmt.Errorf("%q is not the name of a package", p)
		}
	}
	if r.Time.Unix() <= 0 {
		return errors.New("there is no time after 1970, such as 2026-01-01T00:00:00Z")
	}
	return nil
}

func checkPins(pins []string) error {
	for i, p := range pins {
		if !pinRE.MatchString(p) {
			return fmt.Errorf("%d: %q is not NAME=VERSION", i+1, p)
		}
		if i > 0 && name(pins[i-1]) >= name(p) {
			return fmt.Errorf("%d: %q is not after %q", i+1, p, pins[i-1])
		}
	}
	return nil
}

func name(pin string) string {
	name, _, _ := strings.Cut(pin, "=")
	return name
}

// differences says how what is there differs from the pins, in sorted order.
func differences(pins, there []string) []string {
	var out []string
	for _, p := range pins {
		if !slices.Contains(there, p) {
			out = append(out, "- "+p)
		}
	}
	for _, p := range there {
		if !slices.Contains(pins, p) {
			out = append(out, "+ "+p)
		}
	}
	slices.SortFunc(out, func(a, b string) int { return strings.Compare(a[2:]+a[:1], b[2:]+b[:1]) })
	return out
}
