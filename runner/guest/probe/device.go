package probe

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

var device = []Probe{
	{ID: "D1-inventory", Run: deviceNodes},
	{ID: "D2-mknod", Run: makeNodes},
	{ID: "D3-vsock", Run: vsock},
}

// ParamRootDisk is the number of the host's own disk, "major:minor".
const ParamRootDisk = "root-disk"

// deviceNodes lists the device nodes there are, and which open.
func deviceNodes(c *Context) {
	c.TryErr("control", func() error { return openWrite("/dev/null") })
	n := 0
	_ = filepath.WalkDir("/dev", func(path string, _ fs.DirEntry, err error) error {
		var st unix.Stat_t
		if err != nil || unix.Lstat(path, &st) != nil || n > 300 {
			return nil //nolint:nilerr // what can't be listed can't be opened
		}
		kind := map[uint32]string{unix.S_IFCHR: "c", unix.S_IFBLK: "b"}[st.Mode&unix.S_IFMT]
		if kind == "" { // of its entry in the directory nothing is believed: something may be mounted over it
			return nil
		}
		n++
		c.Say("node-"+strconv.Itoa(n), fmt.Sprintf("%s %d:%d %s %s", kind, unix.Major(st.Rdev), unix.Minor(st.Rdev), path, opens(path)))
		return nil
	})
	c.Say("count", strconv.Itoa(n))
}

// opens says whether a node opens, for reading alone and without waiting.
func opens(path string) string {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	errno, _ := ErrnoName(err)
	if err == nil {
		_ = unix.Close(fd)
		return "opens"
	}
	return errno
}

// makeNodes makes device nodes and opens them. Nothing is read.
func makeNodes(c *Context) {
	nodes := map[string]string{"null": "c 1:3", "kvm": "c 10:232", "mem": "c 1:1", "kmsg": "c 1:11"}
	for i, disk := range c.Params[ParamRootDisk] {
		nodes["disk-"+strconv.Itoa(i)] = "b " + disk
	}
	for sub, node := range nodes {
		c.Try(sub, func() (string, error) { return makeNode(c, sub, node) })
	}
}

func makeNode(c *Context, name, node string) (string, error) {
	kind, number, _ := strings.Cut(node, " ")
	major, minor, _ := strings.Cut(number, ":")
	maj, err1 := strconv.ParseUint(major, 10, 32)
	mnr, err2 := strconv.ParseUint(minor, 10, 32)
	if err1 != nil || err2 != nil {
		return "", unix.EINVAL
	}
	mode := uint32(unix.S_IFCHR | 0o600)
	if kind == "b" {
		mode = unix.S_IFBLK | 0o600
	}
	last := error(unix.EPERM)
	for _, dir := range []string{scratchDir(), "/dev", "/dev/shm"} {
		path := filepath.Join(dir, "probe-"+c.Nonce+"-"+name)
		if err := unix.Mknod(path, mode, int(unix.Mkdev(uint32(maj), uint32(mnr)))); err != nil {
			if dir == scratchDir() {
				last = err
			}
			continue
		}
		state := opens(path)
		_ = os.Remove(path)
		return path + " " + state, nil
	}
	return "", last
}

// vsock tries the way to the machine below.
func vsock(c *Context) {
	c.TryErr("socket", func() error { return socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0) })
	c.TryErr("datagram", func() error { return socket(unix.AF_VSOCK, unix.SOCK_DGRAM, 0) })
	c.Try("device", func() (string, error) { return "", openWrite("/dev/vsock") })
	for _, cid := range []uint32{unix.VMADDR_CID_HOST, unix.VMADDR_CID_LOCAL, unix.VMADDR_CID_HYPERVISOR} {
		c.TryErr(fmt.Sprintf("connect-%d", cid), func() error {
			fd, err := unix.Socket(unix.AF_VSOCK, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
			if err != nil {
				return err
			}
			defer func() { _ = unix.Close(fd) }()
			return unix.Connect(fd, &unix.SockaddrVM{CID: cid, Port: 1024})
		})
	}
}
