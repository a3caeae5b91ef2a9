package dockerd

import (
	"context"
	"errors"
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

// Peer is the process that called listen on a Unix socket, as the kernel keeps it; 0
// for one that can't be seen from here.
func Peer(ctx context.Context, socket string) (pid int, err error) {
	c, err := new(net.Dialer).DialContext(ctx, "unix", socket)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	u, ok := c.(*net.UnixConn)
	if !ok {
		return 0, fmt.Errorf("%s is no Unix socket", socket)
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	var credErr error
	err = raw.Control(func(fd uintptr) { cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err := errors.Join(err, credErr); err != nil {
		return 0, err
	}
	return int(cred.Pid), nil
}
