package guest

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/quavon/quavon/runner/agent/agentpb"
)

// makePoint makes below root what it must have and an image may lack. No link of the image's is
// followed, unless that is asked for, so that nothing is made elsewhere: what is in the way is replaced, as it is
// in roots that the host makes.
func makePoint(root string, p *agentpb.Point) error {
	if err := checkPath(p.GetPath()); err != nil {
		return err
	}
	if p.GetFollow() {
		_ = ensureLinked(filepath.Join(root, p.GetPath()), p) // a job that starts there is told
		return nil
	}
	parts := strings.Split(p.GetPath()[1:], "/")
	at := root
	for _, name := range parts[:len(parts)-1] {
		at = filepath.Join(at, name)
		if err := ensureDir(at, &agentpb.Point{Mode: 0o755}); err != nil {
			return err
		}
	}
	at = filepath.Join(at, parts[len(parts)-1])
	if len(p.GetBody()) > 0 {
		return ensureFile(at, p)
	}
	return ensureDir(at, p)
}

// ensureLinked makes a directory and those above at the end of the image's links.
func ensureLinked(path string, p *agentpb.Point) error {
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := ensureLinked(filepath.Dir(path), p); err != nil {
		return err
	}
	if err := os.Mkdir(path, 0o700); err != nil {
		return err
	}
	return own(path, p)
}

func ensureDir(path string, p *agentpb.Point) error {
	there, err := clearWay(path, fs.ModeDir)
	if err != nil || there != nil && !p.GetRenew() {
		return err
	}
	if there == nil {
		if err := os.Mkdir(path, 0o700); err != nil {
			return err
		}
	}
	return own(path, p)
}

// ensureFile gives a file its body, unless it has one.
func ensureFile(path string, p *agentpb.Point) error {
	there, err := clearWay(path, 0)
	if err != nil || there != nil && there.Size() > 0 {
		return err
	}
	if err := os.WriteFile(path, p.GetBody(), 0o600); err != nil || there != nil && !p.GetRenew() {
		return err
	}
	return own(path, p)
}

// clearWay returns what is at path when it is of the type, and removes it otherwise.
func clearWay(path string, want fs.FileMode) (fs.FileInfo, error) {
	fi, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case fi.Mode().Type() == want:
		return fi, nil
	}
	return nil, os.RemoveAll(path)
}

// own gives what was made its owner and its mode: the agent makes things as its own.
func own(path string, p *agentpb.Point) error {
	if err := os.Lchown(path, int(p.GetUid()), int(p.GetGid())); err != nil {
		return err
	}
	return unix.Chmod(path, p.GetMode()&0o7777)
}
