package guest

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// openPTY makes a terminal of the given size that belongs to uid. It returns the
// master, which doesn't block, and the descriptor of the command's end.
func openPTY(uid uint32, size *unix.Winsize) (*os.File, int, error) {
	fd, err := syscall.Open("/dev/ptmx", syscall.O_RDWR|syscall.O_NOCTTY|syscall.O_CLOEXEC|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, 0, &os.PathError{Op: "open", Path: "/dev/ptmx", Err: err}
	}
	slave, err := openSlave(fd, uid, size)
	if err != nil {
		return nil, 0, fmt.Errorf("make a terminal: %w", errors.Join(err, syscall.Close(fd)))
	}
	return os.NewFile(uintptr(fd), "/dev/ptmx"), slave, nil
}

func openSlave(master int, uid uint32, size *unix.Winsize) (int, error) {
	if err := unix.IoctlSetPointerInt(master, unix.TIOCSPTLCK, 0); err != nil {
		return 0, os.NewSyscallError("unlock", err)
	}
	// By the master, not by a path in /dev/pts, which need not be this one's.
	const flags = syscall.O_RDWR | syscall.O_NOCTTY | syscall.O_CLOEXEC
	fd, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(master), unix.TIOCGPTPEER, flags)
	if errno != 0 {
		return 0, os.NewSyscallError("open", errno)
	}
	slave := int(fd)
	err := unix.IoctlSetWinsize(slave, unix.TIOCSWINSZ, size)
	if err == nil {
		err = unix.Fchown(slave, int(uid), -1)
	}
	if err != nil {
		return 0, errors.Join(err, syscall.Close(slave))
	}
	return slave, nil
}

func winsize(rows, cols uint32) *unix.Winsize {
	return &unix.Winsize{Row: uint16(rows), Col: uint16(cols)}
}
