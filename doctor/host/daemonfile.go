package host

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf16"
	"unicode/utf8"
)

// daemonFile is a daemon.json as dockerd reads it.
type daemonFile struct {
	keys     map[string]json.RawMessage
	runtimes map[string]json.RawMessage
}

// parseDaemonFile reads what dockerd reads: UTF-8, or UTF-16 with a byte order
// mark; nothing, null or one object. Errors have a line and a column.
func parseDaemonFile(data []byte) (*daemonFile, error) {
	text, err := decodeText(data)
	if err != nil {
		return nil, err
	}
	f := &daemonFile{keys: map[string]json.RawMessage{}, runtimes: map[string]json.RawMessage{}}
	if len(bytes.TrimSpace(text)) == 0 {
		return f, nil
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	var whole json.RawMessage
	if err := dec.Decode(&whole); err != nil {
		return nil, placed(text, dec, err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		line, col := place(text, int(dec.InputOffset()))
		return nil, fmt.Errorf("line %d, column %d: something follows the value", line, col)
	}
	if string(whole) == "null" {
		return f, nil
	}
	if whole[0] != '{' {
		return nil, errors.New("line 1: the value is no object")
	}
	return f, f.object(whole)
}

// object collects the keys; dockerd merges runtimes that are given twice.
func (f *daemonFile) object(whole json.RawMessage) error {
	dec := json.NewDecoder(bytes.NewReader(whole))
	_, _ = dec.Token() // the brace, which was parsed before
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return err
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return err
		}
		name, _ := key.(string) // an object's keys are strings
		f.keys[name] = value
		if name == "runtimes" && string(value) != "null" {
			if err := json.Unmarshal(value, &f.runtimes); err != nil {
				return errors.New("runtimes is no object")
			}
		}
	}
	return nil
}

func decodeText(data []byte) ([]byte, error) {
	switch {
	case bytes.HasPrefix(data, []byte{0xEF, 0xBB, 0xBF}):
		data = data[3:]
	case bytes.HasPrefix(data, []byte{0xFF, 0xFE}):
		return fromUTF16(data[2:], binary.LittleEndian)
	case bytes.HasPrefix(data, []byte{0xFE, 0xFF}):
		return fromUTF16(data[2:], binary.BigEndian)
	}
	for i := 0; i < len(data); {
		r, n := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && n == 1 {
			return nil, fmt.Errorf("byte %d is no UTF-8", i)
		}
		i += n
	}
	return data, nil
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

// placed says where a mistake is, and what dockerd thinks of comments.
func placed(text []byte, dec *json.Decoder, err error) error {
	at := int(dec.InputOffset())
	if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
		at = int(syntax.Offset) - 1
	}
	line, col := place(text, at)
	if at >= 0 && at < len(text) && (text[at] == '/' || text[at] == '#') {
		return fmt.Errorf("line %d, column %d: dockerd rejects comments too", line, col)
	}
	return fmt.Errorf("line %d, column %d: %w", line, col, err)
}

func place(text []byte, at int) (line, col int) {
	before := text[:min(max(at, 0), len(text))]
	return 1 + bytes.Count(before, []byte("\n")), len(before) - bytes.LastIndexByte(before, '\n')
}
