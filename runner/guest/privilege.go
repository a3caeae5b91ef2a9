package guest

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/quavon/quavon/runner/sandbox"
)

// lastCap is above every capability of any kernel so far.
const lastCap = 63

const allCaps = 1<<64 - 1

// keepAfterSetup are the capabilities that the agent keeps once the job's view is
// arranged: to start commands as other users, to end them, and to handle files
// of any owner.
var keepAfterSetup = capSet(
	unix.CAP_SETUID, unix.CAP_SETGID, unix.CAP_KILL,
	unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_DAC_READ_SEARCH, unix.CAP_FOWNER, unix.CAP_FSETID,
)

func capSet(caps ...uint) uint64 {
	var set uint64
	for _, c := range caps {
		set |= 1 << c
	}
	return set
}

// hide puts the agent out of the job's reach: a uid of its own, not dumpable, so
// that its /proc entries and its memory are closed, and nothing of its
// capabilities is ever passed on by an exec, also not to uid 0.
func hide() error {
	if err := takeUID(); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("become not dumpable: %w", err)
	}
	syscall.Umask(0o022)
	if err := everyThread(unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0); err != nil {
		return fmt.Errorf("clear ambient capabilities: %w", err)
	}
	for c := range uintptr(lastCap) {
		has, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, c, 0, 0, 0)
		if errors.Is(err, unix.EINVAL) {
			break // the kernel doesn't know this one or any above
		}
		if err != nil {
			return fmt.Errorf("read the bounding set: %w", err)
		}
		if has == 0 {
			continue
		}
		if err := everyThread(unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, c, 0); err != nil {
			return fmt.Errorf("drop capability %d from the bounding set: %w", c, err)
		}
	}
	return capLimit(allCaps)
}

// takeUID changes to the agent's uid and keeps the capabilities.
func takeUID() error {
	if os.Getuid() == sandbox.AgentUID {
		return nil
	}
	if err := everyThread(unix.SYS_PRCTL, unix.PR_SET_KEEPCAPS, 1, 0); err != nil {
		return fmt.Errorf("keep capabilities: %w", err)
	}
	const id = sandbox.AgentUID
	if err := syscall.Setgroups(nil); err != nil {
		return fmt.Errorf("drop groups: %w", err)
	}
	if err := syscall.Setresgid(id, id, id); err != nil {
		return fmt.Errorf("take group %d: %w", id, err)
	}
	if err := syscall.Setresuid(id, id, id); err != nil {
		return fmt.Errorf("take uid %d: %w", id, err)
	}
	return capLimit(allCaps) // leaving uid 0 has made none of them effective
}

// capLimit makes the permitted capabilities in keep effective and gives up all
// others, for good. None can be inherited afterwards.
func capLimit(keep uint64) error {
	hdr := &unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(hdr, &data[0]); err != nil {
		return fmt.Errorf("read capabilities: %w", err)
	}
	for i := range data {
		have := data[i].Permitted & uint32(keep>>(32*i))
		data[i] = unix.CapUserData{Effective: have, Permitted: have}
	}
	_, _, errno := syscall.AllThreadsSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(hdr)), uintptr(unsafe.Pointer(&data)), 0)
	if errno != 0 {
		return fmt.Errorf("give up capabilities: %w", errno)
	}
	return nil
}

// everyThread does a system call on each thread: the kernel keeps capabilities
// per thread, and any of them may start the next command.
func everyThread(nr, a1, a2, a3 uintptr) error {
	if _, _, errno := syscall.AllThreadsSyscall(nr, a1, a2, a3); errno != 0 {
		return errno
	}
	return nil
}
