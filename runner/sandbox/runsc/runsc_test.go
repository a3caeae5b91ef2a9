package runsc_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quavon/quavon/runner/agent"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/sandbox"
	"github.com/quavon/quavon/runner/sandbox/runsc"
	"github.com/quavon/quavon/runner/sandbox/sandboxtest"
	"github.com/quavon/quavon/runner/state/statetest"
	"github.com/quavon/quavon/test/need"
)

// An EROFS image is a root like a directory is, read-only without help.
func TestRootImage(t *testing.T) {
	mkfs, err := exec.LookPath("mkfs.erofs")
	if err != nil {
		need.Skip(t, "no mkfs.erofs: install erofs-utils")
	}
	d := statetest.Dir(t)
	tree := sandboxtest.Root(t, d)
	image := filepath.Join(statetest.Path(t), "root.erofs")
	if out, err := exec.Command(mkfs, "-Enoinline_data", image, tree.Dir).CombinedOutput(); err != nil {
		t.Fatalf("mkfs.erofs: %v\n%s", err, out)
	}
	ws := statetest.Path(t)
	if err := os.WriteFile(filepath.Join(ws, "f"), []byte("lower\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := runsc.New(sandboxtest.Runsc(t), d).Start(t.Context(), sandbox.Config{
		ID: "image", RootImage: image, RootBinds: tree.Binds, Guest: sandboxtest.Guest(t),
		Mounts: []job.Mount{{Source: ws}}, Limits: job.Limits{Disk: 8 << 20},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	client, err := agent.Dial(t.Context(), s.Conn())
	if err != nil {
		<-s.Done()
		t.Fatalf("%v: %+v", err, s.Ended())
	}
	defer client.Close()
	err = client.Setup(t.Context(), agent.Setup{Overlays: []agent.Overlay{{Lower: sandbox.LowerDir + "/0", Target: "/workspace"}}})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	p, err := client.Exec(t.Context(), agent.Command{
		Argv: []string{"/bin/sh", "-c", "cat f; echo upper > f; cat f; head -1 /etc/passwd; echo > /x || echo > /etc/x || echo refused"},
		Dir:  "/workspace", UID: sandbox.JobUID, GID: sandbox.JobUID,
	}, agent.Stdio{Stdout: &out})
	if err != nil {
		t.Fatal(err)
	}
	if e, err := p.Wait(); err != nil || e.Code != 0 {
		t.Fatalf("exit %+v, %v", e, err)
	}
	passwd, err := os.ReadFile(filepath.Join(tree.Dir, "etc", "passwd"))
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(passwd), "\n")
	if want := "lower\nupper\n" + first + "\nrefused\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

// A file system that can't map owners is refused with the way out, and nothing
// is left.
func TestUnmappableFileSystem(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root maps owners") // Rootless has no need to.
	}
	d := statetest.Dir(t)
	tree := sandboxtest.Root(t, d)
	_, err := runsc.New(sandboxtest.Runsc(t), d).Start(t.Context(), sandbox.Config{
		ID: "unmappable", RootDir: tree.Dir, RootBinds: tree.Binds, Guest: sandboxtest.Guest(t),
		Mounts: []job.Mount{{Source: "/proc/sys"}},
	})
	if err == nil || !strings.Contains(fault.Hint(err), "can't map file owners") || fault.Code(err) != string(job.ReasonSandboxUnavailable) {
		t.Errorf("error %v, hint %q, code %q", err, fault.Hint(err), fault.Code(err))
	}
	if ids, err := d.List(); err != nil || len(ids) > 0 {
		t.Errorf("left: %v, %v", ids, err)
	}
}

func TestCheck(t *testing.T) {
	d := statetest.Dir(t)
	if err := runsc.New(sandboxtest.Runsc(t), d).Check(t.Context()); err != nil {
		t.Errorf("the real runtime: %v", err)
	}
	for _, binary := range []string{"/no/such/runsc", "/bin/true"} {
		if err := runsc.New(binary, d).Check(t.Context()); err == nil || !strings.Contains(fault.Hint(err), runsc.EnvBinary) {
			t.Errorf("%s: %v", binary, err)
		}
	}
}
