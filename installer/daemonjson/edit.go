package daemonjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/quavon/quavon/runner/fault"
)

// Entry is a runtime's: a program with arguments.
type Entry struct {
	Path string   `json:"path"`
	Args []string `json:"runtimeArgs,omitempty"`
}

// shellCharacters split or expand in the script that dockerd writes for a runtime with
// arguments, and runs as root.
const shellCharacters = " \t\n\r;&|<>()$`\\\"'*?[]{}~#!"

// Check refuses what dockerd, or the shell that it uses, would not take as it is.
func (e Entry) Check(name string) error {
	if name == "" || name == "runc" || strings.HasPrefix(name, "io.containerd.") {
		return fault.New(fmt.Sprintf("a runtime can't be called %q", name), "choose another name")
	}
	for _, s := range append([]string{e.Path}, e.Args...) {
		if s == "" || strings.ContainsAny(s, shellCharacters) {
			return fault.New(fmt.Sprintf("dockerd can't be given %q for the runtime %s: it would pass it through a shell", s, name),
				"use a path and arguments without spaces and special characters")
		}
	}
	return nil
}

// Bytes is the file's content.
func (f *File) Bytes() []byte { return bytes.Clone(f.text) }

// Runtime is a runtime's entry as it is written.
func (f *File) Runtime(name string) (json.RawMessage, bool) {
	if m, ok := f.find(name); ok {
		return bytes.Clone(f.text[m.value:m.end]), true
	}
	return nil, false
}

// Has says whether a runtime's entry is exactly e, however it is written.
func (f *File) Has(name string, e Entry) bool {
	raw, ok := f.Runtime(name)
	return ok && sameJSON(raw, e)
}

func sameJSON(raw []byte, e Entry) bool {
	want, err := json.Marshal(e)
	var a, b any
	return err == nil && json.Unmarshal(raw, &a) == nil && json.Unmarshal(want, &b) == nil && reflect.DeepEqual(a, b)
}

func (f *File) find(name string) (member, bool) {
	for _, k := range f.keys {
		if k.name != "runtimes" || f.isNull(k) {
			continue
		}
		for _, e := range members(f.text, k.value) {
			if e.name == name {
				return e, true
			}
		}
	}
	return member{}, false
}

// SetRuntime adds a runtime, or changes it. The file is as it was when that fails.
func (f *File) SetRuntime(name string, e Entry) error {
	if err := e.Check(name); err != nil {
		return err
	}
	if f.Has(name, e) {
		return nil
	}
	next, err := Parse(f.with(name, e))
	if err == nil {
		err = f.onlyRuntimesDiffer(next)
	}
	if err == nil && !next.Has(name, e) {
		err = errors.New("the entry is not what was meant")
	}
	if err != nil {
		return fault.Wrap(err, "edit daemon.json", "add the runtime by hand, and report this")
	}
	next.Converted = f.Converted
	*f = *next
	return nil
}

// with is the text with the runtime in it.
func (f *File) with(name string, e Entry) []byte {
	if m, ok := f.find(name); ok {
		return splice(f.text, m.value, m.end, f.styleOf(m).entry(e))
	}
	for i := len(f.keys) - 1; i >= 0; i-- {
		if f.keys[i].name == "runtimes" {
			return f.intoRuntimes(f.keys[i], name, e)
		}
	}
	if len(f.keys) > 0 {
		last := f.keys[len(f.keys)-1]
		s := f.styleOf(last)
		return splice(f.text, last.end, last.end, s.next("runtimes", s.object(name, s.nested().entry(e))))
	}
	top := style{eol: f.eol(), unit: "  "}
	doc := top.object("runtimes", top.nested().object(name, top.nested().nested().entry(e)))
	if open := bytes.IndexByte(f.text, '{'); open >= 0 {
		return splice(f.text, open, closeOf(f.text, open)+1, doc)
	}
	return []byte(doc + top.eol)
}

// intoRuntimes adds to the last "runtimes"; dockerd merges several.
func (f *File) intoRuntimes(k member, name string, e Entry) []byte {
	if !f.isNull(k) {
		if all := members(f.text, k.value); len(all) > 0 {
			last := all[len(all)-1]
			s := f.styleOf(last)
			return splice(f.text, last.end, last.end, s.next(name, s.entry(e)))
		}
	}
	s := f.styleOf(k)
	return splice(f.text, k.value, k.end, s.object(name, s.nested().entry(e)))
}

func splice(text []byte, from, to int, with string) []byte {
	return bytes.Join([][]byte{text[:from], []byte(with), text[to:]}, nil)
}

// RemoveRuntime removes a runtime, and with empty also a "runtimes" that has no other.
func (f *File) RemoveRuntime(name string, empty bool) error {
	m, ok := f.find(name)
	if !ok {
		return nil
	}
	for _, k := range f.keys {
		if k.value > m.key || m.end > k.end {
			continue
		}
		text := without(f.text, members(f.text, k.value), m)
		if empty && len(members(f.text, k.value)) == 1 {
			text = without(f.text, f.keys, k)
		}
		next, err := Parse(text)
		if err == nil {
			err = f.onlyRuntimesDiffer(next)
		}
		if err != nil {
			return fault.Wrap(err, "edit daemon.json", "remove the runtime by hand, and report this")
		}
		next.Converted = f.Converted
		*f = *next
		return nil
	}
	return nil
}

// without leaves a member out, with the comma that it needed.
func without(text []byte, all []member, m member) []byte {
	for i, x := range all {
		switch {
		case x != m:
		case i+1 < len(all):
			return splice(text, m.key, all[i+1].key, "")
		case i > 0:
			return splice(text, all[i-1].end, m.end, "")
		default:
			from := bytes.LastIndexByte(text[:m.key], '{') + 1
			return splice(text, from, space(text, m.end), "")
		}
	}
	return text
}

// IsEmpty says that the file configures nothing.
func (f *File) IsEmpty() bool { return len(f.keys) == 0 }

// onlyRuntimesDiffer compares two files byte by byte, but for their runtimes.
func (f *File) onlyRuntimesDiffer(next *File) error {
	a, b := f.others(), next.others()
	if !reflect.DeepEqual(a, b) {
		return errors.New("something else would change")
	}
	return nil
}

// others are all keys but runtimes, as they are written and in their order.
func (f *File) others() []string {
	var all []string
	for _, k := range f.keys {
		if k.name != "runtimes" {
			all = append(all, string(f.text[k.key:k.end]))
		}
	}
	return all
}
