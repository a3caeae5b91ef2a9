package inputs

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// instruction is one instruction of a Dockerfile, continued lines joined.
type instruction struct {
	line  int
	words []string
}

var (
	directive = regexp.MustCompile(`^#\s*(syntax|escape)\s*=`)
	heredoc   = regexp.MustCompile(`(?:^|[^<])<<-?["']?([A-Za-z_][A-Za-z0-9_]*)["']?`)
	variable  = regexp.MustCompile(`^\$(?:\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Za-z_][A-Za-z0-9_]*))$`)
)

// CheckDockerfile refuses a Dockerfile that takes anything from elsewhere which
// the declaration doesn't pin: images other than those behind the build arguments
// bases, another frontend, files of the web without a checksum. Errors begin with
// name and line.
func CheckDockerfile(name string, text []byte, bases map[string]string) error {
	list, err := instructions(string(text))
	if err != nil {
		return fmt.Errorf("%s:%w", name, err)
	}
	c := &checker{bases: bases, stages: map[string]bool{}}
	for _, i := range list {
		if err := c.check(i.words); err != nil {
			return fmt.Errorf("%s:%d: %w", name, i.line, err)
		}
	}
	if c.count == 0 {
		return fmt.Errorf("%s:1: there is no FROM", name)
	}
	return nil
}

// instructions splits a Dockerfile. Bodies of here-documents are left out.
func instructions(text string) (list []instruction, err error) {
	var (
		joined string
		start  int
		until  []string
	)
	for n, line := range strings.Split(text, "\n") {
		plain := strings.TrimSpace(line)
		switch {
		case len(until) > 0 && joined == "":
			if plain == until[0] {
				until = until[1:]
			}
			continue
		case directive.MatchString(strings.ToLower(plain)) && len(list) == 0 && joined == "":
			return nil, fmt.Errorf("%d: %s: other frontends and escapes are not used here", n+1, plain)
		case plain == "" || plain[0] == '#':
			continue
		}
		if joined == "" {
			start = n + 1
		}
		body, more := strings.CutSuffix(strings.TrimRight(line, " \t\r"), `\`)
		joined += body
		if words := strings.Fields(joined); !more && len(words) > 0 {
			until = heredocs(words[0], joined)
			list, joined = append(list, instruction{start, words}), ""
		}
	}
	if words := strings.Fields(joined); len(words) > 0 {
		list = append(list, instruction{start, words})
	}
	if len(until) > 0 {
		return nil, fmt.Errorf("%d: the here-document has no end %s", start, until[0])
	}
	return list, nil
}

// heredocs returns the ends of the here-documents that an instruction begins.
func heredocs(name, text string) (until []string) {
	switch strings.ToUpper(name) {
	case "RUN", "COPY", "ADD", "ONBUILD":
		for _, m := range heredoc.FindAllStringSubmatch(text, -1) {
			until = append(until, m[1])
		}
	}
	return until
}

type checker struct {
	bases  map[string]string
	stages map[string]bool
	count  int
}

func (c *checker) check(words []string) error {
	switch strings.ToUpper(words[0]) {
	case "ONBUILD":
		if len(words) > 1 {
			return c.check(words[1:])
		}
	case "FROM":
		return c.from(words[1:])
	case "ADD":
		return checkAdd(words[1:])
	case "COPY":
		return c.flags(words[1:], "--from=")
	case "RUN":
		return c.mounts(words[1:])
	}
	return nil
}

func (c *checker) from(words []string) error {
	for len(words) > 0 && strings.HasPrefix(words[0], "--") {
		words = words[1:]
	}
	if len(words) == 0 {
		return errors.New("FROM names no image")
	}
	if err := c.image(words[0]); err != nil {
		return err
	}
	if len(words) == 3 && strings.EqualFold(words[1], "AS") {
		c.stages[strings.ToLower(words[2])] = true
	}
	c.stages[fmt.Sprint(c.count)] = true
	c.count++
	return nil
}

// image is a base's build argument, an earlier stage or nothing.
func (c *checker) image(ref string) error {
	ref = strings.Trim(ref, `"`)
	if ref == "scratch" || c.stages[strings.ToLower(ref)] {
		return nil
	}
	if m := variable.FindStringSubmatch(ref); m != nil {
		if _, ok := c.bases[m[1]+m[2]]; ok {
			return nil
		}
		return fmt.Errorf("the build argument of %s is not among the image's bases in the declaration", ref)
	}
	return fmt.Errorf("the image %s is not pinned: declare it under bases and write ARG NAME and FROM $NAME", ref)
}

func (c *checker) flags(words []string, flag string) error {
	for _, w := range words {
		if ref, is := strings.CutPrefix(w, flag); is {
			if err := c.image(ref); err != nil {
				return err
			}
		}
	}
	return nil
}

// mounts checks RUN --mount=type=bind,from=IMAGE.
func (c *checker) mounts(words []string) error {
	for _, w := range words {
		mount, is := strings.CutPrefix(w, "--mount=")
		if !is {
			continue
		}
		if err := c.flags(strings.Split(mount, ","), "from="); err != nil {
			return err
		}
	}
	return nil
}

func checkAdd(words []string) error {
	pinned := false
	for _, w := range words {
		pinned = pinned || strings.HasPrefix(w, "--checksum=sha256:")
		if (strings.Contains(w, "://") || strings.HasPrefix(w, "git@")) && !pinned {
			return fmt.Errorf("ADD %s is not pinned: add --checksum=sha256:…", w)
		}
	}
	return nil
}
