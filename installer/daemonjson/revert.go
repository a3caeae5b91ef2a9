package daemonjson

import (
	"encoding/json"
	"fmt"

	"github.com/quavon/quavon/runner/fault"
)

// Revert is now without the runtime that was added between before and after; before is
// nil for a file that wasn't there. An entry that leads elsewhere by now stays, and so
// does the file: ok is false. A nil next means that nothing is left of the file. It is an
// error when somebody has come to rely on the runtime.
func Revert(name string, before, after, now []byte) (next []byte, ok bool, err error) {
	ours, err := Parse(after)
	if err != nil {
		return nil, false, err
	}
	f, err := Parse(now)
	if err != nil {
		return nil, false, err
	}
	was, err := Parse(before)
	if err != nil {
		return nil, false, err
	}
	if _, had := was.Runtime(name); had {
		return nil, false, nil
	}
	mine, _ := ours.Runtime(name)
	raw, there := f.Runtime(name)
	switch {
	case !there:
		return now, true, nil
	case string(raw) != string(mine) && pathOf(raw) != pathOf(mine):
		return nil, false, nil
	case string(raw) != string(mine):
		return nil, false, fault.New(fmt.Sprintf("somebody has changed the runtime %s since, which is to be removed", name),
			"take the entry out of the file yourself")
	case f.defaultRuntime() == name:
		return nil, false, fault.New(fmt.Sprintf("default-runtime names %s, without which dockerd would not start", name),
			"set another default-runtime")
	}
	if err := f.RemoveRuntime(name, !was.hasKey("runtimes")); err != nil {
		return nil, false, err
	}
	if before == nil && f.IsEmpty() {
		return nil, true, nil
	}
	return f.Bytes(), true, nil
}

func pathOf(raw []byte) string {
	var e Entry
	_ = json.Unmarshal(raw, &e) // what is no entry leads nowhere
	return e.Path
}

func (f *File) hasKey(name string) bool {
	for _, k := range f.keys {
		if k.name == name {
			return true
		}
	}
	return false
}
