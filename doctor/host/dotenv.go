package host

import (
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strings"

	"github.com/compose-spec/compose-go/v2/dotenv"

	"github.com/quavon/quavon/runner/fault"
)

// envSetting is one assignment of a .env file.
type envSetting struct {
	key, value string
	// line is its first one's number; raw is all of it, as it stands there, "" for a
	// name alone, whose value is the environment's.
	line int
	raw  string
	// unset are the variables in it that have no value.
	unset []string
}

// longestValue bounds the lines of a quoted value.
const longestValue = 200

// readEnv reads the .env file; a nil slice and no error is a host without one.
func (c Config) readEnv() (path, text string, all []envSetting, err error) {
	path, named := "", false
	if c.EnvFile != nil {
		path, named = c.EnvFile()
	}
	if path == "" {
		return "", "", nil, nil
	}
	data, err := c.Host.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !named:
		return "", "", nil, nil
	case errors.Is(err, fs.ErrNotExist):
		return path, "", nil, fault.New("there is no "+path, "correct --env-file")
	case err != nil:
		return path, "", nil, err
	}
	text = strings.TrimPrefix(string(data), "\xEF\xBB\xBF")
	all, err = c.statements(text)
	if err != nil {
		return path, text, nil, &unreadable{err}
	}
	return path, text, all, nil
}

// statements lets compose's own parser say where each assignment ends: a quoted value
// goes on until it can be read. Errors have a line and no value.
func (c Config) statements(text string) ([]envSetting, error) {
	lines := strings.SplitAfter(text, "\n")
	seen := map[string]string{}
	var all []envSetting
	for i := 0; i < len(lines); {
		if start := strings.TrimSpace(lines[i]); start == "" || start[0] == '#' {
			i++
			continue
		}
		found, n := c.statement(lines[i:], seen)
		if n == 0 {
			return nil, fmt.Errorf("line %d: compose can't read it, and so nothing of the file", i+1)
		}
		for _, s := range found {
			s.line = i + 1
			seen[s.key] = s.value
			all = append(all, s)
		}
		i += n
	}
	return all, nil
}

// statement reads the assignment that lines begin with, and says how many lines it
// has, 0 for none that can be read. There are more assignments than one when
// something follows a closing quote, and none for a name alone that this process's
// environment, from which compose takes it, doesn't have.
func (c Config) statement(lines []string, seen map[string]string) (found []envSetting, n int) {
	for n = 1; n <= min(len(lines), longestValue); n++ {
		raw := strings.Join(lines[:n], "")
		var unset []string
		values, err := dotenv.UnmarshalWithLookup(raw, func(name string) (string, bool) {
			v, ok := seen[name]
			if !ok {
				v = c.Host.Env(name)
			}
			used := strings.Contains(raw, "$"+name) || strings.Contains(raw, "${"+name+"}")
			if v == "" && used {
				unset = append(unset, name)
			}
			return v, v != "" || used // of variables without a value compose would warn by itself
		})
		if err != nil {
			continue
		}
		for _, key := range sortedKeys(values) {
			s := envSetting{key: key, value: values[key]}
			if key == nameOf(raw) || key == "" {
				s.raw, s.unset = raw, unset
			}
			found = append(found, s)
		}
		return found, n
	}
	return nil, 0
}

// nameOf is what an assignment is to.
func nameOf(raw string) string {
	name, _, _ := strings.Cut(raw, "=")
	name, _, _ = strings.Cut(name, ":")
	name = strings.TrimSpace(name)
	if rest, ok := strings.CutPrefix(name, "export"); ok && rest != "" && strings.TrimLeft(rest, " \t") != rest {
		name = strings.TrimSpace(rest)
	}
	return name
}

var secretName = regexp.MustCompile(`(?i)(PASSWORD|PASSWD|SECRET|TOKEN|CREDENTIAL|API_?KEY|SIGNING_KEY|VALKEY_URL)`)

// isSecret takes a setting for a secret by its name; one that names a file isn't.
func (s *envSetting) isSecret() bool {
	return s.value != "" && secretName.MatchString(s.key) && !strings.HasSuffix(s.key, "_FILE")
}

// spelling is what stands behind the name, and the quote it begins with, 0 for none.
func (s *envSetting) spelling() (text string, quote byte) {
	i := strings.IndexAny(s.raw, "=:")
	if i < 0 {
		return "", 0
	}
	text = strings.TrimSpace(s.raw[i+1:])
	if text != "" && (text[0] == '"' || text[0] == '\'') {
		quote = text[0]
	}
	return text, quote
}

// afterQuote is what follows the closing quote, which compose drops.
func afterQuote(text string, quote byte) string {
	for i := 1; i < len(text); i++ {
		if text[i] == quote && text[i-1] != '\\' {
			return strings.TrimSpace(text[i+1:])
		}
	}
	return ""
}

// EnvSecrets are the values in a .env file whose names are secrets', as compose reads
// them and as they stand there. Of a file that compose can't read they are what
// stands behind such a name on its line.
func EnvSecrets(h Host, file string) []string {
	_, text, all, err := Config{Host: h, EnvFile: func() (string, bool) { return file, true }}.readEnv()
	if err != nil {
		for line := range strings.Lines(text) {
			if name, value, ok := strings.Cut(line, "="); ok {
				all = append(all, envSetting{key: strings.TrimSpace(name), value: strings.Trim(strings.TrimSpace(value), `"'`), raw: line})
			}
		}
	}
	var out []string
	for _, s := range all {
		if s.isSecret() {
			text, _ := s.spelling()
			out = append(out, s.value, strings.Trim(text, `"'`))
		}
	}
	return out
}

// EnvListing is a .env file as compose reads it, with the values of secrets hidden.
func EnvListing(h Host, file string) (string, error) {
	_, _, all, err := Config{Host: h, EnvFile: func() (string, bool) { return file, true }}.readEnv()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, s := range all {
		value := s.value
		if s.isSecret() {
			value = "(hidden)"
		}
		fmt.Fprintf(&b, "%s=%q\n", s.key, value)
	}
	return b.String(), nil
}
