package probe

import "golang.org/x/sys/unix"

// ioPorts asks for the right to a port that nothing is behind.
func ioPorts(*Context) error { return unix.Ioperm(0x80, 1, 1) }
