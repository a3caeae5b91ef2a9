package declare

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"go.yaml.in/yaml/v3"
)

// maxNodes bounds a document, whose text is bounded already.
const maxNodes = 100_000

// document takes YAML apart. The first problem stands, with its line; everything
// after it reads as empty.
type document struct {
	name string
	err  error
}

func (d *document) fail(line int, format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf("%s:%d: %w", d.name, max(1, line), fmt.Errorf(format, args...))
	}
}

// load parses the one document that the text holds.
func (d *document) load(raw []byte) *yaml.Node {
	n := new(yaml.Node)
	decoder := yaml.NewDecoder(bytes.NewReader(raw))
	if err := decoder.Decode(n); err != nil && !errors.Is(err, io.EOF) {
		d.err = fmt.Errorf("%s: %w", d.name, err)
		return new(yaml.Node)
	}
	if n.Kind == yaml.DocumentNode {
		if next := new(yaml.Node); !errors.Is(decoder.Decode(next), io.EOF) {
			d.fail(next.Line, "something follows the document")
		}
	}
	if n.Kind != yaml.DocumentNode || len(n.Content) != 1 {
		d.fail(1, "the file is empty")
		return n
	}
	left := maxNodes
	d.plain(n, &left)
	return n.Content[0]
}

// plain refuses what makes a document other than it looks: aliases, merges, tags.
func (d *document) plain(n *yaml.Node, left *int) {
	switch *left--; {
	case *left < 0:
		d.fail(n.Line, "the document is too large")
	case n.Kind == yaml.AliasNode || n.Anchor != "":
		d.fail(n.Line, "anchors and aliases are not used here: write it out")
	case n.Style&yaml.TaggedStyle != 0:
		d.fail(n.Line, "the tag %q is not used here", n.Tag)
	}
	for _, c := range n.Content {
		if d.err != nil {
			return
		}
		d.plain(c, left)
	}
}

// mapping is an object of the document.
type mapping struct {
	d      *document
	path   string
	line   int
	keys   []string
	values map[string]*yaml.Node
	lines  map[string]int
}

// mapping reads n as an object whose keys are known; without names, any keys are.
func (d *document) mapping(n *yaml.Node, path string, names ...string) *mapping {
	m := &mapping{d: d, path: path, line: n.Line, values: map[string]*yaml.Node{}, lines: map[string]int{}}
	if n.Kind != yaml.MappingNode {
		d.fail(n.Line, "%s is not a mapping", path)
		return m
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		_, twice := m.values[key.Value]
		switch {
		case key.Kind != yaml.ScalarNode:
			d.fail(key.Line, "%s has a key that is no text", path)
		case twice:
			d.fail(key.Line, "%s has %q twice", path, key.Value)
		case len(names) > 0 && !slices.Contains(names, key.Value):
			d.fail(key.Line, "%s has an unknown key %q", path, key.Value)
		}
		m.keys = append(m.keys, key.Value)
		m.values[key.Value], m.lines[key.Value] = n.Content[i+1], key.Line
	}
	return m
}

// text returns a string, "" when it is missing, and checks it when it is there.
func (m *mapping) text(key string, check func(string) error) string {
	n, ok := m.values[key]
	if !ok {
		return ""
	}
	return m.d.text(n, m.path+"."+key, check)
}

// text reads n as a string. Numbers and booleans must be quoted, or two readers
// could see two texts in them.
func (d *document) text(n *yaml.Node, path string, check func(string) error) string {
	if n.Kind != yaml.ScalarNode || n.Tag != "!!str" {
		d.fail(n.Line, "%s is not a text; put it into quotes", path)
		return ""
	}
	err := errors.New("is empty")
	if n.Value != "" {
		err = check(n.Value)
	}
	if err != nil {
		d.fail(n.Line, "%s %q %w", path, n.Value, err)
	}
	return n.Value
}

// list calls each for the elements of a sequence, if there is one.
func (m *mapping) list(key string, each func(path string, n *yaml.Node)) {
	n, ok := m.values[key]
	if !ok {
		return
	}
	if n.Kind != yaml.SequenceNode {
		m.d.fail(n.Line, "%s.%s is not a list", m.path, key)
		return
	}
	for i, e := range n.Content {
		each(fmt.Sprintf("%s.%s[%d]", m.path, key, i), e)
	}
}

// texts returns a mapping of strings, if there is one.
func (m *mapping) texts(key string, checkKey, check func(string) error) map[string]string {
	n, ok := m.values[key]
	if !ok {
		return nil
	}
	sub := m.d.mapping(n, m.path+"."+key)
	out := make(map[string]string, len(sub.keys))
	for _, k := range sub.keys {
		if err := checkKey(k); err != nil {
			m.d.fail(sub.lines[k], "%s has a key %q that %w", sub.path, k, err)
		}
		out[k] = m.d.text(sub.values[k], sub.path+"."+k, check)
	}
	return out
}
