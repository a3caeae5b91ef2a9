package lock

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

// value is a JSON value that knows where it stands.
type value struct {
	off int64
	// is: *object, []value, string, json.Number, bool or nil.
	is any
}

type object struct {
	keys   []string
	fields map[string]value
}

const maxDepth = 16

// document parses JSON strictly: one value, no key twice, valid UTF-8.
type document struct {
	name string
	raw  []byte
	d    *json.Decoder
}

// fail is an error with the line of an offset.
func (p *document) fail(off int64, format string, args ...any) error {
	off = min(max(off, 0), int64(len(p.raw)))
	line := 1 + bytes.Count(p.raw[:off], []byte("\n"))
	return fmt.Errorf("%s:%d: %w", p.name, line, fmt.Errorf(format, args...))
}

func (p *document) parse() (value, error) {
	if !utf8.Valid(p.raw) {
		return value{}, p.fail(int64(invalidAt(p.raw)), "the text is not UTF-8")
	}
	p.d = json.NewDecoder(bytes.NewReader(p.raw))
	p.d.UseNumber()
	v, err := p.value(0)
	if err != nil {
		return v, err
	}
	if _, err := p.d.Token(); !errors.Is(err, io.EOF) {
		return v, p.fail(p.d.InputOffset(), "something follows the document")
	}
	return v, nil
}

func invalidAt(b []byte) int {
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return len(b)
}

func (p *document) token() (json.Token, int64, error) {
	t, err := p.d.Token()
	off := p.d.InputOffset()
	if err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			off = syntax.Offset
		}
		if errors.Is(err, io.EOF) {
			err = errors.New("the document ends too early")
		}
		return t, off, p.fail(off, "%w", err)
	}
	return t, off, nil
}

func (p *document) value(depth int) (value, error) {
	t, off, err := p.token()
	if err != nil {
		return value{}, err
	}
	if depth > maxDepth {
		return value{}, p.fail(off, "nested too deep")
	}
	switch t {
	case json.Delim('{'):
		o, err := p.object(depth)
		return value{off, o}, err
	case json.Delim('['):
		var list []value
		for p.d.More() {
			v, err := p.value(depth + 1)
			if err != nil {
				return v, err
			}
			list = append(list, v)
		}
		_, _, err := p.token()
		return value{off, list}, err
	}
	return value{off, t}, nil
}

func (p *document) object(depth int) (*object, error) {
	o := &object{fields: map[string]value{}}
	for p.d.More() {
		t, off, err := p.token()
		if err != nil {
			return nil, err
		}
		key, _ := t.(string)
		if _, twice := o.fields[key]; twice {
			return nil, p.fail(off, "%q is there twice", key)
		}
		v, err := p.value(depth + 1)
		if err != nil {
			return nil, err
		}
		o.keys = append(o.keys, key)
		o.fields[key] = v
	}
	_, _, err := p.token()
	return o, err
}
