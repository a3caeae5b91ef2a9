//go:build !amd64

package probe

import "golang.org/x/sys/unix"

// ioPorts: this processor has none.
func ioPorts(*Context) error { return unix.ENOSYS }
