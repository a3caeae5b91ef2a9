package runsc

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/sandbox"
)

// owner is a file's user and group.
type owner struct{ uid, gid uint32 }

func ownerOf(dir string) (owner, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return owner{}, err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.IsDir() {
		return owner{}, fmt.Errorf("%s is not a directory", dir)
	}
	return owner{st.Uid, st.Gid}, nil
}

// idmaps keeps the user namespaces that swap an owner with the job's ids. One is
// made per pair, since making it costs a process.
type idmaps struct {
	mu    sync.Mutex
	files map[[2]owner]*os.File
}

func (m *idmaps) get(o, job owner) (*os.File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if f := m.files[[2]owner{o, job}]; f != nil {
		return f, nil
	}
	f, err := newUserNamespace(swap(o.uid, job.uid), swap(o.gid, job.gid))
	if err != nil {
		return nil, fault.Wrap(err, "make a user namespace to map file owners",
			"check that user namespaces are enabled: sysctl user.max_user_namespaces")
	}
	if m.files == nil {
		m.files = map[[2]owner]*os.File{}
	}
	m.files[[2]owner{o, job}] = f
	return f, nil
}

// swap maps every id to itself but exchanges a and b.
func swap(a, b uint32) []syscall.SysProcIDMap {
	if a > b {
		a, b = b, a
	}
	const all = 1<<32 - 1 // The last id stands for "none".
	lo, hi := int(a), int(b)
	var maps []syscall.SysProcIDMap
	add := func(inside, outside, size int) {
		if size > 0 {
			maps = append(maps, syscall.SysProcIDMap{ContainerID: inside, HostID: outside, Size: size})
		}
	}
	add(0, 0, lo)
	add(lo, hi, 1)
	if lo != hi {
		add(lo+1, lo+1, hi-lo-1)
		add(hi, lo, 1)
	}
	add(hi+1, hi+1, all-hi-1)
	return maps
}

// newUserNamespace returns a user namespace with the given maps. A process is
// needed to make one; it is stopped before its first instruction and killed.
func newUserNamespace(uids, gids []syscall.SysProcIDMap) (*os.File, error) {
	type result struct {
		file *os.File
		err  error
	}
	done := make(chan result)
	onThread(func() {
		f, err := userNamespace(uids, gids)
		done <- result{f, err}
	})
	r := <-done
	return r.file, r.err
}

func userNamespace(uids, gids []syscall.SysProcIDMap) (*os.File, error) {
	pid, err := syscall.ForkExec("/proc/self/exe", []string{"quavon-userns"}, &syscall.ProcAttr{
		Sys: &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER,
			UidMappings: uids,
			GidMappings: gids,
			Pdeathsig:   syscall.SIGKILL,
			Ptrace:      true, // Stops at exec, so no code of ours runs there.
		},
	})
	if err != nil {
		return nil, err
	}
	f, err := os.Open(fmt.Sprintf("/proc/%d/ns/user", pid))
	err = errors.Join(err, syscall.Kill(pid, syscall.SIGKILL))
	for {
		var ws syscall.WaitStatus
		_, werr := syscall.Wait4(pid, &ws, 0, nil)
		if errors.Is(werr, syscall.EINTR) || werr == nil && !ws.Exited() && !ws.Signaled() {
			continue // Its stop is reported first.
		}
		if err = errors.Join(err, werr); err != nil && f != nil {
			err = errors.Join(err, f.Close())
			f = nil
		}
		return f, err
	}
}

// attach mounts source, read-only and with its ids mapped, on target in the
// calling thread's mount namespace.
func attach(source, target string, userns *os.File) error {
	fd, err := unix.OpenTree(unix.AT_FDCWD, source, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err != nil {
		return fault.Wrap(fmt.Errorf("open_tree %s: %w", source, err), "attach "+source, "check that it exists and that you may mount")
	}
	defer func() { _ = unix.Close(fd) }()
	err = unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &unix.MountAttr{
		Attr_set:  unix.MOUNT_ATTR_IDMAP | unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV,
		Userns_fd: uint64(userns.Fd()),
	})
	if err != nil {
		return fault.Wrap(fmt.Errorf("mount_setattr: %w", err), "show "+source+" to the job as its own files",
			fmt.Sprintf("its file system, or one mounted inside it, or this kernel (5.12 is needed) can't map file owners: "+
				"use a directory on ext4, xfs or btrfs, run `chown -R %d:%d` on it, or run quavon as the user who owns it",
				sandbox.JobUID, sandbox.JobUID))
	}
	if err := unix.MoveMount(fd, "", unix.AT_FDCWD, target, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fault.Wrap(fmt.Errorf("move_mount to %s: %w", target, err), "attach "+source, "check that you may mount")
	}
	return nil
}
