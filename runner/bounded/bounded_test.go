package bounded

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestReadFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, []byte("12345"), 0o600); err != nil {
		t.Fatal(err)
	}
	if data, err := ReadFile(path, 5); err != nil || string(data) != "12345" {
		t.Errorf("within the limit: %q, %v", data, err)
	}
	for _, c := range []struct{ path, want string }{
		{path, "read " + path + ": more than 4 bytes"},
		{"/dev/zero", "read /dev/zero: more than 4 bytes"},
		{t.TempDir(), "is a directory"},
		{path + ".none", "no such file"},
	} {
		data, err := ReadFile(c.path, 4)
		if err == nil || len(data) != 0 || !strings.Contains(err.Error(), c.want) || strings.Count(err.Error(), c.path) != 1 {
			t.Errorf("%s: %q, %v; want %q", c.path, data, err, c.want)
		}
	}
}

func TestPipe(t *testing.T) {
	t.Parallel()
	r, err := open(pipe(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	if data, err := readFile(r, 5, time.Millisecond); err == nil || !strings.Contains(err.Error(), "nobody writes to this pipe") {
		t.Errorf("no writer: %q, %v", data, err)
	}
	// One that writes nothing for longer than a missing one is waited for.
	w, err := os.OpenFile(r.Name(), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan string)
	go func() {
		data, err := readFile(r, 5, time.Millisecond)
		got <- fmt.Sprint(string(data), err)
	}()
	select {
	case s := <-got:
		t.Fatalf("a writer that is there isn't waited for: %s", s)
	case <-time.After(50 * time.Millisecond):
	}
	_, err1 := w.WriteString("12")
	if err := errors.Join(err1, w.Close()); err != nil {
		t.Fatal(err)
	}
	if s := <-got; s != "12<nil>" {
		t.Errorf("from a slow writer: %s", s)
	}
}

// A shell's <(command) is a pipe without a name, whose writer may have ended.
func TestNameless(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"12", ""} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		_, err1 := w.WriteString(text)
		if err := errors.Join(err1, w.Close()); err != nil {
			t.Fatal(err)
		}
		if data, err := ReadFile(fmt.Sprintf("/proc/self/fd/%d", r.Fd()), 5); err != nil || string(data) != text {
			t.Errorf("%q: %q, %v", text, data, err)
		}
		_ = r.Close()
	}
}

func TestOpen(t *testing.T) {
	t.Parallel()
	path := pipe(t)
	root, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	if err := root.WriteFile("f", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	in := func(name string) (*os.File, error) { return OpenIn(root, name) }
	for _, c := range []struct {
		open       func(string) (*os.File, error)
		path, want string
	}{
		{Open, filepath.Join(root.Name(), "f"), ""},
		{Open, path, "no regular file but a pipe"},
		{Open, root.Name(), "no regular file but a directory"},
		{Open, "/dev/null", "no regular file but a device"},
		{in, "f", ""},
		{in, "pipe", "no regular file but a pipe"},
	} {
		f, err := c.open(c.path)
		if err == nil {
			_ = f.Close()
		}
		if (err == nil) != (c.want == "") || err != nil && (!errors.Is(err, ErrNotRegular) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.path, err, c.want)
		}
	}
	if _, err := Open(path + ".none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
}

func pipe(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
