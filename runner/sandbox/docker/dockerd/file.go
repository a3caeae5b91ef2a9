// Package dockerd is what is known of Docker's daemon from outside: how it reads its
// daemon.json and what it refuses in it, as measured with 26.1.5, how it reads its
// flags, and which process listens at a socket.
package dockerd

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf16"
	"unicode/utf8"
)

// Decode makes plain UTF-8 of a daemon.json. Was names the encoding that it had, ""
// for plain UTF-8.
func Decode(data []byte) (text []byte, was string, err error) {
	text = data
	switch {
	case bytes.HasPrefix(data, []byte{0xEF, 0xBB, 0xBF}):
		text, was = data[3:], "UTF-8 with a byte order mark"
	case bytes.HasPrefix(data, []byte{0xFF, 0xFE}):
		was = "UTF-16"
		text, err = fromUTF16(data[2:], binary.LittleEndian)
	case bytes.HasPrefix(data, []byte{0xFE, 0xFF}):
		was = "UTF-16"
		text, err = fromUTF16(data[2:], binary.BigEndian)
	}
	if err != nil {
		return nil, was, err
	}
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRune(text[i:])
		if r == utf8.RuneError && n == 1 {
			return nil, was, fmt.Errorf("byte %d is no UTF-8", i)
		}
		i += n
	}
	return text, was, nil
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

// Placed says where a decoder's mistake is, and what dockerd thinks of comments.
func Placed(text []byte, dec *json.Decoder, err error) error {
	at := int(dec.InputOffset())
	if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
		at = int(syntax.Offset) - 1
	}
	if at >= 0 && at < len(text) && (text[at] == '/' || text[at] == '#') {
		return At(text, at, "dockerd rejects comments too")
	}
	return At(text, at, err.Error())
}

// At is a mistake at an offset.
func At(text []byte, at int, what string) error {
	line, col := Place(text, at)
	return fmt.Errorf("line %d, column %d: %s", line, col, what)
}

// Place is an offset's line and column, both from 1.
func Place(text []byte, at int) (line, col int) {
	before := text[:min(max(at, 0), len(text))]
	return 1 + bytes.Count(before, []byte("\n")), len(before) - bytes.LastIndexByte(before, '\n')
}

// RefusedRuntime says why dockerd would not start with a runtime, "" for none, although
// its own --validate finds nothing. An error is an entry that is no object of this form.
func RefusedRuntime(name string, raw []byte) (why string, err error) {
	var r struct {
		Path        string          `json:"path"`
		RuntimeType string          `json:"runtimeType"`
		Args        json.RawMessage `json:"runtimeArgs"`
		Options     json.RawMessage `json:"options"`
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return "", err
	}
	var list []string
	listed := r.Args == nil || json.Unmarshal(r.Args, &list) == nil
	switch {
	case name == "runc":
		return "the name is reserved", nil
	case r.Path == "" && r.RuntimeType == "":
		return "it has neither path nor runtimeType", nil
	case r.Path != "" && r.RuntimeType != "":
		return "it has both path and runtimeType", nil
	case !listed:
		return "runtimeArgs is no list of strings", nil
	case r.RuntimeType != "" && len(list) > 0:
		return "runtimeType takes no runtimeArgs", nil
	case r.Path != "" && r.Options != nil && string(r.Options) != "null":
		return "path takes no options", nil
	}
	return "", nil
}
