package workspace

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quavon/quavon/runner/agent"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/job"
)

// script2tar makes a hostile stream from lines "type kind name|link|mode|content|old
// mode"; lines that archive/tar refuses to write are left out.
func script2tar(script string) []byte {
	var buf bytes.Buffer
	for line := range strings.Lines(script) {
		line = strings.TrimSuffix(line, "\n")
		if len(line) < 4 {
			continue
		}
		f := append(strings.SplitN(line[4:], "|", 5), "", "", "", "")
		kind := map[byte]job.ChangeKind{'a': job.Added, 'm': job.Modified, 'd': job.Deleted}[line[2]]
		h := &tar.Header{Typeflag: line[0], Name: f[0], Linkname: f[1], Size: int64(len(f[3])), PAXRecords: map[string]string{agent.PAXChange: string(kind)}}
		fmt.Sscanf(f[2], "%o", &h.Mode)
		if f[4] != "" {
			h.PAXRecords[agent.PAXOldMode] = f[4]
			h.PAXRecords[agent.PAXOldSize] = "0"
			h.PAXRecords[agent.PAXOldSHA256] = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
		}
		var one bytes.Buffer
		tw := tar.NewWriter(&one)
		if tw.WriteHeader(h) != nil {
			continue
		}
		if _, err := io.WriteString(tw, f[3]); err == nil && tw.Flush() == nil {
			buf.Write(one.Bytes())
		}
	}
	return append(buf.Bytes(), make([]byte, 1024)...)
}

// stream is a script's entries, then raw bytes in place of the end mark unless
// there are none.
func stream(script string, raw []byte) io.Reader {
	whole := script2tar(script)
	if len(raw) > 0 {
		whole = append(whole[:len(whole)-1024], raw...)
	}
	return bytes.NewReader(whole)
}

func TestReadRefuses(t *testing.T) {
	t.Parallel()
	small := Limits{Bytes: 10, Entries: 4}
	for name, tc := range map[string]struct {
		script, says string
	}{
		"good":               {"0 a a||755|x\n0 d b||644||100644\n5 a c/||755|\n2 a c/l|/x|777|", ""},
		"file becomes dir":   {"0 d a||644||100644\n5 a a/||755|\n0 a a/x||644|", ""},
		"dir becomes file":   {"0 a a||644|\n5 d a/||755||40000\n0 d a/x||644||100755", ""},
		"dotdot":             {"0 a ../a||644|", "clean"},
		"dotdot inside":      {"0 a a/../b||644|", "clean"},
		"dot":                {"0 a ./a||644|", "clean"},
		"absolute":           {"0 a /a||644|", "clean"},
		"double slash":       {"0 a a//b||644|", "clean"},
		"long name":          {"0 a " + strings.Repeat("x", 256) + "||644|", "255"},
		"long path":          {"0 a " + strings.Repeat("x/", 2048) + "x||644|", "4096"},
		"twice":              {"0 a a||644|\n0 a a||644|", "order"},
		"not sorted":         {"0 a b||644|\n0 a a||644|", "order"},
		"file below file":    {"0 a a||644|\n0 a a-b||644|\n0 a a/b||644|", "contradicts"},
		"below a changed":    {"0 m a||644||100644\n0 d a/b||644||100644", "contradicts"},
		"file and dir":       {"0 a a||644|\n5 a a/||755|", "contradicts"},
		"below a link":       {"2 a a|/etc|777|\n0 a a/b||644|", "contradicts"},
		"new in deleted":     {"5 d a/||755||40000\n0 a a/b||644|", "contradicts"},
		"deleted in new":     {"5 a a/||755|\n0 d a/b||644||100644", "contradicts"},
		"hard link":          {"1 a a|b|644|", "type"},
		"device":             {"3 a a||644|", "type"},
		"fifo":               {"6 a a||644|", "type"},
		"link without aim":   {"2 a a||777|", "not a link"},
		"long link":          {"2 a a|" + strings.Repeat("x", 4096) + "|777|", "not a link"},
		"file with link":     {"0 a a|b|644|", "not a link"},
		"no kind":            {"0 x a||644|", "no sense"},
		"new with old":       {"0 a a||644||100644", "no sense"},
		"changed without":    {"0 m a||644|", "no sense"},
		"changed dir":        {"5 m a/||755||40000", "no sense"},
		"odd old mode":       {"0 m a||644||100777", "no sense"},
		"old mode of a dir":  {"0 m a||644||40000", "no sense"},
		"deleted, other":     {"0 d a||644||120000", "no sense"},
		"deleted + content":  {"0 d a||644|x|100644", "has content"},
		"too many":           {"0 a a||644|\n0 a b||644|\n0 a c||644|\n0 a d||644|\n0 a e||644|", "more files"},
		"too big":            {"0 a a||644|12345678901", "more bytes"},
		"too big in the end": {"0 a a||644|123456\n0 a b||644|12345", "more bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, err := Read(context.Background(), bytes.NewReader(script2tar(tc.script)), t.TempDir(), small)
			if tc.says == "" {
				must(t, err)
				must(t, d.Close())
			} else if err == nil || !strings.Contains(err.Error(), tc.says) || fault.Hint(err) == "" {
				t.Errorf("got %v, want %q", err, tc.says)
			}
		})
	}
}

func TestReadOfACutStream(t *testing.T) {
	t.Parallel()
	whole := script2tar("0 a a||644|0123456789\n0 a b||644|0123456789")
	d, err := Read(context.Background(), bytes.NewReader(whole), t.TempDir(), plenty)
	must(t, err)
	must(t, d.Close())
	for n := 0; n < len(whole); n += 100 {
		if _, err := Read(context.Background(), bytes.NewReader(whole[:n]), t.TempDir(), plenty); err == nil {
			t.Errorf("%d of %d bytes were accepted", n, len(whole))
		}
	}
}

func TestChanges(t *testing.T) {
	t.Parallel()
	in := "0 a b/x||644|\n5 d c/||755||40000\n0 d c/x||644||100644\n5 a d/||755|\n5 a d/empty/||755|\n0 m e||644||100644"
	d, err := Read(context.Background(), bytes.NewReader(script2tar(in)), t.TempDir(), plenty)
	must(t, err)
	defer d.Close()
	want := []job.Change{
		{Path: "b/x", Kind: job.Added},
		{Path: "c/x", Kind: job.Deleted},
		{Path: "d/empty/", Kind: job.Added},
		{Path: "e", Kind: job.Modified},
	}
	if diff := cmp.Diff(want, d.Changes()); diff != "" {
		t.Error(diff)
	}
}

// FuzzRead feeds what a hostile guest might send, from a script's lines and as
// raw bytes, and applies what is accepted: nothing outside the directory may
// change, and nothing of git's.
func FuzzRead(f *testing.F) {
	f.Add("0 a a||4755|x\n2 a l|..|777|\n0 a l-/x||644|", []byte{})
	f.Add("0 d a||644||100644\n5 a a/||755|\n0 a a/x||644|", []byte{})
	f.Add("5 a .git/||755|\n0 a .git/config||644|evil\n0 m e||755|new|100644\n2 d planted||777||120000", []byte{})
	f.Add("0 m planted/x||644|evil|100644", []byte("ustar"))
	f.Fuzz(func(t *testing.T, script string, raw []byte) {
		base := t.TempDir()
		dir := base + "/in"
		for _, d := range []string{dir, dir + "/.git"} {
			must(t, os.Mkdir(d, 0o755))
		}
		for _, f := range []string{base + "/outside", dir + "/.git/config", dir + "/e"} {
			must(t, os.WriteFile(f, nil, 0o644))
		}
		must(t, os.Symlink("..", dir+"/planted"))
		d, err := Read(context.Background(), stream(script, raw), base, Limits{Bytes: 1 << 16, Entries: 32})
		if err != nil {
			return
		}
		defer d.Close()
		if len(d.Entries) > 32 || d.spool.end > 1<<16 {
			t.Errorf("%d entries, %d bytes", len(d.Entries), d.spool.end)
		}
		d.Changes()
		d.Patch(context.Background(), io.Discard, Base{Dir: dir})
		d.WriteBack(context.Background(), Base{Dir: dir}, true)
		checkOutside(t, base, "in", "outside")
		if b, err := os.ReadFile(dir + "/.git/config"); err != nil || len(b) > 0 {
			t.Errorf(".git/config: %q, %v", b, err)
		}
		checkModes(t, dir)
	})
}

// checkOutside fails unless base holds just these, the last an empty file.
func checkOutside(t *testing.T, base string, names ...string) {
	t.Helper()
	list, err := os.ReadDir(base)
	must(t, err)
	var got []string
	for _, e := range list {
		got = append(got, e.Name())
	}
	if d := cmp.Diff(names, got); d != "" {
		t.Error(d)
	}
	if b, err := os.ReadFile(filepath.Join(base, names[len(names)-1])); err != nil || len(b) > 0 {
		t.Errorf("outside: %q, %v", b, err)
	}
}

func checkModes(t *testing.T, dir string) {
	t.Helper()
	must(t, filepath.Walk(dir, func(path string, fi os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		if fi.Mode()&(os.ModeSetuid|os.ModeSetgid|os.ModeSticky) != 0 || strings.HasPrefix(fi.Name(), stagePrefix) {
			t.Errorf("%s: %v", path, fi.Mode())
		}
		return nil
	}))
}
