package erofs_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quavon/quavon/runner/image/erofs"
	"github.com/quavon/quavon/runner/image/imagetest"
)

func walkAll(t testing.TB, r io.ReaderAt) (map[string]string, error) {
	t.Helper()
	e, err := erofs.NewReader(r)
	if err != nil {
		return nil, err
	}
	got := map[string]string{}
	err = e.Walk(func(path string, f *erofs.File) error {
		got[path] = fmt.Sprintf("%o", f.Mode)
		if f.Size > 1<<20 {
			return nil
		}
		b, err := io.ReadAll(f.Open())
		if f.Mode>>12 != 4 {
			got[path] += " " + string(b)
		}
		return err
	})
	return got, err
}

func TestWalk(t *testing.T) {
	t.Parallel()
	long, deep := strings.Repeat("l", 2000), strings.Repeat("d/", 30)
	entries := []imagetest.Entry{
		imagetest.Dir("d"), imagetest.File("d/empty", ""), imagetest.File("d/f", "content"), imagetest.Link("again", "d/f"),
		imagetest.Symlink("short", "d/f"), imagetest.Symlink("long", long), imagetest.File("n\xff", "odd"), imagetest.File(deep+"f", "deep"),
		{Name: "x", Body: "attributes", Mode: 0o755, Xattrs: map[string]string{"user.a": "b"}},
	}
	want := map[string]string{
		"d": "40755", "d/empty": "100644 ", "d/f": "100644 content", "again": "100644 content", "short": "120777 d/f",
		"long": "120777 " + long, "n\xff": "100644 odd", "x": "100755 attributes", deep + "f": "100644 deep",
	}
	for i := range 30 {
		want[strings.TrimSuffix(deep[:2*(i+1)], "/")] = "40755"
	}
	for i := range 1000 {
		name := fmt.Sprintf("many/%04d-%s", i, strings.Repeat("x", i%200))
		entries, want[name] = append(entries, imagetest.File(name, name)), "100644 "+name
	}
	want["many"] = "40755"
	f, err := os.Open(build(t, true, entries))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	got, err := walkAll(t, f)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func FuzzWalk(f *testing.F) {
	raw, err := os.ReadFile(build(f, true, []imagetest.Entry{imagetest.File("a/b/c", "x"), imagetest.Symlink("l", "t"), imagetest.Link("h", "a/b/c")}))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, err := walkAll(t, bytes.NewReader(b)); err != nil && !errors.Is(err, erofs.ErrFormat) && !errors.Is(err, io.EOF) {
			t.Errorf("got %v", err)
		}
	})
}
