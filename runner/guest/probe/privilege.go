package probe

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

var privilege = []Probe{
	{ID: "B1-masks", Run: capabilityMasks},
	{ID: "B1-attempts", Run: privilegedAttempts, Sub: privilegedAttempt},
}

// capabilityMasks says what capabilities there are, by both ways of asking.
func capabilityMasks(c *Context) {
	status, err := os.ReadFile("/proc/self/status")
	for _, name := range []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs"} {
		c.Try(name, func() (string, error) { return statusField(string(status), name), err })
	}
	c.Try("capget", func() (string, error) {
		hdr := &unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var d [2]unix.CapUserData
		err := unix.Capget(hdr, &d[0])
		return fmt.Sprintf("%08x%08x %08x%08x %08x%08x", d[1].Effective, d[0].Effective, d[1].Permitted, d[0].Permitted,
			d[1].Inheritable, d[0].Inheritable), err
	})
}

// statusField is a field of /proc/self/status, "" when there is none.
func statusField(status, name string) string {
	for line := range strings.Lines(status) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(rest)
		}
	}
	return ""
}

// attempts are what takes a capability, each in a process of its own.
var attempts = []string{
	"chown", "setuid", "mount", "mknod", "sethostname", "settime", "packet", "chroot",
}

func privilegedAttempts(c *Context) {
	for _, a := range attempts {
		c.Try(a, func() (string, error) { return c.Child(nil, a) })
	}
}

func privilegedAttempt(c *Context, args []string) (string, error) {
	switch args[0] {
	case "chown":
		return "", c.withFile("chown", func(path string) error { return os.Chown(path, 0, 0) })
	case "setuid":
		return "", syscall.Setresuid(0, 0, 0)
	case "mount":
		return "", c.withDir("mount", func(path string) error {
			if err := unix.Mount("tmpfs", path, "tmpfs", 0, "size=4096"); err != nil {
				return err
			}
			return unix.Unmount(path, 0)
		})
	case "mknod":
		path := c.Scratch("mknod")
		if err := unix.Mknod(path, unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))); err != nil {
			return "", err
		}
		return "", os.Remove(path)
	case "sethostname":
		return "", unix.Sethostname([]byte("quavon"))
	case "settime":
		now := unix.NsecToTimespec(time.Now().UnixNano())
		return "", unix.ClockSettime(unix.CLOCK_REALTIME, &now)
	case "packet":
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, 0)
		if err == nil {
			_ = unix.Close(fd)
		}
		return "", err
	case "chroot":
		return "", c.withDir("chroot", unix.Chroot)
	}
	return "", unix.ENOTSUP
}

// withFile uses a file of the job's own and removes it.
func (c *Context) withFile(name string, use func(path string) error) error {
	path := c.Scratch(name)
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		return err
	}
	defer func() { _ = os.Remove(path) }()
	return use(path)
}

// withDir uses a directory of the job's own and removes it.
func (c *Context) withDir(name string, use func(path string) error) error {
	path := c.Scratch(name)
	if err := os.Mkdir(path, 0o700); err != nil {
		return err
	}
	defer func() { _ = os.Remove(path) }()
	return use(path)
}
