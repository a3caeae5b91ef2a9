package files

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quavon/quavon/test/need"
)

func TestGet(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, f := range []string{"a.txt", "b.log", "d/x.txt", "d/e/y.txt", "d/e/z.log", "out/r/1", ".hidden", "n\xff"} {
		write(t, dir+"/"+f, f)
	}
	must(t, os.Symlink("../a.txt", dir+"/d/l.txt"))
	must(t, os.Symlink("/etc", dir+"/etc"))
	must(t, syscall.Mkfifo(dir+"/fifo", 0o644))
	for _, tc := range []struct{ globs, want string }{
		{"*.txt", "a.txt"},
		{"**/*.txt", "a.txt d/e/y.txt d/l.txt d/x.txt"},
		{"d/**/*.txt", "d/e/y.txt d/l.txt d/x.txt"},
		{"out", "out/ out/r/ out/r/1"},
		{"out/**", "out/ out/r/ out/r/1"},
		{"d/*", "d/e/ d/e/y.txt d/e/z.log d/l.txt d/x.txt"},
		{"d/e/{y,z}.* a.txt", "a.txt d/e/y.txt d/e/z.log"},
		{"**/r/**", "out/r/ out/r/1"},
		{"etc/passwd nothing/** fifo", ""},
		{"./d/e/[!y]*", "d/e/z.log"},
		{"**/**/e/**/**/y.txt", "d/e/y.txt"},
		{"", ".hidden a.txt b.log d/ d/e/ d/e/y.txt d/e/z.log d/l.txt d/x.txt etc n\xff out/ out/r/ out/r/1"},
	} {
		var buf bytes.Buffer
		must(t, Get(dir, strings.Fields(tc.globs), &buf, plenty))
		var got []string
		for name, r := range readAll(t, &buf) {
			got = append(got, name)
			if r.header.Linkname == "" && !strings.HasSuffix(name, "/") && r.content != name {
				t.Errorf("%s holds %q", name, r.content)
			}
		}
		slices.Sort(got)
		if d := cmp.Diff(tc.want, strings.Join(got, " ")); d != "" {
			t.Errorf("%q: %s", tc.globs, d)
		}
	}
}

func TestGetRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir+"/a", "12345")
	write(t, dir+"/b", "12345")
	for _, glob := range []string{"/etc/*", "../*", "[", "{a/b,c}", ""} {
		if err := Get(dir, []string{glob}, &bytes.Buffer{}, plenty); (err == nil) != (glob == "") {
			t.Errorf("glob %q: %v", glob, err)
		}
	}
	var limit *LimitError
	err := Get(dir, nil, &bytes.Buffer{}, Limits{Bytes: 9, Entries: 9})
	if !errors.As(err, &limit) || *limit != (LimitError{"bytes", 9, "b"}) {
		t.Errorf("got %v", err)
	}
	err = Get(dir, nil, &bytes.Buffer{}, Limits{Bytes: 99, Entries: 1})
	if !errors.As(err, &limit) || *limit != (LimitError{"entries", 1, "b"}) {
		t.Errorf("got %v", err)
	}
}

// A process that is left over may change files while they are read: the stream
// then ends with an error or is a valid tar, and never blocks.
func TestGetWhileFilesChange(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		path := dir + "/f"
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			os.Remove(path)
			switch i % 3 {
			case 0:
				os.WriteFile(path, bytes.Repeat([]byte("x"), 1<<(i%20)), 0o644)
			case 1:
				syscall.Mkfifo(path, 0o644)
			case 2:
				os.Symlink("/dev/zero", path)
			}
		}
	}()
	good := 0
	begin := time.Now()
	for took := time.Duration(0); took < 300*time.Millisecond || good == 0 && took < time.Minute; took = time.Since(begin) {
		var buf bytes.Buffer
		if Get(dir, nil, &buf, plenty) == nil {
			good++
			readAll(t, &buf)
		}
	}
	close(stop)
	<-stopped
	if good == 0 {
		t.Error("no transfer went through")
	}
}

func TestAgentDirectoryIsOutOfReach(t *testing.T) {
	t.Parallel()
	need.That(t, os.Geteuid() == 0, "root, to make /.quavon")
	made := os.Mkdir("/.quavon", 0o700) == nil
	if made {
		defer os.Remove("/.quavon")
	}
	dir := t.TempDir()
	must(t, os.Symlink("/.quavon", dir+"/planted"))
	for _, path := range []string{"/.quavon", dir + "/planted"} {
		if err := Get(path, nil, &bytes.Buffer{}, plenty); err == nil || !strings.Contains(err.Error(), "is inside /.quavon") {
			t.Errorf("%s: %v", path, err)
		}
	}
}
