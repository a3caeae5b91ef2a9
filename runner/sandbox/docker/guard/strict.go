package guard

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// maxDepth bounds nesting.
const maxDepth = 12

// parse reads one JSON value and refuses what two readers could take for two
// things: a key that comes twice, in whatever case, text that isn't UTF-8, or
// something behind the value.
func parse(data []byte) (any, error) {
	if !utf8.Valid(data) {
		return nil, errors.New("not UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	v, err := value(d, 0)
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something behind the value")
	}
	return v, nil
}

func value(d *json.Decoder, depth int) (any, error) {
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	delim, ok := t.(json.Delim)
	if !ok {
		return t, nil
	}
	if depth == maxDepth {
		return nil, errors.New("nested too deeply")
	}
	if delim == '[' {
		return array(d, depth+1)
	}
	return members(d, depth+1)
}

func array(d *json.Decoder, depth int) (any, error) {
	list := []any{}
	for d.More() {
		v, err := value(d, depth)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	_, err := d.Token()
	return list, err
}

func members(d *json.Decoder, depth int) (any, error) {
	m := map[string]any{}
	seen := map[string]bool{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, err
		}
		key, ok := t.(string)
		if !ok {
			return nil, errors.New("a key that is no string")
		}
		// Go's decoder folds more than ASCII: the Kelvin sign is a k to it.
		fold := strings.ToLower(strings.ToUpper(key))
		if seen[fold] {
			return nil, fmt.Errorf("the key %.60q twice", key)
		}
		seen[fold] = true
		if m[key], err = value(d, depth); err != nil {
			return nil, err
		}
	}
	_, err := d.Token()
	return m, err
}

// keys says which keys an object may have: "" that its value may be anything, which
// is then checked in its type; "zero" that it must say nothing. Others name a
// further schema, for the object or for each element of the list.
type keys map[string]string

// conforms checks a parsed value against a schema.
func conforms(v any, schemas map[string]keys, name string) error {
	if v == nil {
		return nil
	}
	if list, ok := v.([]any); ok {
		for _, e := range list {
			if err := conforms(e, schemas, name); err != nil {
				return err
			}
		}
		return nil
	}
	m, ok := v.(map[string]any)
	if !ok {
		return fmt.Errorf("%s is no object", name)
	}
	for k, v := range m {
		kind, known := schemas[name][k]
		switch {
		case !known:
			return fmt.Errorf("the key %.60q", k)
		case kind == "":
		case kind == neutral:
			if !isZero(v) {
				return fmt.Errorf("%s is set", k)
			}
		default:
			if err := conforms(v, schemas, kind); err != nil {
				return err
			}
		}
	}
	return nil
}

const neutral = "zero"

// isZero says whether a value is what an engine takes for "not given".
func isZero(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case string:
		return v == ""
	case bool:
		return !v
	case json.Number:
		return v == "0"
	case []any:
		for _, e := range v {
			if !isZero(e) {
				return false
			}
		}
		return true
	case map[string]any:
		for _, e := range v {
			if !isZero(e) {
				return false
			}
		}
		return true
	}
	return false
}

// decode reads a body of a known schema into a type that has no more.
func decode(r io.Reader, schemas map[string]keys, name string, into any) error {
	data, err := io.ReadAll(r)
	if err != nil {
		return refuse("a body that is too large or ends early")
	}
	v, err := parse(data)
	if err == nil {
		if _, ok := v.(map[string]any); !ok {
			err = errors.New("no object")
		}
	}
	if err == nil {
		err = conforms(v, schemas, name)
	}
	if err == nil {
		err = json.Unmarshal(data, into)
	}
	if err != nil {
		return refuse("the body: %v", err)
	}
	return nil
}
