package files

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// glob is what is left of a pattern below some directory, one element per path
// component. It is never empty.
type glob []string

// globs is the state of matching patterns along a path. Carrying it down the
// walk prunes directories in which nothing can match.
type globs []glob

const anyDepth = "**"

// everything matches all paths.
var everything = globs{{anyDepth}}

// compile checks patterns and splits them. Each component is matched by
// doublestar, "**" as a component stands for any number of them, also none.
func compile(patterns []string) (globs, error) {
	if len(patterns) == 0 {
		return everything, nil
	}
	var gs globs
	for _, p := range patterns {
		g, err := split(p)
		if err != nil {
			return nil, fmt.Errorf("glob %q: %w", p, err)
		}
		gs = append(gs, g)
	}
	return gs, nil
}

func split(pattern string) (glob, error) {
	if !doublestar.ValidatePattern(pattern) {
		return nil, doublestar.ErrBadPattern
	}
	clean := path.Clean(pattern)
	if clean == "." {
		return everything[0], nil
	}
	g := glob(strings.Split(clean, "/"))
	if g[0] == "" || g[0] == ".." {
		return nil, errors.New(`must be relative and stay below the directory`)
	}
	for _, part := range g {
		if !doublestar.ValidatePattern(part) {
			return nil, errors.New(`"/" inside braces or brackets: give one glob for each alternative`)
		}
	}
	return g, nil
}

// step matches one more component. It returns the state below it and whether
// a pattern ends here.
func (gs globs) step(name string) (below globs, hit bool) {
	add := func(g glob) {
		hit = hit || !slices.ContainsFunc(g, func(part string) bool { return part != anyDepth })
		known := func(h glob) bool { return &h[0] == &g[0] }
		if len(g) > 0 && !slices.ContainsFunc(below, known) {
			below = append(below, g)
		}
	}
	for _, g := range gs {
		for len(g) > 0 && g[0] == anyDepth {
			add(g)
			g = g[1:]
		}
		if len(g) > 0 && doublestar.MatchUnvalidated(g[0], name) {
			add(g[1:])
		}
	}
	return below, hit
}
