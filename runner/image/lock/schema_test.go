package lock_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/quavon/quavon/runner/image/lock"
)

func schema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	s, err := jsonschema.NewCompiler().Compile("../../../docs/images.lock.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func validate(s *jsonschema.Schema, raw []byte) error {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return err
	}
	return s.Validate(doc)
}

func TestSchemaAllows(t *testing.T) {
	t.Parallel()
	s := schema(t)
	for name, l := range map[string]*lock.File{
		"everything": sample(),
		"nothing":    {SchemaVersion: 1, Builder: lock.Builder{Version: "1", Format: 1}, Images: []lock.Image{}},
	} {
		raw, err := l.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if err := validate(s, raw); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// beyondSchema are mistakes that only the reader sees.
var beyondSchema = []string{"no newline", "twice", "not UTF-8", "order", "platform twice", "another's base"}

// TestSchemaRefuses holds the schema against what the reader refuses.
func TestSchemaRefuses(t *testing.T) {
	t.Parallel()
	s := schema(t)
	raw, err := sample().Encode()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range refused(string(raw)) {
		err := validate(s, []byte(strings.Replace(string(raw), c.from, c.to, 1)))
		beyond := slices.Contains(beyondSchema, name)
		if (err == nil) != beyond {
			t.Errorf("%s: the schema says %v", name, err)
		}
	}
}
