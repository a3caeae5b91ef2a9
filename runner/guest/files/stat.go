package files

import (
	"io/fs"
	"os"
	"syscall"
	"time"
)

// Info is what Stat tells about a path, which it does not follow.
type Info struct {
	Path string
	// Size in bytes.
	Size int64
	// Mode has Go's type bits and permissions, setuid, setgid and sticky.
	Mode    fs.FileMode
	UID     uint32
	GID     uint32
	ModTime time.Time
	// Link is a symbolic link's target.
	Link string
}

// Stat describes path; a symbolic link is described itself.
func Stat(path string) (Info, error) {
	fi, err := os.Lstat(path)
	if err != nil {
		return Info{}, err
	}
	info := Info{Path: path, Size: fi.Size(), Mode: fi.Mode(), ModTime: fi.ModTime()}
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		info.UID, info.GID = st.Uid, st.Gid
	}
	if fi.Mode()&fs.ModeSymlink != 0 {
		info.Link, err = os.Readlink(path)
	}
	return info, err
}
