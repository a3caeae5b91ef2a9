package qemu

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/quavon/quavon/imagebuild/ext4"
	"github.com/quavon/quavon/imagebuild/rootfs"
	"github.com/quavon/quavon/runner/agent"
	it "github.com/quavon/quavon/runner/image/imagetest"
	"github.com/quavon/quavon/runner/image/lock"
	"github.com/quavon/quavon/runner/image/source"
	"github.com/quavon/quavon/runner/sandbox/sandboxtest"
	"github.com/quavon/quavon/test/need"
)

// TestBootRootfs boots built file systems with quavon-guest as the first process and
// has commands run in them. QUAVON_DEBIAN_TAR names a Debian root to boot too,
// QUAVON_ROOTFS a file that `quavon build rootfs` made.
func TestBootRootfs(t *testing.T) {
	needMachine(t)
	guest, err := os.ReadFile(sandboxtest.Guest(t))
	must(t, err)
	top := it.Tar(t, it.Entry{Type: '5', Name: ".quavon", Mode: 0o700}, it.Entry{Name: ".quavon/guest", Body: string(guest), Mode: 0o755})
	t.Run("busybox", func(t *testing.T) {
		busybox, err := os.ReadFile("/bin/busybox")
		must(t, err)
		base := it.Tar(t, it.Dir("bin"), it.Entry{Name: "bin/busybox", Body: string(busybox), Mode: 0o755}, it.Link("bin/sh", "bin/busybox"),
			it.Link("bin/cat", "bin/busybox"), it.Link("bin/id", "bin/busybox"), it.Dir("etc"), it.File("etc/debian_version", "none\n"), it.Dir("var"))
		boot(t, base, top)
	})
	if path := os.Getenv("QUAVON_DEBIAN_TAR"); path != "" {
		t.Run("debian", func(t *testing.T) {
			base, err := os.ReadFile(path)
			must(t, err)
			boot(t, base, top)
		})
	}
	if path := os.Getenv("QUAVON_ROOTFS"); path != "" {
		t.Run("built", func(t *testing.T) {
			image := filepath.Join(t.TempDir(), "image")
			it.Run(t, "cp", "--sparse=always", path, image)
			for _, change := range []string{"mkdir .quavon", "write " + sandboxtest.Guest(t) + " .quavon/guest", "set_inode_field .quavon/guest mode 0100755"} {
				it.Run(t, "debugfs", "-w", "-R", change, image)
			}
			bootImage(t, image)
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func needMachine(t *testing.T) {
	t.Helper()
	for _, tool := range []string{"qemu-system-x86_64", "busybox", "cpio", "e2fsck", "resize2fs", "debugfs"} {
		if _, err := exec.LookPath(tool); err != nil {
			need.Skip(t, "%v: run make setup-test", err)
		}
	}
}

// boot makes an image of layers and boots it.
func boot(t *testing.T, layers ...[]byte) {
	t.Helper()
	image := filepath.Join(t.TempDir(), "image")
	makeRootfs(t, image, layers...)
	bootImage(t, image)
}

// bootImage starts the machine and talks to its agent.
func bootImage(t *testing.T, image string) {
	listener, err := net.Listen("unix", filepath.Join(t.TempDir(), "agent"))
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	var console bytes.Buffer
	machine := exec.CommandContext(ctx, "./boot.sh", image, listener.Addr().String())
	machine.Stdout, machine.Stderr = &console, &console
	machine.Cancel = func() error { return machine.Process.Signal(syscall.SIGTERM) }
	machine.WaitDelay = 10 * time.Second
	must(t, machine.Start())
	go func() {
		<-ctx.Done()
		_ = listener.Close() // ends Accept
	}()
	start := time.Now()
	talk(ctx, t, listener, start)
	if err := machine.Wait(); err != nil {
		t.Errorf("the machine: %v", err)
	}
	t.Logf("the machine ended after %s; its console:\n%s", time.Since(start), console.Bytes())
	wasUsed(t, image)
}

func makeRootfs(t *testing.T, path string, layers ...[]byte) {
	t.Helper()
	var blobs []it.Blob
	for _, l := range layers {
		blobs = append(blobs, it.Gzip(t, l))
	}
	img, err := source.File(t.Context(), it.Layout(t, it.Image(t, v1.Config{}, blobs...)), source.Select{Platform: source.Host()}, t.TempDir())
	must(t, err)
	defer img.Close()
	o := rootfs.Options{Kind: lock.KindExt4, Free: 32 << 20, Journal: ext4.MinJournal, Resize: true}
	_, _, err = new(rootfs.Maker).Make(t.Context(), img, path, o)
	must(t, err)
}

// ready is a connection on which the agent has begun to speak: only then is it worth
// a handshake's short wait.
type ready struct {
	net.Conn
	r *bufio.Reader
}

func (r ready) Read(p []byte) (int, error) { return r.r.Read(p) }

func talk(ctx context.Context, t *testing.T, listener net.Listener, start time.Time) {
	t.Helper()
	conn, err := listener.Accept()
	if err != nil {
		t.Errorf("nobody came: %v", err)
		return
	}
	defer conn.Close()
	r := ready{conn, bufio.NewReader(conn)}
	must(t, conn.SetReadDeadline(time.Now().Add(3*time.Minute)))
	if _, err := r.r.Peek(1); err != nil {
		t.Errorf("the agent said nothing: %v", err)
		return
	}
	must(t, conn.SetReadDeadline(time.Time{}))
	c, err := agent.Dial(ctx, r)
	if err != nil {
		t.Error(err)
		return
	}
	defer c.Close()
	for range 3 {
		if err := c.Ping(ctx); err != nil {
			t.Error(err)
		}
	}
	t.Logf("the agent answers after %s", time.Since(start))
	if err := c.Setup(ctx, agent.Setup{}); err != nil {
		t.Error(err)
	}
	out := command(ctx, t, c, "id -u; cat /etc/debian_version; cat /proc/1/comm; test -c /dev/null && echo hello >/var/written; exit 7")
	if !strings.HasPrefix(out, "0\n") || !strings.Contains(out, "guest\n") {
		t.Errorf("the command said %q", out)
	}
	if err := c.Shutdown(ctx); err != nil {
		t.Error(err)
	}
}

func command(ctx context.Context, t *testing.T, c *agent.Client, script string) string {
	t.Helper()
	var out, errOut bytes.Buffer
	p, err := c.Exec(ctx, agent.Command{Argv: []string{"/bin/sh", "-c", script}, Dir: "/", Env: []string{"PATH=/usr/bin:/bin"}},
		agent.Stdio{Stdout: &out, Stderr: &errOut})
	if err != nil {
		t.Error(err)
		return ""
	}
	exit, err := p.Wait()
	if err != nil || exit.Code != 7 {
		t.Errorf("%+v, %v: %s", exit, err, errOut.Bytes())
	}
	return out.String()
}

// wasUsed looks for what the machine wrote, once the journal was replayed.
func wasUsed(t *testing.T, image string) {
	t.Helper()
	if out, err := exec.Command("e2fsck", "-fp", image).CombinedOutput(); err != nil {
		if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() > 1 {
			t.Errorf("e2fsck: %v\n%s", err, out)
		}
	}
	it.Run(t, "e2fsck", "-fn", image)
	if out := it.Run(t, "debugfs", "-R", "cat /var/written", image); !strings.Contains(out, "hello") {
		t.Errorf("/var/written: %q", out)
	}
}
