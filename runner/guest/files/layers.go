package files

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// layers is one directory as the overlay's layers have it. merged is open only
// where both layers are; a layer that lacks the directory is nil.
type layers struct{ lower, upper, merged *os.Root }

func openLayers(o Overlay) (layers, error) {
	var t layers
	var errs [3]error
	t.lower, errs[0] = os.OpenRoot(o.Lower)
	t.upper, errs[1] = os.OpenRoot(o.Upper)
	t.merged, errs[2] = os.OpenRoot(o.Target)
	if err := errors.Join(errs[:]...); err != nil {
		t.close()
		return layers{}, err
	}
	return t, nil
}

func (t layers) close() {
	for _, r := range []*os.Root{t.lower, t.upper, t.merged} {
		if r != nil {
			r.Close() // read-only: nothing to lose
		}
	}
}

// descend opens the layers of the directory that c is.
func (t layers) descend(c change) (sub layers, err error) {
	open := func(r *os.Root, fi fs.FileInfo) *os.Root {
		if fi == nil || err != nil {
			return nil
		}
		r, err = enter(r, fi)
		if err != nil {
			return nil
		}
		return r
	}
	sub.lower = open(t.lower, c.old)
	sub.upper = open(t.upper, c.now)
	if c.old != nil && c.now != nil {
		shown, lookErr := t.merged.Lstat(c.now.Name())
		err = cmp.Or(err, lookErr)
		sub.merged = open(t.merged, shown)
	}
	if err != nil {
		sub.close()
		return layers{}, err
	}
	return sub, nil
}

// lstat looks a name up in both layers. Whiteouts and special files are nil, as
// is the upper one unless inUpper.
func (t layers) lstat(name string, inUpper bool) (old, now fs.FileInfo, err error) {
	if inUpper {
		if now, err = lstat(t.upper, name); err != nil {
			return nil, nil, err
		}
	}
	old, err = lstat(t.lower, name)
	return old, now, err
}

func lstat(root *os.Root, name string) (fs.FileInfo, error) {
	if root == nil {
		return nil, nil
	}
	fi, err := root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if t := fi.Mode().Type(); t != 0 && t != fs.ModeDir && t != fs.ModeSymlink {
		return nil, nil
	}
	return fi, nil
}

// list is names, of a layer that may lack the directory.
func list(root *os.Root, rel string) ([]string, error) {
	if root == nil {
		return nil, nil
	}
	return names(root, rel)
}
