package docker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
	"golang.org/x/sys/unix"

	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/sandbox"
)

// The backends docker-sysbox and docker-privileged give a job an engine of its own.
// What it and the job write lies on a file of the disk limit's size, with an ext4
// file system, that is mounted on this host and shown to the container: so these
// backends, unlike the others, need root here and an engine on this host.
const (
	diskFile = "disk.ext4"
	diskDir  = "disk"
	// nestedDir is where the job finds its part of the disk.
	nestedDir = "/scratch"
	// defaultDisk is for jobs without a disk limit, in bytes; the file is sparse.
	defaultDisk = 64 << 30
)

// warn says what a privileged container is, at the start and with each job.
func (b *Backend) warn(job string) {
	if b.Config.Name == Privileged {
		b.Log.Warn("a privileged container is equivalent to host root: this backend does not isolate", "backend", Privileged, "job", job)
	}
}

// nest changes a container's configuration to one in which an engine can run.
func (b *Backend) nest(h *container.HostConfig) {
	h.CapDrop = nil
	h.CapAdd = []string{"ALL"}
	h.Privileged = b.Config.Name == Privileged
}

// addDisk makes the sandbox's disk and shows it to the container.
func (s *box) addDisk(ctx context.Context, h *container.HostConfig, c sandbox.Config) error {
	if os.Geteuid() != 0 {
		return fault.New(s.b.Name()+" mounts a disk for each job, which takes root", "run quavon as root, or use "+Runsc)
	}
	file, dir := s.slot.Path(diskFile), s.slot.Path(diskDir)
	if err := os.Mkdir(dir, 0o711); err != nil {
		return err
	}
	if err := makeDisk(ctx, file, cmp.Or(c.Limits.Disk, defaultDisk)); err != nil {
		return err
	}
	if err := command(ctx, "mount", "-t", "ext4", "-o", "loop,nosuid,nodev", file, dir); err != nil {
		return err
	}
	owner := c.MountOwner()
	for _, d := range []struct {
		name, target string
		uid, gid     uint32
	}{{"agent", sandbox.ScratchDir, sandbox.AgentUID, sandbox.AgentUID}, {"job", nestedDir, owner.UID, owner.GID}} {
		path := s.slot.Path(diskDir, d.name)
		err := os.Mkdir(path, 0o700)
		if err == nil {
			err = os.Chown(path, int(d.uid), int(d.gid))
		}
		if err != nil {
			return err
		}
		h.Mounts = append(h.Mounts, mount.Mount{Type: mount.TypeBind, Source: path, Target: d.target})
	}
	return nil
}

// makeDisk makes a sparse file with a file system.
func makeDisk(ctx context.Context, path string, size int64) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err == nil {
		err = errors.Join(f.Truncate(size), f.Close())
	}
	if err != nil {
		return err
	}
	// No journal and no reserve: the disk ends with the job, and all of it is the job's.
	return command(ctx, "mkfs.ext4", "-q", "-F", "-m", "0", "-O", "^has_journal", "-E", "lazy_itable_init=1,root_owner=0:0", path)
}

func command(ctx context.Context, argv ...string) error {
	out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput() //nolint:gosec // none of it comes from a job
	if err != nil {
		return fault.Wrap(fmt.Errorf("%w: %s", err, strings.TrimSpace(string(out))), argv[0],
			"install e2fsprogs and util-linux, and load the module loop")
	}
	return nil
}

// unmountDisk takes the disk away, which frees its loop device.
func unmountDisk(dir string) error {
	err := unix.Unmount(dir, unix.UMOUNT_NOFOLLOW)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, fs.ErrNotExist) {
		return nil // it isn't mounted
	}
	if err != nil {
		return fmt.Errorf("unmount %s: %w", dir, err)
	}
	return nil
}

// checkDisk reads the disk's size back.
func (s *box) checkDisk() error {
	var st unix.Statfs_t
	if err := unix.Statfs(s.slot.Path(diskDir), &st); err != nil {
		return err
	}
	if size := int64(st.Blocks) * st.Bsize; st.Type != unix.EXT4_SUPER_MAGIC || size > cmp.Or(s.limits.Disk, defaultDisk) {
		return fmt.Errorf("the sandbox's disk has %d bytes (type %#x) instead of %d at most", size, st.Type, s.limits.Disk)
	}
	return nil
}

// startEngine starts the job's own engine, when the image has one. It listens where
// the job's group may reach it.
func (s *box) startEngine(ctx context.Context, owner sandbox.Owner) {
	argv := []string{
		"dockerd", "--host=unix://" + nestedDir + "/docker.sock", "--group=" + strconv.Itoa(int(owner.GID)),
		"--data-root=" + nestedDir + "/docker", "--exec-root=" + nestedDir + "/run", "--pidfile=" + nestedDir + "/docker.pid",
		"--bridge=none", "--iptables=false", "--ip6tables=false",
	}
	options := container.ExecOptions{User: "0:0", Cmd: argv, Privileged: s.b.Config.Name == Privileged}
	r, err := s.b.api.ContainerExecCreate(ctx, s.container, options)
	if err == nil {
		err = s.b.api.ContainerExecStart(ctx, r.ID, container.ExecStartOptions{Detach: true})
	}
	if err != nil {
		s.b.Log.Info("the job has no engine of its own: its image has no dockerd that starts", "job", s.slot.ID, "error", err)
	}
}
