package daemonjson

// Revert is now without the runtime that was added between before and after; before is
// nil for a file that wasn't there. An entry that somebody has changed since stays, and
// so does the file: ok is false. A nil next means that nothing is left of the file.
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
	case string(raw) != string(mine):
		return nil, false, nil
	}
	if err := f.RemoveRuntime(name, !was.hasKey("runtimes")); err != nil {
		return nil, false, err
	}
	if before == nil && f.IsEmpty() {
		return nil, true, nil
	}
	return f.Bytes(), true, nil
}

func (f *File) hasKey(name string) bool {
	for _, k := range f.keys {
		if k.name == name {
			return true
		}
	}
	return false
}
