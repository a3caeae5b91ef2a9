package probe

import (
	"os"
	"runtime/debug"
	"unsafe"

	"golang.org/x/sys/unix"
)

// int80 makes a system call of 32 bits, by the gate that programs of 32 bits use. Where
// the kernel has none, the processor refuses the instruction.
func int80(nr, a, b uint32) (ret int32)

// Numbers of system calls of 32 bits, and the bit of those of x32.
const (
	getpid32     = 20
	socketcall32 = 102
	x32Bit       = 0x40000000
)

// compatCalls are made of other tables of system calls than the one that a filter for
// programs of 64 bits is about. socketcall has its arguments in memory, where no filter
// sees them.
var compatCalls = []call{
	{"int80-getpid", func(*Context) error {
		return refusable(func() error { return ownPID(int80(getpid32, 0, 0)) })
	}},
	{"int80-socketcall", func(*Context) error {
		const socket, size = 1, 4096
		low, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_32BIT)
		if err != nil {
			return err
		}
		*(*[3]uint32)(unsafe.Pointer(&low[0])) = [3]uint32{unix.AF_UNIX, unix.SOCK_STREAM, 0}
		return refusable(func() error {
			fd := int80(socketcall32, socket, uint32(uintptr(unsafe.Pointer(&low[0]))))
			if fd < 0 {
				return unix.Errno(-fd)
			}
			return unix.Close(int(fd))
		})
	}},
	{"x32-getpid", func(*Context) error {
		pid, _, errno := unix.RawSyscall(unix.SYS_GETPID|x32Bit, 0, 0, 0)
		if errno != 0 {
			return errno
		}
		return ownPID(int32(pid))
	}},
}

// ownPID says whether an answer is one.
func ownPID(ret int32) error {
	switch {
	case ret < 0:
		return unix.Errno(-ret)
	case int(ret) != os.Getpid():
		return &Remote{Errno: ErrnoOther, Answer: "another number than this process's"}
	}
	return nil
}

// refusable makes an error of an instruction that the processor refuses.
func refusable(f func() error) (err error) {
	debug.SetPanicOnFault(true)
	defer func() {
		if recover() != nil {
			err = &Remote{Errno: ErrnoFault, Answer: "the processor refused the instruction"}
		}
	}()
	return f()
}
