package inputs_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/quavon/quavon/imagebuild/inputs"
)

func write(t *testing.T, dir, name, body string, mode os.FileMode) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(body), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

func sample(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	write(t, dir, "Dockerfile", "FROM scratch\nCOPY . /\n", 0o600)
	write(t, dir, ".dockerignore", "*.log\nnode_modules\nDockerfile\n!keep.log\n", 0o644)
	write(t, dir, "a/run.sh", "#!/bin/sh\n", 0o700)
	write(t, dir, "a/x.log", "", 0o644)
	write(t, dir, "b.log", "", 0o644)
	write(t, dir, "keep.log", "kept", 0o640)
	write(t, dir, "node_modules/x/index.js", "", 0o644)
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	return dir
}

func open(t *testing.T, dir string) *inputs.Files {
	t.Helper()
	f, err := inputs.Open(t.Context(), dir, "Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func TestTar(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	if err := open(t, sample(t)).Tar(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	var got []string
	r := tar.NewReader(&b)
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.ModTime.Unix() != 0 || h.Uid != 0 {
			t.Errorf("%s: time or owner of this host", h.Name)
		}
		got = append(got, os.FileMode(h.Mode).String()+" "+h.Name+" "+h.Linkname)
	}
	// *.log leaves out only what is at the top, as Docker reads it.
	want := []string{
		"-rw-r--r-- .dockerignore ", "-rw-r--r-- Dockerfile ", "-rwxr-xr-x a/ ", "-rwxr-xr-x a/run.sh ", "-rw-r--r-- a/x.log ",
		"-rw-r--r-- keep.log ", "-rwxrwxrwx link /etc/passwd",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// TestDigest changes one thing at a time.
func TestDigest(t *testing.T) {
	t.Parallel()
	first := open(t, sample(t)).Digest()
	for name, c := range map[string]struct {
		change func(t *testing.T, dir string)
		same   bool
	}{
		"nothing":            {func(*testing.T, string) {}, true},
		"umask":              {func(t *testing.T, dir string) { write(t, dir, "keep.log", "kept", 0o664) }, true},
		"ignored file":       {func(t *testing.T, dir string) { write(t, dir, "b.log", "more", 0o644) }, true},
		"ignored directory":  {func(t *testing.T, dir string) { write(t, dir, "node_modules/y", "", 0o644) }, true},
		"ignored Dockerfile": {func(t *testing.T, dir string) { write(t, dir, "Dockerfile", "FROM scratch\n", 0o644) }, false},
		"content":            {func(t *testing.T, dir string) { write(t, dir, "keep.log", "Kept", 0o644) }, false},
		"executable":         {func(t *testing.T, dir string) { write(t, dir, "keep.log", "kept", 0o744) }, false},
		"new file":           {func(t *testing.T, dir string) { write(t, dir, "new", "", 0o644) }, false},
		"renamed": {func(t *testing.T, dir string) {
			if err := os.Rename(filepath.Join(dir, "keep.log"), filepath.Join(dir, "kept")); err != nil {
				t.Fatal(err)
			}
		}, false},
		"link": {func(t *testing.T, dir string) {
			path := filepath.Join(dir, "link")
			if err := errors.Join(os.Remove(path), os.Symlink("/etc/group", path)); err != nil {
				t.Fatal(err)
			}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := sample(t)
			c.change(t, dir)
			if got := open(t, dir).Digest(); (got == first) != c.same {
				t.Errorf("the digest is the same: %v, want %v", got == first, c.same)
			}
		})
	}
}

func TestChangedMeanwhile(t *testing.T) {
	t.Parallel()
	dir := sample(t)
	f := open(t, dir)
	write(t, dir, "keep.log", "gone", 0o644)
	if err := f.Tar(t.Context(), io.Discard); err == nil || !strings.Contains(err.Error(), "keep.log changed while it was read") {
		t.Errorf("got %v", err)
	}
}

func TestRefusedContext(t *testing.T) {
	t.Parallel()
	dir := sample(t)
	if err := unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := inputs.Open(t.Context(), dir, "Dockerfile")
	if err == nil || !strings.Contains(err.Error(), "fifo is neither a file") {
		t.Errorf("a fifo: %v", err)
	}
	if _, err := inputs.Open(t.Context(), dir, "other/Dockerfile"); err == nil || !strings.Contains(err.Error(), "can't read the Dockerfile") {
		t.Errorf("no Dockerfile: %v", err)
	}
	if _, err := inputs.Open(t.Context(), dir+"/none", "Dockerfile"); err == nil {
		t.Error("no directory")
	}
	escape := t.TempDir()
	if err := os.Symlink("/etc/passwd", filepath.Join(escape, "Dockerfile")); err != nil {
		t.Fatal(err)
	}
	if _, err := inputs.Open(t.Context(), escape, "Dockerfile"); err == nil {
		t.Error("a Dockerfile that is a link out of the context")
	}
}

func TestCheckDockerfile(t *testing.T) {
	t.Parallel()
	bases := map[string]string{"BASE": "debian", "NODE": "node"}
	for text, want := range map[string]string{
		"ARG BASE\nFROM $BASE\n": "",
		"from --platform=$BUILDPLATFORM ${NODE} AS node\nFROM scratch\nCOPY --from=node /x /\nCOPY --from=0 /y /\n": "",
		"FROM $BASE AS Build\nFROM build\nRUN --mount=type=bind,from=build,target=/x true\n":                        "",
		"FROM $BASE\nRUN <<EOF\nFROM debian:12\nEOF\nRUN true\n":                                                    "",
		"FROM $BASE\nRUN echo \\\n# a comment\nFROM x\n":                                                            "",
		"FROM $BASE\nADD --checksum=sha256:12 https://x.example/y /\nADD file /\n":                                  "",
		"":                          "D:1: there is no FROM",
		"\nFROM debian:12\n":        "D:2: the image debian:12 is not pinned: declare it under bases",
		"FROM debian\n":             "D:1: the image debian is not pinned",
		"FROM debian:latest AS x\n": "D:1: the image debian:latest is not pinned",
		"FROM $OTHER\n":             "D:1: the build argument of $OTHER is not among",
		"FROM ${BASE:-debian:12}\n": "D:1: the image ${BASE:-debian:12} is not pinned",
		"FROM $BASE-slim\n":         "D:1: the image $BASE-slim is not pinned",
		"FROM\n":                    "D:1: FROM names no image",
		"FROM $BASE\nCOPY a \\\n --from=busybox b\n": "D:2: the image busybox is not pinned",
		"FROM $BASE\nCOPY --from=1 a b\n":            "D:2: the image 1 is not pinned",
		"FROM $BASE\nONBUILD COPY --from=x a b\n":    "D:2: the image x is not pinned",
		"FROM $BASE\nRUN --mount=type=bind,from=x a": "D:2: the image x is not pinned",
		"FROM $BASE\nADD https://x.example/y /\n":    "D:2: ADD https://x.example/y is not pinned",
		"# syntax=docker/dockerfile:1\nFROM $BASE\n": "D:1: # syntax=docker/dockerfile:1: other frontends",
		"FROM $BASE\nRUN <<EOF cat\nx\nEOF\nFROM x":  "D:5: the image x is not pinned",
	} {
		err := inputs.CheckDockerfile("D", []byte(text), bases)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
}

func FuzzCheckDockerfile(f *testing.F) {
	f.Add("ARG BASE\nFROM $BASE AS x\nRUN --mount=type=bind,from=x a <<EOF\nFROM y\nEOF\n")
	f.Add("FROM \\\n\\\n#\nx")
	f.Fuzz(func(t *testing.T, text string) {
		if err := inputs.CheckDockerfile("D", []byte(text), map[string]string{"BASE": "x"}); err != nil && !strings.HasPrefix(err.Error(), "D:") {
			t.Errorf("no line in %v", err)
		}
	})
}
