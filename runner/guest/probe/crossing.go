package probe

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

var crossing = []Probe{
	{ID: "F1-listen", Timeout: 80 * time.Second, Run: listenForPeer, Held: true},
	{ID: "F1-scan", Run: (*Context).reach},
	{ID: "F2-mark", Run: markPlaces, Sub: lookAtPlace},
	{ID: "F2-look", Run: lookForMarks, Sub: lookAtPlace},
}

// ParamPlaces are where the other sandbox has left marks, such as "file-0 /tmp/x".
const ParamPlaces = "places"

// Shared memory of System V is found by a number, message queues by a name.
const (
	placeMemory = "memory"
	placeQueue  = "queue"
)

// markPlaces leaves a mark wherever the job can, and shows that another process of its
// sandbox finds it.
func markPlaces(c *Context) {
	places := []string{placeMemory + " -", placeQueue + " -"}
	for i, dir := range writableDirs() {
		places = append(places, fmt.Sprintf("file-%d %s", i, filepath.Join(dir, "quavon-mark-"+c.Nonce)))
	}
	for _, p := range places {
		sub, path, _ := strings.Cut(p, " ")
		if err := c.mark(sub, path); err != nil {
			continue // nothing can be left there
		}
		c.Say("place-"+sub, p)
		c.Try("control-"+sub, func() (string, error) { return c.Child(nil, "look", sub, path) })
	}
}

// lookForMarks looks for the other sandbox's.
func lookForMarks(c *Context) {
	for _, p := range c.Params[ParamPlaces] {
		sub, path, _ := strings.Cut(p, " ")
		c.Try(sub, func() (string, error) { return c.Child(nil, "remove", sub, path) })
	}
}

// writableDirs are the mounts that can be written to, and a directory that all may
// use in each.
func writableDirs() []string {
	dirs := []string{"/tmp", "/var/tmp", "/dev/shm", "/dev/mqueue", "/run", "/workspace"}
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return dirs
	}
	for line := range strings.Lines(string(data)) {
		f := strings.Fields(line)
		if len(f) > 4 && !strings.HasPrefix(f[4], "/proc") && len(dirs) < 60 {
			dirs = append(dirs, f[4], filepath.Join(f[4], "tmp"))
		}
	}
	return dirs
}

// key is a number that the run's sandboxes have in common.
func (c *Context) key() int {
	n := 0
	for _, r := range c.Nonce {
		n = (n*31 + int(r)) & 0x3fffffff
	}
	return n + 1
}

const markSize = 4096

func (c *Context) mark(sub, path string) error {
	switch sub {
	case placeMemory:
		_, err := unix.SysvShmGet(c.key(), markSize, unix.IPC_CREAT|unix.IPC_EXCL|0o666)
		return err
	case placeQueue:
		return c.queue(unix.O_CREAT | unix.O_EXCL | unix.O_RDWR)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	_, err = f.WriteString(c.Nonce)
	return errors.Join(err, f.Close())
}

// lookAtPlace looks for a mark, and with "remove" takes it away.
func lookAtPlace(c *Context, args []string) (string, error) {
	if len(args) != 3 {
		return "", unix.EINVAL
	}
	remove, path := args[0] == "remove", args[2]
	switch args[1] {
	case placeMemory:
		id, err := unix.SysvShmGet(c.key(), markSize, 0)
		if err == nil && remove {
			_, err = unix.SysvShmCtl(id, unix.IPC_RMID, nil)
		}
		return "", err
	case placeQueue:
		err := c.queue(unix.O_RDONLY)
		if err == nil && remove {
			err = c.unlinkQueue()
		}
		return "", err
	}
	data, err := os.ReadFile(path)
	if err == nil && string(data) != c.Nonce {
		err = unix.ENOENT // another's
	}
	if err == nil && remove {
		_ = os.Remove(path) // what was found is enough
	}
	return path, err
}

// listenForPeer listens on every address it has and says who came.
func listenForPeer(c *Context) {
	at := "0.0.0.0:" + c.Params[ParamPeerPort][0]
	fd, err := listenTCP(at)
	c.TryErr("listening", func() error { return err })
	if err != nil {
		return
	}
	defer func() { _ = unix.Close(fd) }()
	c.Try("control-before", func() (string, error) { return c.connectPeer(fd, "control-before") })
	c.Say("ready", "")
	var heard []string
	for end := time.Now().Add(peerTime); time.Now().Before(end) && !c.letGo(); {
		if text, err := acceptText(fd, answerTime); err == nil {
			heard = append(heard, text)
		}
	}
	c.Say("heard", strings.Join(heard, " "))
	c.Try("control-after", func() (string, error) { return c.connectPeer(fd, "control-after") })
}

// ParamPeerPort is the port that the other sandbox listens on.
const ParamPeerPort = "peer-port"

// peerTime is how long the peer waits for visitors, if the host doesn't say before that
// they have been there.
const peerTime = time.Minute

// connectPeer shows that the listener works for this sandbox itself.
func (c *Context) connectPeer(listener int, sub string) (string, error) {
	fd, err := dial("tcp", "127.0.0.1:"+c.Params[ParamPeerPort][0])
	if err != nil {
		return "", err
	}
	defer func() { _ = unix.Close(fd) }()
	if _, err := unix.Write(fd, []byte(c.token(sub))); err != nil {
		return "", err
	}
	text, err := acceptText(listener, answerTime)
	if err == nil && !strings.Contains(text, c.token(sub)) {
		err = errors.New("the listener heard something else")
	}
	return "", err
}

func listenTCP(address string) (int, error) {
	family, at, err := socketAddress("tcp", address)
	if err != nil {
		return -1, err
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	if err = unix.Bind(fd, at); err == nil {
		err = unix.Listen(fd, 16)
	}
	if err != nil {
		_ = unix.Close(fd)
	}
	return fd, err
}

// acceptText takes a connection and returns what it says first.
func acceptText(listener int, limit time.Duration) (string, error) {
	if err := await(listener, unix.POLLIN, limit); err != nil {
		return "", err
	}
	fd, _, err := unix.Accept4(listener, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
	if err != nil {
		return "", err
	}
	defer func() { _ = unix.Close(fd) }()
	if err := await(fd, unix.POLLIN, answerTime); err != nil {
		return "silence", nil // a visitor all the same
	}
	var buf [256]byte
	n, err := unix.Read(fd, buf[:])
	_, _ = unix.Write(fd, []byte("peer\n"))
	return strings.Join(strings.Fields(string(buf[:max(n, 0)])), " "), err
}
