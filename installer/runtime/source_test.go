package runtime

import (
	"bytes"
	"crypto/sha512"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/quavon/quavon/installer/phase"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/test/need"
)

const split = "release-20260907.0"

// releaseOf is the archive of a release as gVisor publishes it, and its digest.
func releaseOf(t testing.TB, release string) (data []byte, sum string) {
	t.Helper()
	text := string(program(version(release)))
	data = zstdOf(t, tarOf(t, file("runsc", text), file("containerd-shim-runsc-v1", text), file("gvisor-bin/gvisor_sentry", text)))
	digest := sha512.Sum512(data)
	return data, hex.EncodeToString(digest[:])
}

func write(t testing.TB, path string, data []byte) string {
	t.Helper()
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestReleases covers cases GV-01 and GV-03: a release is one archive, by its date and
// with its digest.
func TestReleases(t *testing.T) {
	t.Parallel()
	data, sum := releaseOf(t, split)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/20260907.0/x86_64/gvisor.tar.zstd" {
			_, _ = w.Write(data)
			return
		}
		http.NotFound(w, r)
	}))
	defer s.Close()
	dir := t.TempDir()
	path := write(t, filepath.Join(dir, "gvisor.tar.zstd"), data)
	write(t, path+".sha512", []byte(strings.ToUpper(sum)+"  gvisor.tar.zstd\n"))
	bare := write(t, filepath.Join(dir, "bare.tar.zstd"), data)
	old := zstdOf(t, tarOf(t, file("runsc", string(program(version(split))))))
	oldSum := sha512.Sum512(old)
	alone := write(t, filepath.Join(dir, "alone.tar.zst"), old)
	write(t, filepath.Join(dir, "odd.tar.zstd"), data)
	write(t, filepath.Join(dir, "odd.tar.zstd.sha512"), []byte("SHA512 (odd.tar.zstd) = "+sum))
	secret := strings.Replace(s.URL, "://", "://me:hunter2@", 1) + "/latest/gvisor.tar.zstd?token=hunter2"
	for name, c := range map[string]struct{ source, sum, want, hint string }{
		"file":                   {source: path},
		"its digest by flag":     {source: bare, sum: strings.ToUpper(sum)},
		"by URL":                 {source: s.URL + "/20260907.0/x86_64/gvisor.tar.zstd", sum: sum},
		"digest of another form": {filepath.Join(dir, "odd.tar.zstd"), "", "it isn't said what", "--runsc-sha512"},
		"no digest":              {bare, "", "it isn't said what", "--runsc-sha512"},
		"no digest of a URL":     {s.URL + "/20260907.0/x86_64/gvisor.tar.zstd", "", "it isn't said what", "--runsc-sha512"},
		"another digest":         {bare, strings.Repeat("0", 128), "its sha512 is " + sum[:16], "fetch the archive again"},
		"short digest":           {bare, sum[:64], "it isn't said what", ""},
		"the loose program":      {s.URL + "/latest/x86_64/runsc", sum, "404", "gvisor.tar.zstd"},
		"the URL's password":     {secret, sum, "404", "gvisor.tar.zstd"},
		"runsc without helpers":  {alone, hex.EncodeToString(oldSum[:]), "needs gvisor-bin beside it", "--runsc"},
		"no such file":           {filepath.Join(dir, "none.tar.zstd"), sum, "no such file", ""},
		"a directory":            {dir + "/x.tar.gz", sum, "no regular file", ""},
	} {
		if err := os.MkdirAll(dir+"/x.tar.gz", 0o755); err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(t.TempDir(), "runsc-x")
		src, err := (&Runtime{Source: c.source, SHA512: c.sum}).source(t.Context())
		if err == nil {
			err = src.unpack(t.Context(), to)
		}
		if c.want == "" {
			if err != nil || len(files(t, to)) != 3 {
				t.Errorf("%s: %v, %v", name, err, files(t, to))
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(fault.Hint(err), c.hint) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v (%s), want %q (%q)", name, err, fault.Hint(err), c.want, c.hint)
		}
		if left, _ := os.ReadDir(filepath.Dir(to)); len(left) > 0 {
			t.Errorf("%s leaves %v", name, left)
		}
	}
}

// TestSourceProgram: a runsc of this host is copied with its helpers, and by the way of
// its link.
func TestSourceProgram(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeRunsc(t, dir, program(version(split)), "gvisor_sentry", "checkpointgofer")
	linked := filepath.Join(t.TempDir(), "runsc")
	if err := os.Symlink(filepath.Join(dir, "runsc"), linked); err != nil {
		t.Fatal(err)
	}
	src, err := (&Runtime{Beside: func() (string, error) { return filepath.Join(dir, "runsc"), nil }}).source(t.Context())
	if err != nil || !strings.HasPrefix(src.version, split+"-") {
		t.Fatal(src, err)
	}
	src.path = linked
	to := filepath.Join(t.TempDir(), "runsc-x")
	if err := src.unpack(t.Context(), to); err != nil || len(files(t, to)) != 3 {
		t.Fatal(err, files(t, to))
	}
	// A helper that is no file isn't waited for.
	if err := syscall.Mkfifo(filepath.Join(dir, helpers, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := src.unpack(t.Context(), to); err == nil || !strings.Contains(err.Error(), "no regular file") {
		t.Error(err)
	}
	if got := files(t, to); len(got) != 3 {
		t.Errorf("a failed unpack leaves %v", got)
	}
}

// TestUnpackAnew: what a killed process left is no hindrance, and a version that was
// broken since is replaced.
func TestUnpackAnew(t *testing.T) {
	t.Parallel()
	path := writeRunsc(t, t.TempDir(), program(version("release-20260803.0")))
	to := filepath.Join(t.TempDir(), "runsc-x")
	for _, left := range []string{staging(to), discard(to), to} {
		writeRunsc(t, left, []byte("half"))
	}
	s := &source{path: path}
	if err := s.unpack(t.Context(), to); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(filepath.Join(to, "runsc")); err != nil || !bytes.Contains(data, []byte("20260803")) {
		t.Error(err)
	}
	if all, err := os.ReadDir(filepath.Dir(to)); err != nil || len(all) != 1 {
		t.Errorf("%v is left: %v", all, err)
	}
}

// TestUnpackDiskFull leaves nothing half written.
func TestUnpackDiskFull(t *testing.T) {
	t.Parallel()
	need.That(t, os.Geteuid() == 0, "root, for a small file system")
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	}()
	path := writeRunsc(t, t.TempDir(), append(program(version("x")), make([]byte, 128<<10)...))
	err := (&source{path: path}).unpack(t.Context(), filepath.Join(dir, "runsc-x"))
	if !strings.Contains(err.Error(), syscall.ENOSPC.Error()) {
		t.Error(err)
	}
	if all, err := os.ReadDir(dir); err != nil || len(all) > 0 {
		t.Errorf("%v is left: %v", all, err)
	}
}

// TestOffer: what the plan says of /dev/kvm.
func TestOffer(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		step string
		err  error
		want string
	}{
		{"", nil, "makes virtual machines: the backend firecracker could be used here"},
		{"open", syscall.ENOENT, ""},
		{"open", syscall.EACCES, "makes no virtual machines (open: permission denied)"},
		{"create", syscall.EBUSY, "makes no virtual machines (create: device or resource busy)"},
	} {
		r := &Runtime{KVM: func() (string, error) { return c.step, c.err }}
		got := r.offer()
		if c.want == "" && len(got) == 0 {
			continue
		}
		if len(got) != 1 || got[0].Action != phase.Check || got[0].Target != "/dev/kvm" || !strings.Contains(got[0].Summary, c.want) {
			t.Errorf("%s %v: %v", c.step, c.err, got)
		}
	}
	if got := (&Runtime{}).offer(); got != nil {
		t.Error(got)
	}
}
