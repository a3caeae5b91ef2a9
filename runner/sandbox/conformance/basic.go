package conformance

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quavon/quavon/runner/agent"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/sandbox"
)

func (s *suite) refused(t *testing.T, err error, p sandbox.Policy) {
	t.Helper()
	if fault.Code(err) != string(job.ReasonPolicyUnsupported) || !strings.Contains(err.Error(), string(p)) || fault.Hint(err) == "" {
		t.Errorf("%s is not enforced, but asking for it gives %v", p, err)
	}
}

// asks has a job for each policy that asks for it.
var asks = map[sandbox.Policy]job.Spec{
	sandbox.PolicyMemory:     {Limits: job.Limits{Memory: 1 << 30}},
	sandbox.PolicyCPU:        {Limits: job.Limits{CPUs: 1}},
	sandbox.PolicyPids:       {Limits: job.Limits{Pids: 10}},
	sandbox.PolicyDisk:       {Limits: job.Limits{Disk: 1 << 30}},
	sandbox.PolicyRootHost:   {Root: job.Root{Kind: job.RootHost}},
	sandbox.PolicyRootImage:  {Root: job.Root{Kind: job.RootImage}},
	sandbox.PolicyMounts:     {Mounts: []job.Mount{{Source: "/a"}}},
	sandbox.PolicyTTY:        {Steps: []job.Step{{TTY: true}}},
	sandbox.PolicyRegistries: {Steps: []job.Step{{Network: job.NetworkRegistries}}},
}

// A policy is either enforced or refused; there is nothing between.
func testPolicies(t *testing.T, s *suite) {
	have := s.backend.Policies()
	for p := range have {
		if _, ok := asks[p]; !ok {
			t.Errorf("the suite does not know policy %s", p)
		}
	}
	for p, spec := range asks {
		err := sandbox.Admit(s.backend, spec)
		if why, ok := have[p]; ok && why == sandbox.Enforced {
			if err != nil {
				t.Errorf("%s is enforced, but refused: %v", p, err)
			}
			continue
		}
		s.refused(t, err, p)
	}
}

// allLimits are those that the backend enforces.
func (s *suite) allLimits() job.Limits {
	l := job.Limits{Disk: 64 << 20}
	have := s.backend.Policies()
	enforced := func(p sandbox.Policy) bool { why, ok := have[p]; return ok && why == sandbox.Enforced }
	if enforced(sandbox.PolicyMemory) {
		l.Memory = 512 << 20
	}
	if enforced(sandbox.PolicyCPU) {
		l.CPUs = 1.5
	}
	if enforced(sandbox.PolicyPids) {
		l.Pids = 64
	}
	return l
}

// What Info says was read back, so it equals what was asked for.
func testInfo(t *testing.T, s *suite) {
	want := s.allLimits()
	b := s.start(t, want)
	info, err := b.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, info.Limits); diff != "" {
		t.Errorf("limits (-asked +read back):\n%s", diff)
	}
	if info.Backend != s.backend.Name() || info.Runtime == "" {
		t.Errorf("info %+v lacks the backend's name or the runtime's version", info)
	}
	if hit := b.Hit(); hit != nil {
		t.Errorf("limits hit by an idle sandbox: %v", hit)
	}
	b.stop(t)
}

func testStreams(t *testing.T, s *suite) {
	b := s.start(t, job.Limits{})
	c := command("/bin/sh", "-c", "cat; echo err >&2")
	r := b.exec(t, strings.NewReader("in\x00\xff"), c)
	if r.out != "in\x00\xff" || r.err != "err\n" || r.Code != 0 || r.lost != nil {
		t.Errorf("got %+v", r)
	}
	// Without stdin there is its end, not a hang.
	if r := b.exec(t, nil, command("cat")); r.Code != 0 || r.out != "" || r.lost != nil {
		t.Errorf("without stdin: %+v", r)
	}
	b.stop(t)
}

// Much more than any buffer holds goes in and comes back, unchanged.
func testLargeStreams(t *testing.T, s *suite) {
	const size = 64 << 20
	b := s.start(t, job.Limits{})
	sent, got := sha256.New(), sha256.New()
	src := io.TeeReader(io.LimitReader(rand.NewChaCha8([32]byte{1}), size), sent)
	p, err := b.Exec(t.Context(), command("cat"), agent.Stdio{Stdin: src, Stdout: got})
	if err != nil {
		t.Fatal(err)
	}
	if e, err := p.Wait(); err != nil || e.Code != 0 {
		t.Fatalf("exit %+v, %v", e, err)
	}
	if !bytes.Equal(sent.Sum(nil), got.Sum(nil)) {
		t.Error("what came back is not what was sent")
	}
	b.stop(t)
}

func testExits(t *testing.T, s *suite) {
	b := s.start(t, job.Limits{})
	for _, tt := range []struct {
		argv         []string
		code, signal int
	}{
		{[]string{"true"}, 0, 0},
		{[]string{"false"}, 1, 0},
		{[]string{"sh", "-c", "exit 42"}, 42, 0},
		{[]string{"sh", "-c", "exit 255"}, 255, 0},
		{[]string{"sh", "-c", "kill -SEGV $$"}, 139, 11},
		{[]string{"sh", "-c", "kill -KILL $$"}, 137, 9},
		{[]string{"sh", "-c", "kill -TERM $$"}, 143, 15},
		{[]string{"/no/such/program"}, 127, 0},
		{[]string{"/etc/passwd"}, 126, 0},
	} {
		r := b.exec(t, nil, command(tt.argv...))
		if r.Code != tt.code || r.Signal != tt.signal || r.lost != nil || r.TimedOut {
			t.Errorf("%q: code %d, signal %d, %v; want %d, %d", tt.argv, r.Code, r.Signal, r.lost, tt.code, tt.signal)
		}
		if (r.StartError != "") != (tt.code == 126 || tt.code == 127) {
			t.Errorf("%q: start error %q", tt.argv, r.StartError)
		}
	}
	b.stop(t)
}

func testTerminal(t *testing.T, s *suite) {
	b := s.start(t, job.Limits{})
	c := command("sh", "-c", "test -t 0 && test -t 1 && test -t 2 && stty size")
	c.TTY, c.Rows, c.Cols = true, 33, 77
	r := b.exec(t, nil, c)
	if r.Code != 0 || strings.TrimSpace(r.out) != "33 77" {
		t.Errorf("in a terminal: %+v", r)
	}
	if r := b.shell(t, "test -t 1"); r.Code != 1 {
		t.Errorf("without a terminal: %+v", r)
	}
	b.stop(t)
}

// Files come in and out as tar streams, changes of the workspace are told, and
// the host's directory stays as it was.
func testFiles(t *testing.T, s *suite) {
	ctx := t.Context()
	b := s.start(t, s.allLimits())
	host := filepath.Join(b.workspace, "old")
	write(t, host, "old\n")
	for _, name := range []string{"gone", "kept"} {
		write(t, filepath.Join(b.workspace, name), name)
	}
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
	b := s.start(t, job.Limits{})
	write(t, filepath.Join(b.workspace, "private"), "mine")
	if err := os.Mkdir(filepath.Join(b.workspace, "dir"), 0o700); err != nil {
		t.Fatal(err)
	}
	own(t, filepath.Join(b.workspace, "dir"))
	write(t, filepath.Join(b.workspace, "dir", "f"), "x")
	out := b.must(t, "cat private; echo + >> private; cat private; touch dir/g; rm dir/f; ls dir; id -u")
	if want := fmt.Sprintf("minemine+\ng\n%d\n", sandbox.JobUID); out != want {
		t.Errorf("got %q, want %q", out, want)
	}
	if os.Geteuid() == 0 {
		if err := os.WriteFile(filepath.Join(b.workspace, "roots"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
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
