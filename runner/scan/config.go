package scan

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
	"go.yaml.in/yaml/v3"

	"github.com/quavon/quavon/runner/fault"
)

// ConfigFile is where a repository says how it is scanned.
const ConfigFile = ".quavon/config.yml"

// MaxConfig bounds a configuration, in bytes.
const MaxConfig = 64 << 10

// Bounds of its lists, and of a pattern in bytes and in what its braces come to.
const (
	maxIgnore       = 256
	maxPattern      = 512
	maxAlternatives = 32
)

// Config is the part of a repository's configuration that is about scanning.
type Config struct {
	// Disable lists scanners that don't run.
	Disable []string `yaml:"disable"`
	// IgnorePaths lists patterns of paths whose findings don't count.
	IgnorePaths []string `yaml:"ignorePaths"`
}

// ParseConfig reads a configuration; other parts of it are somebody else's.
func ParseConfig(text []byte) (Config, error) {
	var doc struct {
		Tools struct {
			SAST Config `yaml:"sast"`
		} `yaml:"tools"`
	}
	err := errors.New("it is too long")
	if len(text) <= MaxConfig {
		err = yaml.Unmarshal(text, &doc)
	}
	if err == nil {
		err = doc.Tools.SAST.check()
	}
	if err != nil {
		return Config{}, fault.Wrap(err, "read "+ConfigFile, "correct it on the base branch; docs/scan.md shows its form")
	}
	return doc.Tools.SAST, nil
}

func (c Config) check() error {
	for _, name := range c.Disable {
		if !Known(name) {
			return fmt.Errorf("tools.sast.disable has %.40q, which is none of %s", name, strings.Join(Names(), ", "))
		}
	}
	if len(c.IgnorePaths) > maxIgnore {
		return fmt.Errorf("tools.sast.ignorePaths has more than %d patterns", maxIgnore)
	}
	for _, p := range c.IgnorePaths {
		// Each ** tries every depth anew, each pair of braces all that follows.
		costly := len(p) > maxPattern || strings.Count(p, "**") > 3 || alternatives(p) > maxAlternatives
		if p == "" || costly || !doublestar.ValidatePattern(p) {
			return fmt.Errorf("tools.sast.ignorePaths has %.100q, which is no pattern like vendor/**", p)
		}
	}
	return nil
}

// alternatives is at most how many patterns a pattern with braces stands for.
func alternatives(pattern string) int {
	all, here := 1, 1
	for _, c := range pattern {
		switch c {
		case '{':
			here = 1
		case ',':
			here++
		case '}':
			if all *= here; all > maxAlternatives {
				return all
			}
		}
	}
	return all
}

// Ignore leaves out findings in paths that match one of the patterns, from the top of
// the repository.
func (r *Report) Ignore(patterns []string) {
	r.keep(func(f Finding) bool {
		return !slices.ContainsFunc(patterns, func(p string) bool {
			ok, _ := doublestar.Match(strings.TrimPrefix(p, "/"), f.Path)
			return ok
		})
	}, &r.Ignored)
}
