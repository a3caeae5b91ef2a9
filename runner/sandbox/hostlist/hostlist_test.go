package hostlist_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quavon/quavon/runner/sandbox/hostlist"
)

// Each of these leaves something behind, which must be seen, and takes it away,
// which must be seen too.
func TestSettleSees(t *testing.T) {
	dir := t.TempDir()
	tests := []struct {
		name string
		root bool
		// leave returns how to take it away again.
		leave func(t *testing.T) func()
		want  string
	}{
		{name: "a process", leave: func(t *testing.T) func() {
			c := exec.Command("sleep", "60")
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			return func() { _ = c.Process.Kill(); _ = c.Wait() }
		}, want: "+ process "},
		{name: "a zombie", leave: func(t *testing.T) func() {
			c := exec.Command("true")
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(50 * time.Millisecond)
			return func() { _ = c.Wait() }
		}, want: "+ process "},
		{name: "a file", leave: func(t *testing.T) func() {
			p := filepath.Join(dir, "x")
			if err := os.WriteFile(p, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			return func() { _ = os.Remove(p) }
		}, want: "+ file " + dir + "/x"},
		{name: "a thread's namespace", root: true, leave: func(t *testing.T) func() {
			quit, ready := make(chan struct{}), make(chan error)
			var thread func()
			thread = func() {
				runtime.LockOSThread()
				if unix.Gettid() == os.Getpid() { // The main thread would stay.
					go thread()
					<-quit
					runtime.UnlockOSThread()
					return
				}
				ready <- unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS)
				<-quit
			}
			go thread()
			if err := <-ready; err != nil {
				t.Fatal(err)
			}
			return func() { close(quit) }
		}, want: "+ namespace mnt:["},
		{name: "a control group", root: true, leave: func(t *testing.T) func() {
			p := "/sys/fs/cgroup/pids/quavon-hostlist-test"
			if _, err := os.Stat("/sys/fs/cgroup/pids"); err != nil {
				p = "/sys/fs/cgroup/quavon-hostlist-test"
			}
			if err := os.Mkdir(p, 0o755); err != nil {
				t.Fatal(err)
			}
			return func() { _ = os.Remove(p) }
		}, want: "+ cgroup "},
		{name: "a mount", root: true, leave: func(t *testing.T) func() {
			p := t.TempDir()
			if err := unix.Mount("quavon-hostlist-test", p, "tmpfs", 0, ""); err != nil {
				t.Fatal(err)
			}
			return func() { _ = unix.Unmount(p, 0) }
		}, want: "+ mount "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.root && os.Geteuid() != 0 {
				t.Skip("only root can leave one") // Not for lack of a part: rootless can't.
			}
			ctx := context.Background()
			l := hostlist.New([]string{dir}, nil, []string{"quavon-hostlist-test"})
			before := l.Take()
			undo := tt.leave(t)
			d := l.Settle(ctx, before, 100*time.Millisecond)
			if !strings.Contains(strings.Join(d, "\n"), tt.want) {
				t.Errorf("not seen: want %q in %q", tt.want, d)
			}
			undo()
			if d := l.Settle(ctx, before, time.Minute); d != nil {
				t.Errorf("still different after it was taken away: %q", d)
			}
		})
	}
}
