package guest

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/quavon/quavon/runner/agent/wire"
)

// highFD keeps the channel's descriptors away from those that a command gets.
const highFD = 100

// takeChannel moves stdin and stdout to descriptors that no command inherits and
// leaves /dev/null in their places, so that nothing else can write to the host.
func takeChannel() (*wire.Files, error) {
	r, err := moveUp(0, "from the host")
	if err != nil {
		return nil, err
	}
	w, err := moveUp(1, "to the host")
	if err != nil {
		return nil, err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	for _, fd := range []int{0, 1} {
		if err := unix.Dup3(int(null.Fd()), fd, 0); err != nil {
			return nil, err
		}
	}
	return wire.NewFiles(r, w)
}

// moveUp duplicates a descriptor to a high number, non-blocking.
func moveUp(fd int, name string) (*os.File, error) {
	high, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, highFD)
	if err != nil {
		return nil, err
	}
	if err := syscall.SetNonblock(high, true); err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(high), name), nil
}

// errnoOf returns the error number in a chain, 0 when there is none.
func errnoOf(err error) syscall.Errno {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return 0
}
