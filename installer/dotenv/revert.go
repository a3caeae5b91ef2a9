package dotenv

// Revert is now with every setting that changed between before and after as it was
// before, where it still is as after left it; what somebody has changed since stays.
// before is nil for a file that wasn't there; a nil next means that nothing is left.
func Revert(before, after, now []byte) (next []byte, ok bool, err error) {
	files := make([]*File, 3)
	for i, data := range [][]byte{before, after, now} {
		if files[i], err = Parse(data); err != nil {
			return nil, false, err
		}
	}
	was, is, f := files[0], files[1], files[2]
	for key, ours := range is.values {
		old, had := was.Get(key)
		if had && old == ours {
			continue
		}
		if current, there := f.Get(key); !there || current != ours {
			if key == ProfilesKey && there {
				err = f.Set(key, withoutAdded(current, old, ours))
			}
		} else if had {
			err = f.Set(key, old)
		} else {
			err = f.Unset(key)
		}
		if err != nil {
			return nil, false, err
		}
	}
	if before == nil && f.text == "" {
		return nil, true, nil
	}
	return f.Bytes(), true, nil
}

// withoutAdded removes the profiles that are in ours and not in old.
func withoutAdded(current, old, ours string) string {
	for _, name := range Profiles(ours) {
		if !HasProfile(old, name) {
			current = RemoveProfile(current, name)
		}
	}
	return current
}
