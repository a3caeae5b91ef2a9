package probe

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

var identity = []Probe{
	{ID: "A2-kernel", Run: kernelIdentity},
	{ID: "A3-errno", Run: fingerprint},
	{ID: "A4-hardware", Run: hardware},
}

// kernelIdentity says which kernel answers.
func kernelIdentity(c *Context) {
	c.Try("uname", func() (string, error) {
		var u unix.Utsname
		err := unix.Uname(&u)
		return unix.ByteSliceToString(u.Release[:]) + " " + unix.ByteSliceToString(u.Version[:]), err
	})
	for _, f := range []string{"boot-id /proc/sys/kernel/random/boot_id", "uptime /proc/uptime", "version /proc/version"} {
		sub, path, _ := strings.Cut(f, " ")
		c.Try(sub, func() (string, error) { return readLine(path) })
	}
	c.Try("btime", func() (string, error) {
		data, err := os.ReadFile("/proc/stat")
		for line := range strings.Lines(string(data)) {
			if rest, ok := strings.CutPrefix(line, "btime "); ok {
				return strings.TrimSpace(rest), nil
			}
		}
		return "", err
	})
}

func readLine(path string) (string, error) {
	data, err := os.ReadFile(path)
	return strings.TrimSpace(string(data)), err
}

// fingerprint makes calls that gVisor answers otherwise than Linux does, all with
// valid arguments and without effect.
func fingerprint(c *Context) {
	name := [3]*byte{cString("user"), cString("probe-" + c.Nonce), cString("x")}
	const sessionRing = -3
	ring := int32(sessionRing)
	c.TryErr("add_key", func() error {
		return raw(unix.SYS_ADD_KEY, ptr(name[0]), ptr(name[1]), ptr(name[2]), 1, uintptr(ring))
	})
	c.TryErr("name_to_handle_at", func() error {
		_, _, err := unix.NameToHandleAt(unix.AT_FDCWD, scratchDir(), 0)
		return err
	})
	c.TryErr("perf_event_open", perfSelf)
	c.TryErr("vmsplice", func() error {
		_, err := unix.Vmsplice(-1, nil, 0)
		return err
	})
	c.TryErr("memfd_secret", func() error {
		fd, err := unix.MemfdSecret(0)
		if err == nil {
			_ = unix.Close(fd)
		}
		return err
	})
	c.TryErr("landlock", func() error { return raw(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, 1) })
	c.TryErr("syslog", func() error {
		buf := make([]byte, 64)
		_, err := unix.Klogctl(unix.SYSLOG_ACTION_READ_ALL, buf)
		return err
	})
	c.TryErr("personality", func() error { return raw(unix.SYS_PERSONALITY, 0x0040000) })
	for _, s := range []struct {
		sub           string
		domain, proto int
	}{
		{"vsock", unix.AF_VSOCK, 0},
		{"netlink-netfilter", unix.AF_NETLINK, unix.NETLINK_NETFILTER},
		{"netlink-audit", unix.AF_NETLINK, unix.NETLINK_AUDIT},
	} {
		kind := unix.SOCK_RAW
		if s.domain == unix.AF_VSOCK {
			kind = unix.SOCK_STREAM
		}
		c.TryErr(s.sub, func() error { return socket(s.domain, kind, s.proto) })
	}
	c.Try("statfs", func() (string, error) {
		var st unix.Statfs_t
		err := unix.Statfs("/", &st)
		return fmt.Sprintf("%#x", st.Type), err
	})
	c.Try("namespace", func() (string, error) {
		var st unix.Stat_t
		err := unix.Stat("/proc/self/ns/net", &st)
		return fmt.Sprint(st.Ino), err
	})
}

// raw makes a system call that has no wrapper.
func raw(nr uintptr, args ...uintptr) error {
	var a [6]uintptr
	copy(a[:], args)
	if _, _, errno := unix.Syscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5]); errno != 0 {
		return errno
	}
	return nil
}

// cString is a string as the kernel takes it.
func cString(s string) *byte {
	b := append([]byte(s), 0)
	return &b[0]
}

func ptr[T any](p *T) uintptr { return uintptr(unsafe.Pointer(p)) }

// socket makes a socket and closes it.
func socket(domain, kind, proto int) error {
	fd, err := unix.Socket(domain, kind|unix.SOCK_CLOEXEC, proto)
	if err == nil {
		_ = unix.Close(fd)
	}
	return err
}

// perfSelf counts this process's own instructions in user mode.
func perfSelf() error {
	attr := unix.PerfEventAttr{
		Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_TASK_CLOCK, Bits: unix.PerfBitExcludeKernel | unix.PerfBitDisabled,
	}
	attr.Size = uint32(unsafe.Sizeof(attr))
	fd, err := unix.PerfEventOpen(&attr, 0, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err == nil {
		_ = unix.Close(fd)
	}
	return err
}

// hardware lists what the machine shows of itself.
func hardware(c *Context) {
	for _, dir := range []string{"/sys/block", "/sys/class/net", "/sys/class/dmi/id", "/sys/bus/pci/devices", "/sys/firmware/efi"} {
		c.Try(dir, func() (string, error) { return names(dir) })
	}
	c.Try("dmi", func() (string, error) { return readLine("/sys/class/dmi/id/board_name") })
	c.Try("partitions", func() (string, error) { return readLine("/proc/partitions") })
}

// names are those in a directory, as many as fit; none when there is no such.
func names(dir string) (string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	var b strings.Builder
	for _, e := range entries {
		b.WriteString(e.Name() + " ")
	}
	return strings.TrimSpace(b.String()), nil
}
