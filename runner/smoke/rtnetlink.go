package smoke

import (
	"encoding/binary"
	"errors"

	"golang.org/x/sys/unix"
)

// everyAddressIsLocal brings up the calling thread's loopback, and routes all of IPv4
// and IPv6 to it: whatever is connected to in this namespace is this namespace.
func everyAddressIsLocal() error {
	const loopback = 1
	up := make([]byte, unix.SizeofIfInfomsg)
	binary.NativeEndian.PutUint32(up[4:], loopback)
	binary.NativeEndian.PutUint32(up[8:], unix.IFF_UP)
	binary.NativeEndian.PutUint32(up[12:], unix.IFF_UP)
	return errors.Join(
		netlink(unix.RTM_NEWLINK, 0, up),
		netlink(unix.RTM_NEWROUTE, unix.NLM_F_CREATE, localRoute(unix.AF_INET, loopback)),
		netlink(unix.RTM_NEWROUTE, unix.NLM_F_CREATE, localRoute(unix.AF_INET6, loopback)),
	)
}

// localRoute is the message for "local default dev lo".
func localRoute(family byte, device uint32) []byte {
	m := []byte{family, 0, 0, 0, unix.RT_TABLE_LOCAL, unix.RTPROT_BOOT, unix.RT_SCOPE_HOST, unix.RTN_LOCAL, 0, 0, 0, 0}
	m = binary.NativeEndian.AppendUint16(m, unix.SizeofRtAttr+4)
	m = binary.NativeEndian.AppendUint16(m, unix.RTA_OIF)
	return binary.NativeEndian.AppendUint32(m, device)
}

// netlink makes one request of the routing socket and reads its answer.
func netlink(kind, flags uint16, body []byte) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	m := binary.NativeEndian.AppendUint32(nil, uint32(unix.SizeofNlMsghdr+len(body))) //nolint:gosec // a few bytes
	m = binary.NativeEndian.AppendUint16(m, kind)
	m = binary.NativeEndian.AppendUint16(m, flags|unix.NLM_F_REQUEST|unix.NLM_F_ACK)
	m = binary.NativeEndian.AppendUint64(m, 0) // sequence and sender
	if err := unix.Sendto(fd, append(m, body...), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	var reply [512]byte
	n, _, err := unix.Recvfrom(fd, reply[:], 0)
	if err != nil {
		return err
	}
	if n < unix.SizeofNlMsghdr+4 {
		return errors.New("the kernel's answer is too short")
	}
	if errno := int32(binary.NativeEndian.Uint32(reply[unix.SizeofNlMsghdr:])); errno != 0 { //nolint:gosec // it is negative
		return unix.Errno(-errno)
	}
	return nil
}
