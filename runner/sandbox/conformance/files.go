package conformance

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quavon/quavon/runner/agent"
	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/sandbox"
)

// Files come in and out as tar streams, changes of the workspace are told, and
// the host's directory stays as it was.
func testFiles(t *testing.T, s *suite) {
	ctx := t.Context()
	b := s.start(t, s.allLimits(), func(dir string) {
		write(t, filepath.Join(dir, "old"), "old\n")
		for _, name := range []string{"gone", "kept"} {
			write(t, filepath.Join(dir, name), name)
		}
	})
	host := filepath.Join(b.workspace, "old")
	if err := b.Put(ctx, workspace, sandbox.JobUID, sandbox.JobUID, tarOf(t, "put/in", "put\n")); err != nil {
		t.Fatal(err)
	}
	b.must(t, "cat put/in old > both; echo more >> old; rm gone")
	var files, changes bytes.Buffer
	if err := b.Get(ctx, agent.GetRequest{Dir: workspace, Globs: []string{"both"}, MaxBytes: 1 << 20, MaxEntries: 10}, &files); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"both": "put\nold\n"}, untar(t, &files, false)); diff != "" {
		t.Errorf("got files:\n%s", diff)
	}
	if err := b.Diff(ctx, agent.DiffRequest{MaxBytes: 1 << 20, MaxEntries: 100}, &changes); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"both": "added", "gone": "deleted", "old": "modified", "put": "added", "put/in": "added"}
	if diff := cmp.Diff(want, untar(t, &changes, true)); diff != "" {
		t.Errorf("changes:\n%s", diff)
	}
	b.stop(t)
	if data, err := os.ReadFile(host); err != nil || string(data) != "old\n" {
		t.Errorf("the host's file is now %q, %v", data, err)
	}
	entries, _ := os.ReadDir(b.workspace)
	if len(entries) != 3 {
		t.Errorf("the host's directory has now %v", entries)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	own(t, path)
}

func tarOf(t *testing.T, name, text string) io.Reader {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text)), ModTime: time.Unix(1, 0)}); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &buf
}

// untar maps names to contents, or to the kind of change.
func untar(t *testing.T, r io.Reader, changes bool) map[string]string {
	t.Helper()
	got := map[string]string{}
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return got
		}
		if err != nil {
			t.Fatal(err)
		}
		name := strings.Trim(strings.TrimPrefix(h.Name, "./"), "/")
		if changes {
			got[name] = h.PAXRecords[agent.PAXChange]
			continue
		}
		data, err := io.ReadAll(tr)
		if err != nil {
			t.Fatal(err)
		}
		got[name] = string(data)
	}
}

// The workspace's owner's files are the job's own, whatever their mode; other
// people's are not.
func testOwner(t *testing.T, s *suite) {
	b := s.start(t, job.Limits{}, func(dir string) {
		write(t, filepath.Join(dir, "private"), "mine")
		if err := os.Mkdir(filepath.Join(dir, "dir"), 0o700); err != nil {
			t.Fatal(err)
		}
		own(t, filepath.Join(dir, "dir"))
		write(t, filepath.Join(dir, "dir", "f"), "x")
		if err := os.WriteFile(filepath.Join(dir, "roots"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	})
	out := b.must(t, "cat private; echo + >> private; cat private; touch dir/g; rm dir/f; ls dir; id -u")
	if want := fmt.Sprintf("minemine+\ng\n%d\n", sandbox.JobUID); out != want {
		t.Errorf("got %q, want %q", out, want)
	}
	if os.Geteuid() == 0 {
		if r := b.shell(t, "cat roots || echo > roots"); r.Code == 0 {
			t.Error("the job reads or writes root's file")
		}
	}
	b.stop(t)
}

// Nothing but the scratch file system takes a write.
func testReadOnly(t *testing.T, s *suite) {
	b := s.start(t, job.Limits{})
	for _, path := range []string{"/x", "/usr/x", "/etc/x", "/mnt/x", "/dev/x", "/proc/x", "/sys/x", sandbox.GuestBinary, sandbox.ScratchDir + "/x", sandbox.LowerDir + "/0/x"} {
		if r := b.shell(t, "echo > "+path); r.Code == 0 {
			t.Errorf("%s can be written", path)
		}
	}
	// Every mount that is not read-only is the scratch file system, which has the
	// size of the limit, or one on which the job can't write.
	out := b.must(t, "find / -xdev -writable -type d 2>/dev/null; for m in $(cut -d' ' -f2 /proc/mounts); do test -w $m && echo $m; done; true")
	for _, dir := range strings.Fields(out) {
		switch dir {
		case workspace, "/tmp", "/dev/shm":
		default:
			if r := b.shell(t, "echo > "+dir+"/x"); r.Code == 0 {
				t.Errorf("%s can be written", dir)
			}
		}
	}
	if b.shell(t, "mount -t tmpfs t /tmp").Code == 0 {
		t.Error("the job can mount")
	}
	b.stop(t)
}
