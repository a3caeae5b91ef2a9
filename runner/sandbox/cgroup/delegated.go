package cgroup

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// supervisor is the group to which a service's own processes move below the one that
// it was given: version 2 enables controllers only where there are no processes.
const supervisor = "quavon-supervisor"

// delegated is the directory of the group that systemd has given to this service
// (Delegate=yes), "" when it has given none. Everything outside of it is systemd's, and
// everything in it ends with the service.
func delegated() string {
	paths, err := membership("/proc/self/cgroup")
	if err != nil {
		return ""
	}
	mounted, err := mountRoot(mountPoint)
	if err != nil {
		return ""
	}
	rel, err := filepath.Rel(mounted, paths[""])
	if err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
		return ""
	}
	dir := strings.TrimSuffix(filepath.Join(mountPoint, rel), "/"+supervisor)
	var mark [1]byte
	if n, err := unix.Getxattr(dir, "trusted.delegate", mark[:]); err != nil || n != 1 || mark[0] != '1' {
		return ""
	}
	return dir
}

// vacate moves the processes of a delegated group into one below it.
func vacate(dir string) error {
	to := filepath.Join(dir, supervisor)
	if err := os.Mkdir(to, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	for _, pid := range words(dir, "cgroup.procs") {
		err := write(filepath.Join(to, "cgroup.procs"), pid)
		if err != nil && !errors.Is(err, unix.ESRCH) { // it may have ended
			return err
		}
	}
	return nil
}
