//go:build !amd64

package probe

import "golang.org/x/sys/unix"

// compatCalls: no program of 64 bits can make them on this processor.
var compatCalls = []call{
	{"int80-getpid", func(*Context) error { return unix.ENOSYS }},
	{"int80-socketcall", func(*Context) error { return unix.ENOSYS }},
	{"x32-getpid", func(*Context) error { return unix.ENOSYS }},
}
