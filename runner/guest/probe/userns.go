package probe

import (
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// userNamespaces makes a user namespace, and in it what a job could then do to the
// kernel. It is a clone with flags: a process of more than one thread can't unshare
// a user namespace.
func userNamespaces(c *Context) {
	for sub, flags := range map[string]uintptr{"user": 0, "netfilter": unix.CLONE_NEWNET} {
		c.Try(sub, func() (string, error) {
			return c.Child(&syscall.SysProcAttr{
				Cloneflags:  unix.CLONE_NEWUSER | flags,
				UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
				GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
			}, sub)
		})
	}
}

func inUserNamespace(_ *Context, args []string) (string, error) {
	if args[0] == "netfilter" {
		return "", newTable()
	}
	return "", nil
}

// newTable adds a table of rules in this network namespace, which ends with it.
func newTable() error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_NETFILTER)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	const (
		batchBegin, batchEnd = 0x10, 0x11
		newTableType         = unix.NFNL_SUBSYS_NFTABLES << 8
		tableName            = 1
	)
	var b []byte
	b = append(b, message(batchBegin, 0, 1, unix.AF_UNSPEC, unix.NFNL_SUBSYS_NFTABLES, nil)...)
	name := attribute(tableName, []byte("quavon\x00"))
	b = append(b, message(newTableType, unix.NLM_F_CREATE|unix.NLM_F_ACK, 2, unix.AF_INET, 0, name)...)
	b = append(b, message(batchEnd, 0, 3, unix.AF_UNSPEC, unix.NFNL_SUBSYS_NFTABLES, nil)...)
	if err := unix.Sendto(fd, b, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	_ = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 1})
	answer := make([]byte, 1<<12)
	n, _, err := unix.Recvfrom(fd, answer, 0)
	if err != nil {
		return err
	}
	if n < unix.SizeofNlMsghdr+4 {
		return unix.EBADMSG
	}
	if errno := *(*int32)(unsafe.Pointer(&answer[unix.SizeofNlMsghdr])); errno != 0 {
		return syscall.Errno(-errno)
	}
	return nil
}

// message is one of netfilter's.
func message(kind, flags uint16, seq uint32, family uint8, resource uint16, body []byte) []byte {
	h := unix.NlMsghdr{Len: uint32(unix.SizeofNlMsghdr + 4 + len(body)), Type: kind, Flags: unix.NLM_F_REQUEST | flags, Seq: seq}
	b := append([]byte{}, unsafe.Slice((*byte)(unsafe.Pointer(&h)), unix.SizeofNlMsghdr)...)
	return append(append(b, family, 0, byte(resource>>8), byte(resource)), body...)
}

// attribute is a value with its length and type, padded.
func attribute(kind uint16, value []byte) []byte {
	h := unix.NlAttr{Len: uint16(4 + len(value)), Type: kind}
	b := append(append([]byte{}, unsafe.Slice((*byte)(unsafe.Pointer(&h)), 4)...), value...)
	return append(b, make([]byte, (4-len(b)%4)%4)...)
}
