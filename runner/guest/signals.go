package guest

import (
	"os/signal"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The runtime needs handlers for these: faults become panics, SIGURG preempts,
// SIGPIPE must not kill, SIGPROF profiles.
var needed = map[syscall.Signal]bool{
	syscall.SIGILL: true, syscall.SIGTRAP: true, syscall.SIGABRT: true, syscall.SIGBUS: true, syscall.SIGFPE: true,
	syscall.SIGSEGV: true, syscall.SIGURG: true, syscall.SIGPIPE: true, syscall.SIGPROF: true,
}

// lastSignal is the highest signal of Linux; 32 and 33 are its libraries' own.
const lastSignal = 64

// dropSignals takes the runtime's handlers off all other signals and leaves them
// the kernel's default. The runtime installs one for each and resets each again
// between fork and exec, one system call after the other: under gVisor that is a
// tenth of a short command's time.
func dropSignals() {
	var byDefault [4]uint64 // a struct sigaction of zeros: SIG_DFL
	for s := syscall.Signal(1); s <= lastSignal; s++ {
		if needed[s] || s == syscall.SIGKILL || s == syscall.SIGSTOP || s == 32 || s == 33 {
			continue
		}
		signal.Ignore(s) // the runtime forgets its handler; commands must not inherit this
		_, _, _ = syscall.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(s), uintptr(unsafe.Pointer(&byDefault)), 0, 8, 0, 0)
	}
}
