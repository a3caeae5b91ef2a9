package guest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/quavon/quavon/runner/sandbox"
)

// rootMounts are the file systems that the old root has and the new one needs.
var rootMounts = []string{"/proc", "/sys", "/dev", sandbox.GuestDir}

// enterWritableRoot mounts an overlay of the root, with its upper layer on
// scratch, and makes it the root of the agent and all it starts. A job can't leave
// it again: that takes a capability, or a process whose root is the old one.
func enterWritableRoot() error {
	root := filepath.Join(sandbox.ScratchDir, "root")
	upper, work := filepath.Join(sandbox.ScratchDir, "rootupper"), filepath.Join(sandbox.ScratchDir, "rootwork")
	for _, dir := range []string{root, upper, work} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return err
		}
	}
	if err := copyOwner("/", upper); err != nil {
		return err
	}
	options := "lowerdir=/,upperdir=" + upper + ",workdir=" + work
	if err := unix.Mount("overlay", root, "overlay", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		return err
	}
	for _, dir := range rootMounts {
		if err := unix.Mount(dir, root+dir, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
			return fmt.Errorf("move %s into it: %w", dir, err)
		}
	}
	if err := showNested(root); err != nil {
		return fmt.Errorf("move %s into it: %w", nestedDir, err)
	}
	if err := unix.Chroot(root); err != nil {
		return err
	}
	return os.Chdir("/")
}

// nestedDir is the disk that some backends give a job besides.
const nestedDir = "/scratch"

// showNested shows that disk in the new root, where there is one: a directory of the
// image's with that name is on the root's own device.
func showNested(root string) error {
	var disk, own unix.Stat_t
	if err := unix.Stat("/", &own); err != nil {
		return err
	}
	err := unix.Lstat(nestedDir, &disk) // a link of the image's is no disk
	if errors.Is(err, fs.ErrNotExist) || err == nil && disk.Dev == own.Dev {
		return nil
	}
	if err != nil {
		return err
	}
	if err := os.MkdirAll(root+nestedDir, 0o755); err != nil {
		return err
	}
	return unix.Mount(nestedDir, root+nestedDir, "", unix.MS_BIND, "")
}
