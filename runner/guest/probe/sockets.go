package probe

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// knownSockets are where engines and the like listen.
var knownSockets = []string{
	"/run/docker.sock", "/var/run/docker.sock", "/run/containerd/containerd.sock", "/run/crio/crio.sock", "/run/podman/podman.sock",
	"/run/systemd/private", "/run/dbus/system_bus_socket", "/run/snapd.socket", "/run/libvirt/libvirt-sock", "/dev/log",
}

// Bounds of the walk for sockets.
const (
	maxWalk    = 6000
	maxSockets = 40
)

// sockets connects to every socket that it finds, one of its own among them.
func sockets(c *Context) {
	own := c.Scratch("listener")
	err := c.listenAt(own)
	c.Try("listen", func() (string, error) { return own, err })
	if err != nil {
		return
	}
	defer func() { _ = os.Remove(own) }()
	found := findSockets(c)
	c.Say("found", strconv.Itoa(len(found)))
	for i, path := range found {
		sub := "socket-" + strconv.Itoa(i)
		if path == own {
			sub = "control"
		}
		c.Try(sub, func() (string, error) {
			a, err := hello(path)
			return path + " " + a, err
		})
	}
	c.Try("control-after", func() (string, error) {
		a, err := hello(own)
		return own + " " + a, err
	})
}

// listenAt listens at a path, or at an abstract name that begins with "@". It ends
// with the process.
func (c *Context) listenAt(name string) error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	err = unix.Bind(fd, &unix.SockaddrUnix{Name: name})
	if err == nil {
		err = unix.Listen(fd, maxSockets)
	}
	if err != nil {
		return errors.Join(err, unix.Close(fd))
	}
	go answer(fd, c.Nonce)
	return nil
}

// answer says the nonce to whoever connects.
func answer(listener int, nonce string) {
	for {
		fd, _, err := unix.Accept4(listener, unix.SOCK_CLOEXEC)
		if err != nil {
			return
		}
		_, _ = unix.Write(fd, []byte(nonce+"\n")) // the other side says what it got
		_ = unix.Close(fd)
	}
}

// hello connects and returns the first line of what is said there.
func hello(address string) (string, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	defer func() { _ = unix.Close(fd) }()
	const patience = 500 * time.Millisecond
	limit := unix.NsecToTimeval(int64(patience))
	for _, option := range []int{unix.SO_SNDTIMEO, unix.SO_RCVTIMEO} { // the send's is the connection's too
		if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, option, &limit); err != nil {
			return "", err
		}
	}
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: address}); err != nil {
		return "", err
	}
	// That it connects is enough; what is said is for people.
	_ = unix.Sendto(fd, []byte("GET /_ping HTTP/1.0\r\n\r\n"), unix.MSG_NOSIGNAL, nil)
	buf := make([]byte, 256)
	n, _ := unix.Read(fd, buf)
	line, _, _ := strings.Cut(string(buf[:max(n, 0)]), "\n")
	return "says " + strconv.Quote(line[:min(len(line), 60)]), nil
}

// findSockets walks what a job can see, the big read-only trees of programs left out.
func findSockets(c *Context) []string {
	found := []string{c.Scratch("listener")}
	add := func(path string) {
		if len(found) < maxSockets && !slices.Contains(found, path) {
			found = append(found, path)
		}
	}
	roots := strings.Fields("/run /var/run /var/lib /tmp /var/tmp /dev /mnt /home /etc /srv /opt /root /workspace")
	all, _ := mounts()
	for _, m := range all {
		for _, k := range knownSockets {
			if isSocket(m.target + k) {
				add(filepath.Clean(m.target + k))
			}
		}
		if !slices.Contains([]string{"/", "/usr", "/proc", "/sys", "/bin", "/lib", "/lib64", "/sbin"}, m.target) {
			roots = append(roots, m.target)
		}
	}
	seen := 0
	for _, root := range roots {
		_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if seen++; seen > maxWalk {
				return filepath.SkipAll
			}
			if err != nil {
				return nil //nolint:nilerr // what can't be listed can't be connected to
			}
			if d.IsDir() && (strings.Count(path, "/") > 7 || slices.Contains([]string{"proc", "sys", "usr"}, d.Name())) {
				return filepath.SkipDir
			}
			if d.Type()&fs.ModeSocket != 0 {
				add(path)
			}
			return nil
		})
	}
	return found
}

func isSocket(path string) bool {
	fi, err := os.Stat(path)
	return err == nil && fi.Mode()&os.ModeSocket != 0
}

// abstractSockets connects to the host's abstract sockets, by the names that it is
// given and by those that the kernel lists.
func abstractSockets(c *Context) {
	own := "@probe-" + c.Nonce
	err := c.listenAt(own)
	c.Try("listen", func() (string, error) { return own, err })
	if err != nil {
		return
	}
	c.Try("control", func() (string, error) { return hello(own) })
	for i, name := range c.Params[ParamAbstract] {
		c.Try("given-"+strconv.Itoa(i), func() (string, error) { return hello(name) })
	}
	data, err := os.ReadFile("/proc/net/unix")
	c.Try("list", func() (string, error) { return "", err })
	n := 0
	for line := range strings.Lines(string(data)) {
		f := strings.Fields(line)
		name := f[len(f)-1]
		if !strings.HasPrefix(name, "@") || name == own || strings.HasPrefix(name, own) || n >= maxSockets {
			continue
		}
		n++
		c.Try("listed-"+strconv.Itoa(n), func() (string, error) {
			a, err := hello(name)
			return name + " " + a, err
		})
	}
	c.Try("control-after", func() (string, error) { return hello(own) })
}
