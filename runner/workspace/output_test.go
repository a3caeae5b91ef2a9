package workspace

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/quavon/quavon/runner/fault"
)

func TestCheckOutput(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	ws := filepath.Join(base, "ws")
	must(t, os.MkdirAll(ws+"/dir", 0o755))
	must(t, os.Symlink("/etc", ws+"/link"))
	must(t, os.Symlink("nowhere", ws+"/dir/dangling"))
	must(t, os.Symlink("ws", base+"/alias"))
	for path, ok := range map[string]bool{
		ws + "/new": true, ws + "/dir/new": true, base + "/alias/new": true, base + "/elsewhere": true, ws: true,
		ws + "/link": false, ws + "/link/x": false, ws + "/dir/dangling": false, base + "/alias/link": false, base + "/alias/link/x": false,
	} {
		for _, workspace := range []string{ws, base + "/alias"} {
			// A path by way of the caller's own link is only known as such when
			// the workspace is named by it too.
			if !ok && strings.HasPrefix(path, base+"/alias") && workspace == ws {
				continue
			}
			if err := CheckOutput(path, workspace); (err == nil) != ok {
				t.Errorf("%s with the workspace %s: %v", path, workspace, err)
			}
		}
	}
}

func TestWritable(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	must(t, os.WriteFile(dir+"/file", nil, 0o644))
	for path, want := range map[string]struct{ file, out bool }{
		dir + "/file": {true, false}, dir + "/new": {true, true}, dir: {false, true}, dir + "/no/new": {false, true},
		dir + "/file/new": {false, false}, "/dev/null": {true, false},
		dir + "/" + strings.Repeat("a", 300): {false, false},
	} {
		for what, got := range map[string]struct {
			err error
			ok  bool
		}{"file": {CheckWritable(path), want.file}, "directory": {CheckOutDir(path), want.out}} {
			if (got.err == nil) != got.ok {
				t.Errorf("%s as a %s: %v", path, what, got.err)
			}
		}
		err := WriteFile(path, func(io.Writer) error { return nil })
		if (err == nil) != want.file || err != nil && !strings.Contains(err.Error(), path) {
			t.Errorf("write %s: %v", path, err)
		}
	}
}

// A pipe is written to when somebody reads it; one that nobody reads isn't waited for.
func TestWritePipe(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/pipe"
	must(t, unix.Mkfifo(path, 0o600))
	write := func(w io.Writer) error { _, err := io.WriteString(w, "hello"); return err }
	if err := WriteFile(path, write); err == nil || !strings.Contains(err.Error(), "nobody reads") {
		t.Errorf("without a reader: %v", err)
	}
	r, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	must(t, err)
	defer r.Close()
	must(t, WriteFile(path, write))
	if got, err := io.ReadAll(r); err != nil || string(got) != "hello" {
		t.Errorf("read %q, %v", got, err)
	}
}

// Names like those of our own directories, in a checkout, neither stop a
// write-back nor are they removed.
func TestCheckoutWithNamesOfOurs(t *testing.T) {
	t.Parallel()
	j := newJob(t, "mkdir -p .quavon-write-x/replaced .quavon-write-mine; echo x >.quavon-write-mine/f; echo x >.quavon-write-y")
	j.do("echo new >new")
	writeBack(t, j.diff(), j.base(), false)
	for _, name := range []string{"new", ".quavon-write-x/replaced", ".quavon-write-mine/f", ".quavon-write-y"} {
		if _, err := os.Stat(filepath.Join(j.host, name)); err != nil {
			t.Error(err)
		}
	}
}

func TestWriteBackToAnotherDirectory(t *testing.T) {
	t.Parallel()
	j := newJob(t, "echo x >f")
	j.do("echo new >new")
	b := j.base()
	var err error
	b.Shown, err = os.Stat(j.spool)
	must(t, err)
	if _, err := j.diff().WriteBack(context.Background(), b, false); err == nil || fault.Hint(err) == "" {
		t.Errorf("written to a directory the job wasn't given: %v", err)
	}
}
