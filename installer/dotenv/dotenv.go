// Package dotenv changes single settings of a .env file as docker compose reads it.
// Comments, order, spelling, line endings and every byte of other settings stay. What
// a change leads to is checked with compose's own parser before anybody sees it.
//
// The file is compose's. Others read the same file by other rules (docker's
// --env-file knows no quotes, a shell runs it): values are written bare where that is
// possible, which all of them read alike.
package dotenv

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/compose-spec/compose-go/v2/dotenv"

	"github.com/quavon/quavon/runner/fault"
)

// MaxSize bounds a file, in bytes.
const MaxSize = 1 << 20

const bom = "\xEF\xBB\xBF"

// File is a .env file. The zero value is an empty one.
type File struct {
	text   string
	marked bool
	values map[string]string
}

// Parse reads a file's content. What compose refuses is refused, with the line and
// never with what is in it.
func Parse(data []byte) (*File, error) {
	if len(data) > MaxSize {
		return nil, fault.New(fmt.Sprintf("the file has %d bytes", len(data)), fmt.Sprintf("no .env file needs more than %d", MaxSize))
	}
	f := &File{}
	f.text, f.marked = strings.CutPrefix(string(data), bom)
	if n := loneReturn(f.text); n > 0 {
		return nil, fault.New(fmt.Sprintf("line %d: a carriage return alone is no line's end to compose", n),
			"convert the file: `tr '\\r' '\\n'`, or dos2unix -c mac")
	}
	var err error
	f.values, err = read(f.text)
	return f, err
}

// loneReturn is the line of the first carriage return within a line, 0 for none.
func loneReturn(text string) int {
	for i := 0; i < len(text); i++ {
		if text[i] == '\r' && i+1 < len(text) && text[i+1] != '\n' {
			return 1 + strings.Count(text[:i], "\n")
		}
	}
	return 0
}

// read is compose's view of a text without a byte order mark.
func read(text string) (map[string]string, error) {
	values, err := dotenv.UnmarshalWithLookup(text, nil)
	if err == nil {
		return values, nil
	}
	// The parser's own words quote values.
	line := failingLine(text, err)
	return nil, fault.New(fmt.Sprintf("line %d: compose can't read it", line),
		"correct the line: names are letters, digits and _, values with spaces, quotes or $ stand in 'single quotes'")
}

var namesLine = regexp.MustCompile(`^line (\d+): (unexpected character|key cannot)`)

// failingLine is the line of what the parser refused. For names it tells; an open
// quote it notices at the end of the file, and of a bad ${ it only shows the value.
func failingLine(text string, err error) int {
	if m := namesLine.FindStringSubmatch(err.Error()); m != nil {
		n, _ := strconv.Atoi(m[1]) // digits
		return n
	}
	for _, s := range scan(text) {
		raw := text[s.begin:s.end]
		if _, err := dotenv.UnmarshalWithLookup("A="+raw, nil); err != nil {
			return 1 + strings.Count(text[:s.start], "\n")
		}
	}
	return 1 + strings.Count(text, "\n")
}

// Bytes is the file's content.
func (f *File) Bytes() []byte {
	if f.marked {
		return []byte(bom + f.text)
	}
	return []byte(f.text)
}

// Get is a setting's value as compose reads it.
func (f *File) Get(key string) (string, bool) {
	v, ok := f.values[key]
	return v, ok
}

var (
	keyForm = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	bare    = regexp.MustCompile(`^[A-Za-z0-9_./:@%+,-]*$`)
)

// Set gives a setting a value: on the line that counts when there is one, else on a
// new line at the end. The same value again changes nothing.
func (f *File) Set(key, value string) error {
	if !keyForm.MatchString(key) {
		return fault.New(fmt.Sprintf("%q is no name for a setting", key), "use letters, digits and _")
	}
	if old, ok := f.values[key]; ok && old == value {
		return nil
	}
	s, found := f.effective(key)
	if !found {
		text, err := spell(value, 0)
		if err != nil {
			return wrap(key, err)
		}
		return f.take(f.withLine(key+"="+text), key, &value)
	}
	text, err := spell(value, s.quote)
	if err != nil {
		return wrap(key, err)
	}
	rest := f.text[s.end:]
	if s.quote == 0 && s.begin < s.end && f.text[s.begin] == '#' {
		// compose takes a comment right behind "=" for the value, its writer did not.
		rest = " " + f.text[s.begin:]
	}
	return f.take(f.text[:s.begin]+text+rest, key, &value)
}

// Unset removes a setting: all its lines, with their comments.
func (f *File) Unset(key string) error {
	text := f.text
	for {
		s, found := last(text, key)
		if !found {
			return f.take(text, key, nil)
		}
		begin := 1 + strings.LastIndexByte(text[:s.start], '\n')
		end := len(text)
		if i := strings.IndexByte(text[s.end:], '\n'); i >= 0 {
			end = s.end + i + 1
		}
		before := strings.TrimSpace(text[begin:s.start])
		after := strings.TrimSpace(text[s.end:end])
		if before != "" || (after != "" && after[0] != '#') {
			return fault.New(key+" shares its line with something else", "put each setting on a line of its own")
		}
		text = text[:begin] + text[end:]
	}
}

func wrap(key string, err error) error {
	return fault.Wrap(err, "the value of "+key+" can't be written to .env", "use a value without line breaks and backslashes")
}

// effective is the statement whose value counts: the last assignment.
func (f *File) effective(key string) (statement, bool) { return last(f.text, key) }

func last(text, key string) (found statement, ok bool) {
	for _, s := range scan(text) {
		if s.key == key && !s.inherited {
			found, ok = s, true
		}
	}
	return found, ok
}

// spell writes a value so that compose reads it back: as it is, or in the quotes that
// are there, or in single quotes, in which nothing but a quote is special.
func spell(value string, quote byte) (string, error) {
	switch {
	case strings.ContainsAny(value, "\n\r\x00"):
		return "", errors.New("it has a line break")
	case quote == 0 && bare.MatchString(value):
		return value, nil
	case quote == '"' && !strings.ContainsAny(value, "$\\\""):
		return `"` + value + `"`, nil
	case strings.HasSuffix(value, `\`), strings.Contains(value, `\'`):
		return "", errors.New("a backslash before a quote has no spelling")
	}
	return "'" + strings.ReplaceAll(value, "'", `\'`) + "'", nil
}

// withLine is the text with a line more, in its own line endings.
func (f *File) withLine(line string) string {
	eol := "\n"
	if strings.Contains(f.text, "\r\n") {
		eol = "\r\n"
	}
	text := f.text
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += eol
	}
	return text + line + eol
}

// take makes text the file's when compose reads from it what was meant: key as value,
// nil for none, and all else as before.
func (f *File) take(text, key string, value *string) error {
	values, err := read(text)
	if err != nil {
		return err
	}
	if got, ok := values[key]; ok != (value != nil) || ok && got != *value {
		return fault.New("compose would not read "+key+" as it was meant", "write the line by hand")
	}
	for name := range union(f.values, values) {
		a, had := f.values[name]
		b, has := values[name]
		// An unnamed value is a name at the end without a newline, which it now has.
		if name == key || name == "" || a == b && had == has {
			continue
		}
		if had && has && f.refers(name) {
			continue
		}
		return fault.New(fmt.Sprintf("changing %s would change %s too", key, name), "write each setting on a line of its own")
	}
	f.text, f.values = text, values
	return nil
}

func union(a, b map[string]string) map[string]bool {
	all := map[string]bool{}
	for k := range a {
		all[k] = true
	}
	for k := range b {
		all[k] = true
	}
	return all
}

// refers says whether a setting's value is made of others.
func (f *File) refers(name string) bool {
	s, ok := f.effective(name)
	return ok && s.quote != '\'' && bytes.ContainsRune([]byte(f.text[s.begin:s.end]), '$')
}
