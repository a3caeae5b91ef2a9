package runsc

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// descendants lists pid and its children: the runtime, its gofer, and the
// sandbox, whose own children can't leave its pid namespace.
func descendants(pid int) ([]int, error) {
	pids := []int{pid}
	files, err := fs.Glob(os.DirFS("/proc"), fmt.Sprintf("%d/task/*/children", pid))
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		data, err := os.ReadFile("/proc/" + f)
		if err != nil {
			continue // The thread is gone.
		}
		for _, w := range strings.Fields(string(data)) {
			if n, err := strconv.Atoi(w); err == nil {
				pids = append(pids, n)
			}
		}
	}
	return pids, nil
}

// parentOf is the parent of a process, 0 when there is no such process.
func parentOf(pid int) int {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// The name may have spaces and parentheses; what follows the last one is
	// "state ppid ...".
	_, rest, _ := bytes.Cut(data[bytes.LastIndexByte(data, ')')+1:], []byte(" "))
	fields := bytes.Fields(rest)
	if len(fields) < 2 {
		return 0
	}
	ppid, _ := strconv.Atoi(string(fields[1]))
	return ppid
}

// leftovers lists processes of a slot: runsc passes its --root to all it starts,
// and no two slots have the same. Unlike a recorded number, this can't name
// another process by accident.
func leftovers(root string) ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err == nil && isOf(pid, root) {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// isOf says whether a process has --root=root among its arguments. A zombie has
// no arguments.
func isOf(pid int, root string) bool {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return false
	}
	want := []byte("--root=" + root)
	for arg := range bytes.SplitSeq(data, []byte{0}) {
		if bytes.Equal(arg, want) {
			return true
		}
	}
	return false
}

// killIf ends a process if the check still holds once its number is pinned.
func killIf(pid int, check func() bool) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	if !check() {
		return nil
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); !errors.Is(err, unix.ESRCH) {
		return err
	}
	return nil
}
