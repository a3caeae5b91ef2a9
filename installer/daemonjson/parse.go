// Package daemonjson changes one runtime in a daemon.json and leaves every other byte
// as it is. It reads what dockerd reads and refuses what dockerd refuses, which is more
// than `dockerd --validate` says.
package daemonjson

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/quavon/quavon/runner/fault"
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
	f := &File{}
	if err := f.decode(data); err != nil {
		return nil, fault.Wrap(err, "dockerd can't read it", "write it as UTF-8")
	}
	if err := f.check(); err != nil {
		return nil, fault.Wrap(err, "dockerd refuses it", "correct that place")
	}
	return f, nil
}

// decode removes a byte order mark, and UTF-16 with it.
func (f *File) decode(data []byte) (err error) {
	switch {
	case bytes.HasPrefix(data, []byte{0xEF, 0xBB, 0xBF}):
		f.text, f.Converted = data[3:], "UTF-8 with a byte order mark"
	case bytes.HasPrefix(data, []byte{0xFF, 0xFE}):
		f.Converted = "UTF-16"
		f.text, err = fromUTF16(data[2:], binary.LittleEndian)
	case bytes.HasPrefix(data, []byte{0xFE, 0xFF}):
		f.Converted = "UTF-16"
		f.text, err = fromUTF16(data[2:], binary.BigEndian)
	default:
		f.text = data
	}
	if err != nil {
		return err
	}
	for i := 0; i < len(f.text); {
		r, n := utf8.DecodeRune(f.text[i:])
		if r == utf8.RuneError && n == 1 {
			return fmt.Errorf("byte %d is no UTF-8", i)
		}
		i += n
	}
	return nil
}

func fromUTF16(data []byte, order binary.ByteOrder) ([]byte, error) {
	if len(data)%2 != 0 {
		return nil, errors.New("UTF-16 with half a character at its end")
	}
	units := make([]uint16, len(data)/2)
	for i := range units {
		units[i] = order.Uint16(data[2*i:])
	}
	return []byte(string(utf16.Decode(units))), nil
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
		return at1(f.text, at, "something follows the value")
	}
	if string(whole) == "null" {
		return nil
	}
	open := bytes.IndexByte(f.text, whole[0])
	if whole[0] != '{' {
		return at1(f.text, open, "the value is no object")
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
			return at1(f.text, k.value, "runtimes is no object")
		}
		for _, e := range members(f.text, k.value) {
			if before, ok := seen[e.name]; ok {
				first, _ := place(f.text, before)
				return at1(f.text, e.key, fmt.Sprintf("the runtime %q is there already, in line %d", e.name, first))
			}
			seen[e.name] = e.key
		}
	}
	return nil
}

func (f *File) isNull(m member) bool { return string(f.text[m.value:m.end]) == "null" }

func trim(b []byte) []byte { return bytes.Trim(b, " \t\r\n") }

// placed says where a mistake is, and what dockerd thinks of comments.
func placed(text []byte, dec *json.Decoder, err error) error {
	at := int(dec.InputOffset())
	if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
		at = int(syntax.Offset) - 1
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return at1(text, len(text), "the file ends in the middle of the value")
	}
	if at >= 0 && at < len(text) && (text[at] == '/' || text[at] == '#') {
		return at1(text, at, "dockerd rejects comments too")
	}
	return at1(text, at, err.Error())
}

func at1(text []byte, at int, what string) error {
	line, col := place(text, at)
	return fmt.Errorf("line %d, column %d: %s", line, col, what)
}

func place(text []byte, at int) (line, col int) {
	before := text[:min(max(at, 0), len(text))]
	return 1 + bytes.Count(before, []byte("\n")), len(before) - bytes.LastIndexByte(before, '\n')
}
