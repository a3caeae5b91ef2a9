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
	{ID: "B1-attempts", Run: eachInChild("chown", "mknod", "chroot", "mount", "setuid", "setgid", "setgroups",
		"sethostname", "settime", "rlimit", "packet", "raw"), Sub: privilegedAttempt},
	{ID: "B2-nnp", Run: noNewPrivileges},
	{ID: "B2-setuid", Run: setuidPrograms},
	{ID: "B3-userns", Run: userNamespaces, Sub: inUserNamespace},
	{ID: "B4-calls", Run: eachInChild(namesOf(calls)...), Sub: oneOf(calls)},
	{ID: "B4-compat", Run: eachInChild(namesOf(compatCalls)...), Sub: oneOf(compatCalls)},
	{ID: "B5-ids", Run: ids},
	{ID: "B6-agent", Run: agentHijack, Sub: hijack},
}

// eachInChild makes every attempt in a process of its own.
func eachInChild(subs ...string) func(*Context) {
	return func(c *Context) {
		for _, s := range subs {
			c.Try(s, func() (string, error) { return c.Child(nil, s) })
		}
	}
}

// capabilityMasks says what capabilities there are, by both ways of asking.
func capabilityMasks(c *Context) {
	status, err := os.ReadFile("/proc/self/status")
	for _, name := range []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"} {
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

// privilegedAttempt is what takes a capability.
func privilegedAttempt(c *Context, args []string) (string, error) {
	switch args[0] {
	case "chown":
		return "", c.withFile("chown", func(path string) error { return os.Chown(path, 12345, 12345) })
	case "mknod":
		path := c.Scratch("mknod")
		if err := unix.Mknod(path, unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))); err != nil {
			return "", err
		}
		return "", os.Remove(path)
	case "chroot":
		return "", c.withDir("chroot", unix.Chroot)
	case "mount":
		return "", c.withDir("mount", func(path string) error { return mountAway("tmpfs", path, "tmpfs", 0, "size=4096") })
	case "setuid":
		return "", syscall.Setresuid(12345, 12345, 12345)
	case "setgid":
		return "", syscall.Setresgid(12345, 12345, 12345)
	case "setgroups":
		return "", syscall.Setgroups([]int{12345})
	}
	return "", systemAttempt(args[0])
}

func systemAttempt(what string) error {
	switch what {
	case "sethostname":
		return unix.Sethostname([]byte("quavon"))
	case "settime":
		now := unix.NsecToTimespec(time.Now().UnixNano())
		return unix.ClockSettime(unix.CLOCK_REALTIME, &now)
	case "rlimit": // down to nothing, and up again
		if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
			return err
		}
		return unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Max: 1 << 20})
	case "packet":
		return socket(unix.AF_PACKET, unix.SOCK_RAW, 0)
	case "raw":
		return socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP)
	}
	return unix.ENOTSUP
}

// mountAway mounts and unmounts again.
func mountAway(source, path, fstype string, flags uintptr, data string) error {
	if err := unix.Mount(source, path, fstype, flags, data); err != nil {
		return err
	}
	return unix.Unmount(path, unix.MNT_DETACH)
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

// noNewPrivileges asks for the switch in both ways.
func noNewPrivileges(c *Context) {
	c.Try("status", func() (string, error) {
		data, err := os.ReadFile("/proc/self/status")
		return statusField(string(data), "NoNewPrivs"), err
	})
	c.Try("prctl", func() (string, error) {
		n, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
		return fmt.Sprint(n), err
	})
}

// ids says who the job is.
func ids(c *Context) {
	c.Try("uid", func() (string, error) { return fmt.Sprint(os.Getuid(), " ", os.Geteuid()), nil })
	c.Try("gid", func() (string, error) { return fmt.Sprint(os.Getgid(), " ", os.Getegid()), nil })
	c.Try("groups", func() (string, error) {
		g, err := os.Getgroups()
		return strings.Trim(fmt.Sprint(g), "[]"), err
	})
	c.Try("group-names", func() (string, error) { return groupNames() })
	c.Try("agent", func() (string, error) {
		data, err := os.ReadFile("/proc/1/status")
		return statusField(string(data), "Uid"), err
	})
}

// groupNames are the names that the sandbox's own database has for the job's groups.
func groupNames() (string, error) {
	mine, err := os.Getgroups()
	if err != nil {
		return "", err
	}
	data, _ := os.ReadFile("/etc/group") // without one no group has a name
	var found []string
	for line := range strings.Lines(string(data)) {
		f := strings.Split(strings.TrimSpace(line), ":")
		for _, g := range append(mine, os.Getgid(), os.Getegid()) {
			if len(f) > 2 && f[2] == fmt.Sprint(g) {
				found = append(found, f[0])
				break
			}
		}
	}
	return strings.Join(found, " "), nil
}
