// Command shim starts another program, the agent of a weakened sandbox, behind a
// seccomp filter that answers "done" to what it was told to keep from happening. So
// the agent is the same file, byte by byte, and only believes that it has given
// something up.
package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "shim:", err) //nolint:forbidigo // a program of its own
		os.Exit(1)                            //nolint:forbidigo // as above
	}
}

// call is a system call that seems to succeed; with arg only those whose first
// argument it is.
type call struct {
	nr  uint32
	arg *uint32
}

func prctl(option uint32) call { return call{unix.SYS_PRCTL, &option} }

// faked are the calls behind each word of the command line.
var faked = map[string][]call{
	"caps":     {{nr: unix.SYS_CAPSET}, prctl(unix.PR_CAP_AMBIENT), prctl(unix.PR_CAPBSET_DROP)},
	"dumpable": {prctl(unix.PR_SET_DUMPABLE)},
	"agent-id": {{nr: unix.SYS_SETRESUID}, {nr: unix.SYS_SETRESGID}},
	"job-id":   {{nr: unix.SYS_SETUID}, {nr: unix.SYS_SETGID}, {nr: unix.SYS_SETGROUPS}},
}

func run(args []string) error {
	if len(args) < 2 {
		return errors.New("usage: shim WORD[,WORD…] PROGRAM [ARGUMENT…]")
	}
	var calls []call
	for word := range strings.SplitSeq(args[0], ",") {
		c, ok := faked[word]
		if !ok {
			return fmt.Errorf("the word %q is unknown", word)
		}
		calls = append(calls, c...)
	}
	runtime.LockOSThread() // the filter is the thread's, and so the program's
	if err := install(filter(calls)); err != nil {
		return fmt.Errorf("install the filter: %w", err)
	}
	return syscall.Exec(args[1], args[1:], os.Environ())
}

// Offsets in the kernel's struct seccomp_data.
const (
	offsetNr  = 0
	offsetArg = 16
)

func filter(calls []call) []unix.SockFilter {
	const (
		load  = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		equal = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		ret   = unix.BPF_RET | unix.BPF_K
	)
	fake := unix.SockFilter{Code: ret, K: unix.SECCOMP_RET_ERRNO} // error number 0
	var p []unix.SockFilter
	for _, c := range calls {
		p = append(p, unix.SockFilter{Code: load, K: offsetNr})
		if c.arg == nil {
			p = append(p, unix.SockFilter{Code: equal, K: c.nr, Jf: 1}, fake)
			continue
		}
		p = append(p, unix.SockFilter{Code: equal, K: c.nr, Jf: 3},
			unix.SockFilter{Code: load, K: offsetArg}, unix.SockFilter{Code: equal, K: *c.arg, Jf: 1}, fake)
	}
	return append(p, unix.SockFilter{Code: ret, K: unix.SECCOMP_RET_ALLOW})
}

func install(p []unix.SockFilter) error {
	prog := unix.SockFprog{Len: uint16(len(p)), Filter: &p[0]} //nolint:gosec // a few dozen
	_, _, errno := unix.Syscall(unix.SYS_PRCTL, unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&prog)))
	if errno != 0 {
		return errno
	}
	return nil
}
