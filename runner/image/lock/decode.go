package lock

import (
	"encoding/json"
	"fmt"
	"strings"
)

// top is what errors call the whole document.
const top = "the lock"

// fields takes an object apart. The first problem stands; everything after it
// reads as empty.
type fields struct {
	p    *document
	path string
	off  int64
	obj  *object
	err  *error
}

func (p *document) fields(v value, path string, err *error) *fields {
	f := &fields{p, path, v.off, &object{}, err}
	if o, ok := v.is.(*object); ok {
		f.obj = o
	} else {
		f.fail(v.off, "is not an object")
	}
	return f
}

// fail notes the first problem.
func (f *fields) fail(off int64, format string, args ...any) {
	if *f.err == nil {
		*f.err = f.p.fail(off, "%s %s", f.path, fmt.Sprintf(format, args...))
	}
}

// known refuses what the schema doesn't have.
func (f *fields) known(names string) *fields {
	for _, k := range f.obj.keys {
		if !strings.Contains(" "+names+" ", " "+k+" ") {
			f.fail(f.obj.fields[k].off, "has an unknown field %q", k)
		}
	}
	return f
}

func (f *fields) get(name string, required bool) (value, bool) {
	v, ok := f.obj.fields[name]
	if !ok && required {
		f.fail(f.off, "has no %q", name)
	}
	return v, ok
}

// text returns a string and checks it; "" when it is optional and missing.
func (f *fields) text(name string, check func(string) string) string {
	v, ok := f.get(name, check("") != "")
	if !ok {
		return ""
	}
	s, ok := v.is.(string)
	if !ok {
		f.fail(v.off, "%s is not a string", name)
		return ""
	}
	if why := check(s); why != "" {
		f.fail(v.off, "%s %q %s", name, s, why)
	}
	return s
}

// number returns a required integer of at least low.
func (f *fields) number(name string, low int64) int64 {
	v, ok := f.get(name, true)
	if !ok {
		return 0
	}
	n, ok := v.is.(json.Number)
	i, err := n.Int64()
	if !ok || err != nil || i < low {
		f.fail(v.off, "%s is not an integer of at least %d", name, low)
	}
	return i
}

// list calls each for the elements of an array.
func (f *fields) list(name string, required bool, each func(path string, v value)) {
	v, ok := f.get(name, required)
	if !ok {
		return
	}
	l, ok := v.is.([]value)
	if !ok {
		f.fail(v.off, "%s is not an array", name)
		return
	}
	for i, e := range l {
		each(strings.TrimPrefix(fmt.Sprintf("%s.%s[%d]", f.path, name, i), top+"."), e)
	}
}

// texts returns an array of strings.
func (f *fields) texts(name string, required bool, check func(string) string) []string {
	var out []string
	f.list(name, required, func(path string, v value) {
		s, ok := v.is.(string)
		if why := check(s); !ok || why != "" {
			f.fail(v.off, "%s: %q %s", path, s, why)
		}
		out = append(out, s)
	})
	return out
}

// ordered refuses names that don't come in order, or twice.
func (f *fields) ordered(what string, last *string, name string, off int64) {
	if name <= *last && *last != "" {
		f.fail(off, "has %s %q behind %q: they must be sorted, each once", what, name, *last)
	}
	*last = name
}
