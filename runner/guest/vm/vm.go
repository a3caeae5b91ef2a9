// Package vm is what the first process of a virtual machine has to do before and
// after it is quavon's agent: the kernel's own file systems, the port to the host,
// and the end of the machine.
package vm

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// PortName is the virtio-serial port that the host's end of the agent's byte stream
// is at.
const PortName = "quavon.agent"

// portTime bounds the wait for the port, whose driver may still be loading, and for
// the host at its other end.
const portTime = 30 * time.Second

// mount is a file system that the kernel makes.
type mount struct {
	source, target, kind string
	flags                uintptr
	options              string
}

var mounts = []mount{
	{"proc", "/proc", "proc", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, ""},
	{"sysfs", "/sys", "sysfs", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, ""},
	{"devtmpfs", "/dev", "devtmpfs", unix.MS_NOSUID | unix.MS_NOEXEC, "mode=0755"},
	{"devpts", "/dev/pts", "devpts", unix.MS_NOSUID | unix.MS_NOEXEC, "mode=0620,ptmxmode=0666"},
	{"tmpfs", "/dev/shm", "tmpfs", unix.MS_NOSUID | unix.MS_NODEV, "mode=1777"},
}

// links are names below /dev that programs expect and no driver makes.
var links = map[string]string{
	"/dev/fd": "/proc/self/fd", "/dev/stdin": "/proc/self/fd/0", "/dev/stdout": "/proc/self/fd/1", "/dev/stderr": "/proc/self/fd/2",
}

// MountAll mounts what the kernel shows of itself, where it isn't yet. The root may
// be read-only, and then has to have the mount points.
func MountAll() error {
	for _, m := range mounts {
		if err := os.MkdirAll(m.target, 0o755); err != nil {
			return err
		}
		// EBUSY: it is there, from the kernel or an initramfs.
		if err := unix.Mount(m.source, m.target, m.kind, m.flags, m.options); err != nil && !errors.Is(err, unix.EBUSY) {
			return fmt.Errorf("mount %s at %s: %w", m.kind, m.target, err)
		}
	}
	for name, target := range links {
		if err := os.Symlink(target, name); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	return nil
}

// OpenPort opens the port to the host once the host is there.
func OpenPort() (*os.File, error) {
	deadline := time.Now().Add(portTime)
	for {
		device, err := findPort("/sys/class/virtio-ports", PortName)
		if err == nil {
			return open(filepath.Join("/dev", device), deadline)
		}
		if time.Now().After(deadline) {
			return nil, err
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// maxName bounds a port's name, which the host chooses.
const maxName = 256

// findPort returns the device of the port with a name, given the class's directory.
func findPort(class, name string) (string, error) {
	files, err := filepath.Glob(filepath.Join(class, "*", "name"))
	if err != nil {
		return "", err
	}
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err == nil && len(raw) <= maxName && strings.TrimSuffix(string(raw), "\n") == name {
			return filepath.Base(filepath.Dir(f)), nil
		}
	}
	return "", fmt.Errorf("the machine has no virtio-serial port %s", name)
}

// open opens a port and waits for the host: until then, reading would find an end.
func open(path string, deadline time.Time) (*os.File, error) {
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	for {
		p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
		if _, err := unix.Poll(p, 100); err == nil && p[0].Revents&(unix.POLLHUP|unix.POLLERR) == 0 && p[0].Revents != 0 {
			return os.NewFile(uintptr(fd), path), nil
		}
		if time.Now().After(deadline) {
			return nil, errors.Join(errors.New("nobody is at the other end of "+path), unix.Close(fd))
		}
		time.Sleep(5 * time.Millisecond) // a hangup doesn't make poll wait
	}
}

// PowerOff ends the machine, once everything is on its disks.
func PowerOff() error {
	unix.Sync()
	return unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
}
