// Package daemonjson changes one runtime in a daemon.json and leaves every other byte
// as it is. It reads what dockerd reads and refuses what dockerd refuses, which is more
// than `dockerd --validate` says.
package daemonjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/sandbox/docker/dockerd"
)

// MaxSize bounds a file, in bytes.
const MaxSize = 1 << 20

// File is a daemon.json. The zero value is an empty one.
type File struct {
	// text is UTF-8 without a byte order mark: one object, or nothing but white space
	// and null.
	text []byte
	keys []member
	// Converted names the encoding that the file was in and will not be in again, ""
	// for plain UTF-8.
	Converted string
}

// Parse reads a file's content. Errors say the line and the column.
func Parse(data []byte) (*File, error) {
	if len(data) > MaxSize {
		return nil, fault.New(fmt.Sprintf("the file has %d bytes", len(data)), "no daemon.json needs so many; see what is in it")
	}
	text, was, err := dockerd.Decode(data)
	if err != nil {
		return nil, fault.Wrap(err, "dockerd can't read it", "write it as UTF-8")
	}
	f := &File{text: text, Converted: was}
	if err := f.check(); err != nil {
		return nil, fault.Wrap(err, "dockerd refuses it", "correct that place")
	}
	return f, nil
}

// check parses as dockerd does: nothing, null, or one object and nothing after it.
func (f *File) check() error {
	if len(trim(f.text)) == 0 {
		return nil
	}
	dec := json.NewDecoder(bytes.NewReader(f.text))
	var whole json.RawMessage
	if err := dec.Decode(&whole); err != nil {
		return placed(f.text, dec, err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		at := int(dec.InputOffset())
		at += len(f.text[at:]) - len(bytes.TrimLeft(f.text[at:], " \t\r\n"))
		return dockerd.At(f.text, at, "something follows the value")
	}
	if string(whole) == "null" {
		return nil
	}
	open := bytes.IndexByte(f.text, whole[0])
	if whole[0] != '{' {
		return dockerd.At(f.text, open, "the value is no object")
	}
	f.keys = members(f.text, open)
	return f.checkRuntimes()
}

// checkRuntimes wants an object of entries, each of a name of its own.
func (f *File) checkRuntimes() error {
	seen := map[string]int{}
	for _, k := range f.keys {
		if k.name != "runtimes" || f.isNull(k) {
			continue
		}
		if f.text[k.value] != '{' {
			return dockerd.At(f.text, k.value, "runtimes is no object")
		}
		for _, e := range members(f.text, k.value) {
			if before, ok := seen[e.name]; ok {
				first, _ := dockerd.Place(f.text, before)
				return dockerd.At(f.text, e.key, fmt.Sprintf("the runtime %q is there already, in line %d", e.name, first))
			}
			seen[e.name] = e.key
		}
	}
	return nil
}

func (f *File) isNull(m member) bool { return string(f.text[m.value:m.end]) == "null" }

func trim(b []byte) []byte { return bytes.Trim(b, " \t\r\n") }

// placed says where a decoder's mistake is.
func placed(text []byte, dec *json.Decoder, err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return dockerd.At(text, len(text), "the file ends in the middle of the value")
	}
	return dockerd.Placed(text, dec, err)
}
