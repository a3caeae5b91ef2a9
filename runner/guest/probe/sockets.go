package probe

import (
	"bufio"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
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
	l, err := net.Listen("unix", own)
	c.Try("listen", func() (string, error) { return own, err })
	if err != nil {
		return
	}
	defer func() { _ = l.Close() }()
	go answer(l, c.Nonce)
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

// answer says the nonce to whoever connects.
func answer(l net.Listener, nonce string) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		_, _ = fmt.Fprintln(conn, nonce) // the other side says what it got
		_ = conn.Close()
	}
}

// hello connects and returns the first line of what is said there.
func hello(address string) (string, error) {
	conn, err := net.DialTimeout("unix", address, time.Second)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(500 * time.Millisecond))
	_, _ = fmt.Fprint(conn, "GET /_ping HTTP/1.0\r\n\r\n") // that it connects is enough
	line, _ := bufio.NewReaderSize(conn, 256).ReadString('\n')
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
	l, err := net.Listen("unix", own)
	c.Try("listen", func() (string, error) { return own, err })
	if err != nil {
		return
	}
	defer func() { _ = l.Close() }()
	go answer(l, c.Nonce)
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
