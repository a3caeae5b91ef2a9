package erofs

import (
	"bytes"

	"github.com/quavon/quavon/runner/image/flatten"
)

// dirent is one entry of a directory, "." and ".." included.
type dirent struct {
	name []byte
	id   flatten.ID
}

var dot, dotDot = []byte("."), []byte("..")

// dirents yields a directory's entries in the order they have on disk: that
// of their bytes.
func dirents(t *flatten.Tree, dir flatten.ID, yield func(dirent)) {
	parent := t.Parent(dir)
	if parent == 0 {
		parent = dir
	}
	own := []dirent{{dot, dir}, {dotDot, parent}}
	for id := t.First(dir); id != 0; id = t.Next(id) {
		name := t.Name(id)
		for len(own) > 0 && bytes.Compare(own[0].name, name) < 0 {
			yield(own[0])
			own = own[1:]
		}
		yield(dirent{name, id})
	}
	for _, d := range own {
		yield(d)
	}
}

// dirSize is in bytes: whole blocks, and the used part of the last.
func dirSize(t *flatten.Tree, dir flatten.ID) int64 {
	var full, used int64
	dirents(t, dir, func(d dirent) {
		n := int64(direntSize + len(d.name))
		if used+n > BlockSize {
			full, used = full+BlockSize, 0
		}
		used += n
	})
	return full + used
}

// dirBlocks yields a directory's blocks; only the last one may be short. The
// slice is valid until yield returns.
func dirBlocks(t *flatten.Tree, dir flatten.ID, yield func(b []byte) error) error {
	var (
		pending []dirent
		used    int
		err     error
		buf     [BlockSize]byte
	)
	flush := func(size int) {
		clear(buf[used:])
		putDirents(buf[:], t, pending)
		if err == nil {
			err = yield(buf[:size])
		}
		pending, used = pending[:0], 0
	}
	dirents(t, dir, func(d dirent) {
		n := direntSize + len(d.name)
		if used+n > BlockSize {
			flush(BlockSize)
		}
		pending, used = append(pending, d), used+n
	})
	flush(used)
	return err
}

// putDirents fills b with entries, then their names.
func putDirents(b []byte, t *flatten.Tree, entries []dirent) {
	nameOff := direntSize * len(entries)
	for i, d := range entries {
		e := b[i*direntSize:]
		inode := t.Inode(d.id)
		le.PutUint64(e[0:], uint64(inode.Num))
		le.PutUint16(e[8:], uint16(nameOff))
		e[10], e[11] = fileTypes[inode.Type()], 0
		nameOff += copy(b[nameOff:], d.name)
	}
}
