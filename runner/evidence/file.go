package evidence

import (
	"os"
	"sync"
	"syscall"

	"github.com/quavon/quavon/runner/bounded"
	"github.com/quavon/quavon/runner/disk"
)

// File remembers a file's digest while the file stays the same: by its inode, and by the
// time of its last change, which unlike that of its content nobody can set.
type File struct {
	mu     sync.Mutex
	seen   os.FileInfo
	digest string
}

// Digest is that of a file's content, "sha256:" and hexadecimal digits.
func (f *File) Digest(path string) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	file, err := bounded.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	fi, err := file.Stat()
	if err != nil {
		return "", err
	}
	if f.seen != nil && unchanged(f.seen, fi) {
		return f.digest, nil
	}
	sum, err := disk.SumOf(file)
	if err != nil {
		return "", err
	}
	f.seen, f.digest = fi, "sha256:"+sum
	return f.digest, nil
}

func unchanged(was, now os.FileInfo) bool {
	a, ok1 := was.Sys().(*syscall.Stat_t)
	b, ok2 := now.Sys().(*syscall.Stat_t)
	return ok1 && ok2 && a.Dev == b.Dev && a.Ino == b.Ino && a.Size == b.Size && a.Mtim == b.Mtim && a.Ctim == b.Ctim
}
