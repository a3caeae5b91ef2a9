package probe

import (
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// call is a system call that opens much of a kernel to whoever may make it.
type call struct {
	name string
	// try makes it with valid arguments, and undoes what it has done.
	try func(c *Context) error
}

func namesOf(list []call) []string {
	var names []string
	for _, k := range list {
		names = append(names, k.name)
	}
	return names
}

// oneOf makes the call of a list that the argument names.
func oneOf(list []call) func(*Context, []string) (string, error) {
	return func(c *Context, args []string) (string, error) {
		for _, k := range list {
			if k.name == args[0] {
				return "", k.try(c)
			}
		}
		return "", unix.ENOTSUP
	}
}

var calls = []call{
	{"request_key", func(*Context) error {
		return raw(unix.SYS_REQUEST_KEY, ptr(cString("user")), ptr(cString("quavon")), 0, 0)
	}},
	{"add_key", func(c *Context) error {
		const processRing = -2
		ring := int32(processRing)
		return raw(unix.SYS_ADD_KEY, ptr(cString("user")), ptr(cString(c.Nonce)), ptr(cString("x")), 1, uintptr(ring))
	}},
	{"bpf", func(*Context) error {
		// An array of one value of four bytes.
		attr := [18]uint32{2, 4, 4, 1}
		fd, _, errno := unix.Syscall(unix.SYS_BPF, 0, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
		return closed(fd, errno)
	}},
	{"perf_event_open", func(*Context) error { return perfSelf() }},
	{"userfaultfd", func(*Context) error {
		const userModeOnly = 1
		fd, _, errno := unix.Syscall(unix.SYS_USERFAULTFD, unix.O_CLOEXEC|userModeOnly, 0, 0)
		return closed(fd, errno)
	}},
	{"io_uring_setup", func(*Context) error {
		var params [30]uint32
		fd, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, 4, uintptr(unsafe.Pointer(&params)), 0)
		return closed(fd, errno)
	}},
	{"init_module", func(*Context) error {
		image := make([]byte, 64) // no module: with the right to load one it is ENOEXEC
		return unix.InitModule(image, "")
	}},
	{"delete_module", func(c *Context) error { return unix.DeleteModule("quavon_"+c.Nonce, unix.O_NONBLOCK) }},
	{"kexec_load", func(*Context) error { return raw(unix.SYS_KEXEC_LOAD, 0, 0, 0, 0) }},
	{"reboot-cad", func(*Context) error { return unix.Reboot(unix.LINUX_REBOOT_CMD_CAD_ON) }},
	{"swapoff", func(c *Context) error { return raw(unix.SYS_SWAPOFF, ptr(cString(c.Scratch("no-swap")))) }},
	{"acct", func(*Context) error { return unix.Acct("") }},
	{"open_by_handle_at", openByHandle},
	{"setns", func(*Context) error {
		fd, err := unix.Open("/proc/1/ns/uts", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		return unix.Setns(fd, unix.CLONE_NEWUTS)
	}},
	{"ioperm", ioPorts},
	{"alg", func(*Context) error { return socket(unix.AF_ALG, unix.SOCK_SEQPACKET, 0) }},
	{"vsock", func(*Context) error { return socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0) }},
	{"netlink-netfilter", func(*Context) error { return socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER) }},
	{"netlink-audit", func(*Context) error { return socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_AUDIT) }},
	{"netlink-generic", func(*Context) error { return socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_GENERIC) }},
	{"xdp", func(*Context) error { return socket(unix.AF_XDP, unix.SOCK_RAW, 0) }},
	{"bluetooth", func(*Context) error { return socket(unix.AF_BLUETOOTH, unix.SOCK_RAW, 1) }},
	{"can", func(*Context) error { return socket(unix.AF_CAN, unix.SOCK_RAW, 1) }},
}

// closed lets go of a descriptor that shouldn't have been given out.
func closed(fd uintptr, errno syscall.Errno) error {
	if errno != 0 {
		return errno
	}
	return unix.Close(int(fd))
}

// openByHandle opens a directory by a handle that the kernel has given for it: with
// such, any file of a disk can be named.
func openByHandle(*Context) error {
	last := error(unix.EOPNOTSUPP)
	for _, dir := range []string{"/", "/usr", "/etc", "/tmp"} {
		h, _, err := unix.NameToHandleAt(unix.AT_FDCWD, dir, 0)
		if err != nil {
			last = err
			continue
		}
		at, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			last = err
			continue
		}
		fd, err := unix.OpenByHandleAt(at, h, os.O_RDONLY)
		_ = unix.Close(at)
		if err == nil {
			return unix.Close(fd)
		}
		last = err
	}
	return last
}
