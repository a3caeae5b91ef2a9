package imagetest

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quavon/quavon/test/need"
)

// NeedTool needs a program.
func NeedTool(t testing.TB, name string) {
	t.Helper()
	_, err := exec.LookPath(name)
	need.That(t, err == nil, name)
}

// NeedMount needs root in a place that may mount.
func NeedMount(t testing.TB) {
	t.Helper()
	need.That(t, os.Geteuid() == 0, "root")
}

// Run runs a program and fails the test if it fails.
func Run(t testing.TB, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// MountEROFS shows what the kernel sees in an image.
func MountEROFS(t testing.TB, image string) string {
	t.Helper()
	return MountImage(t, "erofs", image)
}

// MountImage shows what the kernel sees in an image of a file system, read-only.
func MountImage(t testing.TB, kind, image string) string {
	t.Helper()
	NeedMount(t)
	dir := t.TempDir()
	Run(t, "mount", "-t", kind, "-o", "loop,ro", image, dir)
	unmount(t, dir)
	return dir
}

func unmount(t testing.TB, dir string) {
	t.Cleanup(func() {
		if err := Unmount(dir); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
}

// Unmount leaves an image with all that was written to it, also while the sandbox of
// another test has a copy of the mount in its namespace, which keeps it mounted.
func Unmount(dir string) error {
	if err := whileBusy(func() error { return unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, "") }); err != nil {
		return err
	}
	return whileBusy(func() error { return unix.Unmount(dir, 0) })
}

// whileBusy waits for processes that are about to exec: until then they have the files that
// other tests had open.
func whileBusy(do func() error) error {
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if err := do(); !errors.Is(err, unix.EBUSY) || time.Now().After(deadline) {
			return err
		}
	}
}

// Fsck has erofs-utils check an image.
func Fsck(t testing.TB, image string) {
	t.Helper()
	NeedTool(t, "fsck.erofs")
	Run(t, "fsck.erofs", image)
}
