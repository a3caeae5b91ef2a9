package probe

import (
	"golang.org/x/sys/unix"
)

// echoes sends echo requests, by sockets that take no privilege and by such that do.
func echoes(c *Context) {
	request := append([]byte{8, 0, 0, 0, 0, 0, 0, 1}, c.token("ping")...)
	c.Try("ping", func() (string, error) {
		return echo(unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_ICMP, &unix.SockaddrInet4{Addr: [4]byte{203, 0, 113, 7}}, request)
	})
	request6 := append([]byte{128, 0, 0, 0, 0, 0, 0, 1}, c.token("ping6")...)
	c.Try("ping6", func() (string, error) {
		to := &unix.SockaddrInet6{Addr: [16]byte{0x20, 0x01, 0x0d, 0xb8, 15: 7}}
		return echo(unix.AF_INET6, unix.SOCK_DGRAM, unix.IPPROTO_ICMPV6, to, request6)
	})
	c.Try("raw", func() (string, error) {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_ICMP)
		if err != nil {
			return "", err
		}
		return "", unix.Close(fd)
	})
}

// echo sends a request and waits for an answer.
func echo(family, kind, protocol int, to unix.Sockaddr, request []byte) (string, error) {
	fd, err := unix.Socket(family, kind|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, protocol)
	if err != nil {
		return "", err
	}
	defer func() { _ = unix.Close(fd) }()
	if err := unix.Sendto(fd, request, 0, to); err != nil {
		return "", err
	}
	if err := await(fd, unix.POLLIN, answerTime); err != nil {
		return "", err
	}
	return "an answer came", nil
}
