package probe

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// queueName is that of a message queue of the run's.
func (c *Context) queueName() (*byte, error) { return unix.BytePtrFromString("quavon-mark-" + c.Nonce) }

// queue opens the run's message queue, which the kernel keeps without a file system.
func (c *Context) queue(flags int) error {
	name, err := c.queueName()
	if err != nil {
		return err
	}
	fd, _, errno := unix.Syscall6(unix.SYS_MQ_OPEN, uintptr(unsafe.Pointer(name)), uintptr(flags), 0o666, 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return unix.Close(int(fd))
}

func (c *Context) unlinkQueue() error {
	name, err := c.queueName()
	if err != nil {
		return err
	}
	if _, _, errno := unix.Syscall(unix.SYS_MQ_UNLINK, uintptr(unsafe.Pointer(name)), 0, 0); errno != 0 {
		return errno
	}
	return nil
}
