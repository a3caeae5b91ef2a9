package host

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// ioctls of /dev/kvm, and the one version of its interface.
const (
	kvmGetAPIVersion = 0xAE00
	kvmCreateVM      = 0xAE01
	kvmVersion       = 12
)

// CreateVM implements Host.
func (Real) CreateVM() (step string, err error) {
	f, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0)
	if err != nil {
		return "open", err
	}
	defer f.Close()
	version, err := kvmCall(f, kvmGetAPIVersion)
	if err == nil && version != kvmVersion {
		err = fmt.Errorf("the interface has version %d instead of %d", version, kvmVersion)
	}
	if err != nil {
		return "version", err
	}
	vm, err := kvmCall(f, kvmCreateVM)
	if err != nil {
		return "create", err
	}
	return "", unix.Close(vm)
}

func kvmCall(f *os.File, request uintptr) (int, error) {
	n, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), request, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}
