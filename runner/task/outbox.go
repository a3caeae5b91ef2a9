package task

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"unicode/utf8"
)

// Bounds of an outbox, in bytes and lines.
const (
	maxOutbox      = 1 << 20
	maxOutboxLine  = 64 << 10
	maxOutboxLines = 1000
	maxRefused     = 100
)

// Read checks an outbox line by line: each is a JSON object with a "kind" that is
// wanted, in UTF-8, and not too long. What isn't is named and left out, and so is
// what follows when there is too much.
func (o *Outbox) Read(r io.Reader) (lines []json.RawMessage, refused []Refused) {
	refuse := func(line int, why string) {
		if len(refused) < maxRefused {
			refused = append(refused, Refused{line, why})
		}
	}
	in := bufio.NewReaderSize(io.LimitReader(r, maxOutbox+1), maxOutboxLine+1)
	left := maxOutbox
	for n := 1; ; n++ {
		line, long, err := readLine(in)
		if left -= len(line) + 1; left < 0 || len(lines) == maxOutboxLines {
			if len(line) > 0 || err == nil {
				refuse(n, fmt.Sprintf("the outbox has more than %d bytes or %d lines: this and what follows is left out",
					maxOutbox, maxOutboxLines))
			}
			return lines, refused
		}
		switch object, why := o.check(line, long); {
		case len(bytes.TrimSpace(line)) == 0 && !long:
		case why != "":
			refuse(n, why)
		default:
			lines = append(lines, object)
		}
		if err != nil {
			return lines, refused
		}
	}
}

// readLine reads a line without its end. One that is long is cut.
func readLine(in *bufio.Reader) (line []byte, long bool, err error) {
	line, err = in.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		line = bytes.Clone(line)
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = in.ReadSlice('\n')
		}
		return line, true, err
	}
	return bytes.TrimSuffix(line, []byte("\n")), false, err
}

// check takes a line, or says what is wrong with it. What it takes is written anew, so
// that all readers see the same: a name that was there twice is there once.
func (o *Outbox) check(line []byte, long bool) (object json.RawMessage, why string) {
	switch {
	case long || len(line) > maxOutboxLine:
		return nil, fmt.Sprintf("it has more than %d bytes", maxOutboxLine)
	case !utf8.Valid(line):
		return nil, "it is not UTF-8"
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(line, &fields) != nil || fields == nil {
		return nil, "it is not a JSON object"
	}
	var kind string
	if json.Unmarshal(fields["kind"], &kind) != nil || !validKind.MatchString(kind) {
		return nil, `its "kind" is missing, or no word of a-z, 0-9 and _.-`
	}
	if len(o.Kinds) > 0 && !slices.Contains(o.Kinds, kind) {
		return nil, fmt.Sprintf("nobody asked for the kind %q", kind)
	}
	object, err := json.Marshal(fields)
	if err != nil {
		return nil, "it can't be written as JSON"
	}
	return object, ""
}
