package daemonjson

import (
	"bytes"
	"encoding/json"
	"strings"
)

// style is how members of an object are laid out: on lines of their own that begin
// with indent, or all on one.
type style struct {
	eol string
	// unit is one step further in.
	unit, indent string
	// oneLine members have only gap between the comma and the next.
	oneLine bool
	gap     string
}

func (f *File) eol() string {
	if bytes.Contains(f.text, []byte("\r\n")) {
		return "\r\n"
	}
	return "\n"
}

// styleOf is the style in which m is written.
func (f *File) styleOf(m member) style {
	s := style{eol: f.eol(), unit: "  ", gap: f.lead(m)}
	i := strings.LastIndexByte(s.gap, '\n')
	s.oneLine, s.indent = i < 0, s.gap[i+1:]
	if top := f.lead(f.keys[0]); strings.Contains(top, "\n") && !strings.HasSuffix(top, "\n") {
		s.unit = top[strings.LastIndexByte(top, '\n')+1:]
	}
	return s
}

// lead is the white space before a member.
func (f *File) lead(m member) string {
	before := f.text[:m.key]
	return string(before[len(bytes.TrimRight(before, " \t\r\n")):])
}

// nested is the style of members one step further in.
func (s style) nested() style {
	s.indent += s.unit
	return s
}

// next is a member behind another.
func (s style) next(name, value string) string {
	if s.oneLine {
		return "," + s.gap + quoted(name) + ":" + value
	}
	return "," + s.eol + s.indent + quoted(name) + ": " + value
}

// object is an object of one member, as the value of a member in this style.
func (s style) object(name, value string) string {
	if s.oneLine {
		return "{" + quoted(name) + ":" + value + "}"
	}
	return "{" + s.eol + s.indent + s.unit + quoted(name) + ": " + value + s.eol + s.indent + "}"
}

// entry is a runtime, as the value of a member in this style.
func (s style) entry(e Entry) string {
	args := make([]string, len(e.Args))
	for i, a := range e.Args {
		args[i] = quoted(a)
	}
	lines := []string{quoted("path") + ": " + quoted(e.Path)}
	if len(args) > 0 {
		lines = append(lines, quoted("runtimeArgs")+": ["+strings.Join(args, ", ")+"]")
	}
	if s.oneLine {
		return "{" + strings.Join(lines, ", ") + "}"
	}
	in := s.eol + s.indent + s.unit
	return "{" + in + strings.Join(lines, ","+in) + s.eol + s.indent + "}"
}

// quoted is a string in JSON; there is none that can't be written.
func quoted(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}
