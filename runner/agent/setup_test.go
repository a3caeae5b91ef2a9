package agent_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/quavon/quavon/runner/agent"
	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/sandbox"
)

func TestSetup(t *testing.T) {
	t.Parallel()
	b := startRuntime(t, sandbox.GuestBinary, "init")
	p, err := b.Exec(t.Context(), command("true"), agent.Stdio{})
	must(t, err)
	if _, err := p.Wait(); err == nil {
		t.Error("a command ran before the setup")
	}
	setup := standardSetup
	setup.Binds = []agent.Bind{{Source: sandbox.LowerDir + "/0/sub", Target: "/home"}}
	setup.Dirs = setup.Dirs[:1]
	must(t, b.Setup(t.Context(), setup))
	if err := b.Setup(t.Context(), agent.Setup{}); err == nil {
		t.Error("a second setup was accepted")
	}
	for script, want := range map[string]string{
		"echo new > /workspace/new && rm /workspace/old.txt && ls /workspace": "new\nsub\n",
		"echo x > /workspace/.git/config 2>&1; cat /workspace/.git/config":    "[core]\n",
		"rm -r /workspace/.git 2>&1; mv /workspace/.git /workspace/g 2>&1":    "",
		"echo x > /home/file 2>&1 || echo read-only":                          "read-only\n",
		"echo x > /tmp/file && stat -c '%a %U' /tmp":                          "1777",
		"stat -c '%u %g %a' /workspace":                                       "60000 60000 755\n",
		"grep CapEff /proc/1/status":                                          "CapEff:\t00000000000000ff\n",
		"grep CapPrm /proc/1/status":                                          "CapPrm:\t00000000000000ff\n",
		"grep CapBnd /proc/1/status":                                          "CapBnd:\t0000000000000000\n",
	} {
		if got := run(t, b.Client, command(script), nil); !strings.Contains(got.stdout, want) {
			t.Errorf("%s: %+v", script, got)
		}
	}
	if got := run(t, b.Client, command("test -d /workspace/.git"), nil); got.Code != 0 {
		t.Error("a protected directory was moved away")
	}
	names, err := os.ReadDir(b.lower)
	must(t, err)
	if len(names) != 3 {
		t.Errorf("the job's changes reached the host: %v", names)
	}
}

// TestProtectSymlink: the workspace's author has put a link where a directory is
// to be protected; nothing may be mounted through it.
func TestProtectSymlink(t *testing.T) {
	t.Parallel()
	b := bareRuntime(t, sandbox.GuestBinary, "init")
	must(t, os.RemoveAll(filepath.Join(b.lower, ".git")))
	must(t, os.Symlink("/tmp", filepath.Join(b.lower, ".git")))
	dial(t, b)
	must(t, b.Setup(t.Context(), agent.Setup{Overlays: standardSetup.Overlays, Dirs: standardSetup.Dirs[:1]}))
	if got := run(t, b.Client, command("echo x > /tmp/x && grep -c /tmp /proc/mounts"), nil); got.Code != 0 {
		t.Errorf("%+v", got)
	}
}

func TestBadSetup(t *testing.T) {
	t.Parallel()
	b := startRuntime(t, sandbox.GuestBinary, "init")
	err := b.Setup(t.Context(), agent.Setup{Overlays: []agent.Overlay{{Lower: "/nowhere", Target: workspace}}})
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), workspace) {
		t.Error(err)
	}
	if _, err := b.Stat(t.Context(), "/"); err == nil {
		t.Error("the agent serves a sandbox whose setup has failed")
	}
}

// archive makes a tar stream of files.
func archive(t *testing.T, files map[string]string) io.Reader {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for name, content := range files {
		must(t, w.WriteHeader(&tar.Header{Name: name, Mode: 0o640, Size: int64(len(content))}))
		_, err := w.Write([]byte(content))
		must(t, err)
	}
	must(t, w.Close())
	return &b
}

// entries reads a tar stream: name to content, or to a PAX record.
func entries(t *testing.T, r io.Reader, record string) map[string]string {
	t.Helper()
	got := map[string]string{}
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return got
		}
		must(t, err)
		content, err := io.ReadAll(tr)
		must(t, err)
		got[h.Name] = string(content)
		if record != "" {
			got[h.Name] = h.PAXRecords[record]
		}
	}
}

func TestFiles(t *testing.T) {
	t.Parallel()
	b := startBox(t)
	big := strings.Repeat("0123456789abcdef", 3<<20/16)
	must(t, b.Put(t.Context(), workspace, sandbox.JobUID, sandbox.JobUID, archive(t, map[string]string{"put/a": "A", "put/big": big})))
	got := run(t, b.Client, command("cat /workspace/put/a; wc -c < /workspace/put/big; stat -c '%u %a' /workspace/put/a"), nil)
	if got.stdout != "A3145728\n60000 640\n" {
		t.Errorf("%+v", got)
	}
	var out bytes.Buffer
	request := agent.GetRequest{Dir: workspace, Globs: []string{"put/*"}, MaxBytes: 1 << 30, MaxEntries: 100}
	must(t, b.Get(t.Context(), request, &out))
	if got := entries(t, &out, ""); got["put/a"] != "A" || got["put/big"] != big {
		t.Errorf("%d entries come back", len(got))
	}
	run(t, b.Client, command("rm /workspace/old.txt; touch /workspace/sub/new"), nil)
	out.Reset()
	must(t, b.Diff(t.Context(), agent.DiffRequest{MaxBytes: 1 << 30, MaxEntries: 100}, &out))
	kinds := entries(t, &out, agent.PAXChange)
	if kinds["old.txt"] != string(job.Deleted) || kinds["put/a"] != string(job.Added) || kinds["sub/new"] != string(job.Added) {
		t.Errorf("%v", kinds)
	}
	fi, err := b.Stat(t.Context(), "/workspace/put/a")
	if err != nil || fi.Size != 1 || fi.UID != sandbox.JobUID || fi.Mode != 0o640 {
		t.Errorf("%+v, %v", fi, err)
	}
	t.Run("errors", func(t *testing.T) {
		if _, err := b.Stat(t.Context(), "/nowhere"); !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
		request.MaxBytes = 10
		if err := b.Get(t.Context(), request, io.Discard); err == nil || !strings.Contains(err.Error(), "more than 10 bytes") {
			t.Error(err)
		}
		if err := b.Put(t.Context(), "/nowhere", 0, 0, archive(t, map[string]string{"big": big})); !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
		if err := b.Put(t.Context(), "/tmp", 0, 0, strings.NewReader(strings.Repeat("garbage", 1000))); err == nil {
			t.Error("garbage was taken for a tar stream")
		}
		if err := b.Diff(t.Context(), agent.DiffRequest{Overlay: 1, MaxBytes: 1, MaxEntries: 1}, io.Discard); err == nil {
			t.Error("a diff of no overlay")
		}
		full := agent.Command{Argv: []string{"sh", "-c", "head -c 100000000 /dev/zero > /tmp/big"}, Dir: "/", UID: sandbox.JobUID}
		if got := run(t, b.Client, full, nil); got.Code == 0 || !strings.Contains(got.stderr, "No space left on device") {
			t.Errorf("%+v", got)
		}
		if err := b.Put(t.Context(), "/tmp", 0, 0, archive(t, map[string]string{"more": big})); !errors.Is(err, syscall.ENOSPC) {
			t.Error(err)
		}
	})
}
