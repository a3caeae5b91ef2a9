package smoke

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/quavon/quavon/runner/disk"
	"github.com/quavon/quavon/runner/guest/probe"
	"github.com/quavon/quavon/runner/job"
)

// planted is what is on the host for the probes to find.
type planted struct {
	// canary is the content of a file that no job may read, control of one that every
	// job can.
	canary, control string
	// target is a file that everybody on the host may write to.
	target string
	// digests are those of what must not change, by path.
	digests map[string]string
	// abstract counts who has come to the abstract socket.
	abstract *listener
}

// once plants for the first entry that asks, and remembers the error.
func (b *Bench) once(name string, plant func() error) func() error {
	if b.done == nil {
		b.done = map[string]error{}
	}
	return func() error {
		err, done := b.done[name]
		if !done {
			err = plant()
			b.done[name] = err
		}
		return err
	}
}

// plantCanary puts a secret where everybody on the host can read it, and another
// where the job can.
func plantCanary(_ context.Context, b *Bench) error {
	b.planted.canary, b.planted.control = rand.Text(), rand.Text()
	if err := checkPublic(b.Dir); err != nil {
		return err
	}
	path := filepath.Join(b.Dir, "canary-"+b.Nonce)
	control := filepath.Join(b.Workspace, "canary-"+b.Nonce)
	b.Set(probe.ParamCanary, path)
	b.Set(probe.ParamControl, filepath.Join(job.WorkspaceDir, "canary-"+b.Nonce))
	return errors.Join(publicFile(path, b.planted.canary, 0o644), publicFile(control, b.planted.control, 0o644))
}

// checkPublic fails where not everybody on the host gets to a directory: that nobody inside
// finds what is there would say nothing.
func checkPublic(dir string) error {
	for ; ; dir = filepath.Dir(dir) {
		fi, err := os.Stat(dir)
		if err != nil {
			return err
		}
		if fi.Mode()&0o001 == 0 {
			return fmt.Errorf("%s is not for everybody: set TMPDIR to a directory that is, such as /tmp", dir)
		}
		if dir == "/" {
			return nil
		}
	}
}

// publicFile makes a file with exactly these permissions.
func publicFile(path, content string, mode os.FileMode) error {
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		return err
	}
	return os.Chmod(path, mode)
}

// plantDrop makes a directory for everybody on the host to write to.
func plantDrop(_ context.Context, b *Bench) error {
	return b.once("drop", func() error {
		if err := checkPublic(b.Dir); err != nil {
			return err
		}
		drop := filepath.Join(b.Dir, "drop")
		b.Set(probe.ParamDrop, drop)
		if err := os.Mkdir(drop, 0o700); err != nil {
			return err
		}
		return os.Chmod(drop, 0o777|os.ModeSticky)
	})()
}

// plantTarget makes a file for everybody to write to, and remembers what must not
// change: it, the agent, and the runtime.
func plantTarget(_ context.Context, b *Bench) error {
	if err := checkPublic(b.Dir); err != nil {
		return err
	}
	b.planted.target = filepath.Join(b.Dir, "target-"+b.Nonce)
	b.Set(probe.ParamTarget, b.planted.target)
	if err := publicFile(b.planted.target, rand.Text(), 0o666); err != nil {
		return err
	}
	b.planted.digests = map[string]string{}
	paths := []string{b.planted.target, b.Guest}
	if b.Binary != "" {
		paths = append(paths, b.Binary)
	}
	for _, p := range paths {
		digest, err := disk.Digest(p)
		if err != nil {
			return err
		}
		b.planted.digests[p] = digest
	}
	return nil
}

// plantAbstract listens on an abstract socket of the host's.
func plantAbstract(ctx context.Context, b *Bench) error {
	name := "@quavon-smoke-" + b.Nonce
	l, err := listen(ctx, "unix", name)
	if err != nil {
		return err
	}
	b.Cleanup(l.Close)
	b.planted.abstract = l
	b.Set(probe.ParamAbstract, name, "@/containerd-shim/moby.sock")
	return nil
}

// nonblock keeps the opening of a file from waiting.
const nonblock = unix.O_NONBLOCK

// plantDisk tells the number of the host's own disk.
func plantDisk(_ context.Context, b *Bench) error {
	var st unix.Stat_t
	if err := unix.Stat("/", &st); err != nil {
		return err
	}
	b.Set(probe.ParamRootDisk, fmt.Sprintf("%d:%d", unix.Major(st.Dev), unix.Minor(st.Dev)), "8:0", "253:0", "7:0")
	return nil
}

// listener counts who connects.
type listener struct {
	net.Listener
	network string
	count   atomic.Int64
}

func listen(ctx context.Context, network, address string) (*listener, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, network, address)
	if err != nil {
		return nil, err
	}
	out := &listener{Listener: l, network: network}
	go out.serve()
	return out, nil
}

func (l *listener) serve() {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		l.count.Add(1)
		_, _ = conn.Write([]byte("quavon-smoke\n")) // the other side need not listen
		_ = conn.Close()
	}
}

// control connects as anybody on the host can, which must be counted.
func (l *listener) control(ctx context.Context) error {
	before := l.count.Load()
	conn, err := (&net.Dialer{Timeout: watchTime}).DialContext(ctx, l.network, l.Addr().String())
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.Read(make([]byte, 1)); err != nil {
		return err
	}
	if l.count.Load() <= before {
		return errors.New("the listener doesn't count who comes")
	}
	return nil
}
