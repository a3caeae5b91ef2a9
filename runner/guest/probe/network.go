package probe

import (
	"errors"
	"net/netip"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// network probes connect to what the host's side names in the parameter of the
// probe's id: "SUB NET ADDRESS", where something listens for the token.
var network = []Probe{
	reaching("E2-metadata"), reaching("E3-host"), reaching("E3-door"), reaching("E4-lan"), reaching("E5-internet"),
	{ID: "E5-icmp", Run: echoes},
	reaching("E6-ipv6"), reaching("E7-dns"),
}

func reaching(id string) Probe {
	return Probe{ID: id, Timeout: 40 * time.Second, Run: (*Context).reach}
}

func (c *Context) reach() {
	for _, p := range c.Params[c.probe.ID] {
		f := strings.Fields(p)
		if len(f) != 3 {
			c.out.result(c.probe.ID, "parameters", ErrnoOther, p)
			return
		}
		c.Try(f[0], func() (string, error) { return c.connect(f[1], f[2], c.token(f[0])) })
	}
}

// token is what an attempt says to whoever listens.
func (c *Context) token(sub string) string { return c.Nonce + "-inside-" + sub }

// connectTime bounds a connection, answerTime the wait for an answer.
const (
	connectTime = time.Second
	answerTime  = 300 * time.Millisecond
)

// connect connects and says something.
func (c *Context) connect(network, address, text string) (string, error) {
	fd, err := dial(network, address)
	if err != nil {
		return "", err
	}
	defer func() { _ = unix.Close(fd) }()
	answer, err := talk(fd, "GET /"+text+" HTTP/1.1\r\n\r\n")
	if err != nil && network != "udp" {
		return "connected, and then " + err.Error(), nil
	}
	return answer, err
}

// talk sends a text and returns the beginning of the answer. A datagram to which
// nobody answers is a timeout.
func talk(fd int, text string) (string, error) {
	if _, err := unix.Write(fd, []byte(text)); err != nil {
		return "", err
	}
	if err := await(fd, unix.POLLIN, answerTime); err != nil {
		return "", err
	}
	var buf [256]byte
	n, err := unix.Read(fd, buf[:])
	if err != nil {
		return "", err
	}
	return firstLine(buf[:n]), nil
}

// dial returns a connected socket that doesn't block.
func dial(network, address string) (int, error) {
	kind := unix.SOCK_STREAM
	if network == "udp" {
		kind = unix.SOCK_DGRAM
	}
	family, to, err := socketAddress(network, address)
	if err != nil {
		return -1, err
	}
	fd, err := unix.Socket(family, kind|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	err = unix.Connect(fd, to)
	if errors.Is(err, unix.EINPROGRESS) {
		err = connected(fd)
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

func socketAddress(network, address string) (int, unix.Sockaddr, error) {
	if network == "unix" {
		return unix.AF_UNIX, &unix.SockaddrUnix{Name: address}, nil
	}
	a, err := netip.ParseAddrPort(address)
	if err != nil {
		return 0, nil, err
	}
	if a.Addr().Is4() {
		return unix.AF_INET, &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}, nil
	}
	return unix.AF_INET6, &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16()}, nil
}

// connected waits for a connection under way.
func connected(fd int) error {
	if err := await(fd, unix.POLLOUT, connectTime); err != nil {
		return err
	}
	errno, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
	if err == nil && errno != 0 {
		err = unix.Errno(errno)
	}
	return err
}

// await waits until something can be done with a descriptor.
func await(fd int, events int16, limit time.Duration) error {
	p := []unix.PollFd{{Fd: int32(fd), Events: events}} //nolint:gosec // a descriptor
	deadline := time.Now().Add(limit)
	for {
		n, err := unix.Poll(p, int(max(0, time.Until(deadline)).Milliseconds()))
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return err
		case n == 0:
			return os.ErrDeadlineExceeded
		}
		return nil
	}
}
