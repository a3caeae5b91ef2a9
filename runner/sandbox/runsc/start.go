package runsc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/sandbox"
	"github.com/quavon/quavon/runner/sandbox/cgroup"
)

// Start implements sandbox.Backend. Limits hold before the first process of the
// sandbox exists, so nothing has to be waited for: a runtime that fails shows by
// Done and Ended.
func (b *Backend) Start(ctx context.Context, c sandbox.Config) (sandbox.Sandbox, error) {
	slot, err := b.state.Create(ctx, Name, c.ID)
	if err != nil {
		return nil, unavailable(err)
	}
	s := &box{b: b, slot: slot, limits: c.Limits, done: make(chan struct{}), release: make(chan struct{})}
	if err := s.start(ctx, c); err != nil {
		s.closeConn()
		return nil, unavailable(errors.Join(err, s.clear(ctx)))
	}
	go s.wait()
	return s, nil
}

// unavailable gives an error without a reason of its own the reason that there
// is no sandbox.
func unavailable(err error) error {
	var f *fault.Error
	if !errors.As(err, &f) {
		f = fault.Wrap(err, "start a sandbox", "read the runtime's words above; `quavon version` shows which runsc is used")
	}
	if fault.Code(err) != "" {
		return err
	}
	return &fault.Error{What: "start a sandbox", Err: err, Hint: fault.Hint(err), Code: string(job.ReasonSandboxUnavailable)}
}

func (s *box) start(ctx context.Context, c sandbox.Config) error {
	sources, maps, err := s.sources(c.Mounts, owner{c.MountOwner().UID, c.MountOwner().GID})
	if err != nil {
		return err
	}
	if err := s.writeBundle(c, sources); err != nil {
		return err
	}
	if !s.b.rootless {
		if s.group, err = s.b.cgroups.Create(s.slot.ID, hostLimits(c.Limits)); err != nil {
			return err
		}
	}
	if err := s.pipes(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	return s.launch(maps)
}

// mapping is a mount whose file owners are mapped on its way into the sandbox.
type mapping struct {
	source, target string
	userns         *os.File
}

// sources are the host paths of the mounts as runsc will see them: rootless the
// directories themselves; for root, those whose owner isn't the job's are shown
// through an id-mapped mount.
func (s *box) sources(mounts []job.Mount, jobs owner) ([]string, []mapping, error) {
	var paths []string
	var maps []mapping
	for i, m := range mounts {
		o, err := ownerOf(m.Source)
		if err != nil {
			return nil, nil, fault.Wrap(err, "attach "+m.Source, "check that the directory exists")
		}
		if s.b.rootless || o == jobs {
			paths = append(paths, m.Source)
			continue
		}
		target := s.slot.Path(lowerDir, strconv.Itoa(i))
		if err := os.MkdirAll(target, 0o700); err != nil {
			return nil, nil, err
		}
		f, err := s.b.idmaps.get(o, jobs)
		if err != nil {
			return nil, nil, err
		}
		paths = append(paths, target)
		maps = append(maps, mapping{m.Source, target, f})
	}
	return paths, maps, nil
}

// launch starts runsc on a thread that lives until the sandbox is stopped: the
// runtime's parent-death signal and its mount namespace hang on the thread.
func (s *box) launch(maps []mapping) error {
	started := make(chan error, 1)
	onThread(func() {
		err := s.launchHere(maps)
		started <- err
		if err == nil {
			<-s.release
		}
	})
	return <-started
}

func (s *box) launchHere(maps []mapping) error {
	if !s.b.rootless {
		if err := s.privateMounts(maps); err != nil {
			return err
		}
	}
	cmd := exec.Command(s.b.binary, s.args()...) //nolint:gosec // the operator's binary
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = s.ends[0], s.ends[1], s.ends[2]
	cmd.ExtraFiles = s.b.weakness.files()
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Pdeathsig: syscall.SIGKILL,
		Setsid:    true, // A terminal's Ctrl-C is for the front end to handle.
	}
	if err := s.startIn(cmd); err != nil {
		return fault.Wrap(err, "start "+s.b.binary, "run `make`, or set "+EnvBinary+" to a working runsc")
	}
	s.cmd = cmd
	for _, f := range s.ends {
		_ = f.Close() // The child has its own.
	}
	return nil
}

// startIn starts the runtime inside the sandbox's control group.
func (s *box) startIn(cmd *exec.Cmd) error {
	if s.group == nil {
		return cmd.Start()
	}
	leave, err := s.group.Start(cmd.SysProcAttr)
	if err != nil {
		return fmt.Errorf("enter the control group: %w", err)
	}
	err = cmd.Start()
	if lerr := leave(); lerr != nil {
		if err == nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
		return errors.Join(err, fmt.Errorf("leave the control group: %w", lerr))
	}
	return err
}

// privateMounts gives the calling thread a mount namespace of its own, which
// ends with the sandbox, and attaches what only the sandbox shall see.
func (s *box) privateMounts(maps []mapping) error {
	if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("unshare the mount namespace: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	for _, m := range maps {
		if err := attach(m.source, m.target, m.userns); err != nil {
			return err
		}
	}
	return s.showMemory()
}

// showMemory lets runsc, and so the job, take the memory limit for the machine's
// size: programs size their heaps by it.
func (s *box) showMemory() error {
	if s.limits.Memory == 0 {
		return nil
	}
	path := s.slot.Path(meminfoFile)
	text := fmt.Sprintf("MemTotal: %d kB\n", s.limits.Memory>>10)
	if err := os.WriteFile(path, []byte(text), 0o400); err != nil {
		return err
	}
	return unix.Mount(path, "/proc/meminfo", "", unix.MS_BIND, "")
}

// Tasks of the host per process of the sandbox, and those that a sandbox needs
// for itself: each of its threads is a thread of the sandbox kernel and one of
// the address space it runs in.
const (
	tasksPerProcess = 2
	ownTasks        = 50
)

func hostLimits(l job.Limits) cgroup.Limits {
	h := cgroup.Limits{Memory: l.Memory / pageSize * pageSize, CPUs: l.CPUs}
	if l.Pids > 0 {
		h.Tasks = tasksPerProcess*l.Pids + ownTasks
	}
	return h
}
