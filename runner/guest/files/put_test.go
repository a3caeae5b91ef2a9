package files

import (
	"archive/tar"
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// stream makes a stream; sizes are those of the contents.
func stream(t testing.TB, list ...record) *bytes.Buffer {
	t.Helper()
	var buf bytes.Buffer
	tw := tar.NewWriter(&buf)
	for _, r := range list {
		h := *r.header
		h.Size = int64(len(r.content))
		must(t, tw.WriteHeader(&h))
		_, err := tw.Write([]byte(r.content))
		must(t, err)
	}
	must(t, tw.Close())
	return &buf
}

func file(name, content string, mode int64) record {
	return record{&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: mode}, content}
}

func link(typ byte, name, to string) record {
	return record{&tar.Header{Name: name, Typeflag: typ, Linkname: to}, ""}
}

func TestPut(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir+"/replaced", "old")
	must(t, os.Symlink("/etc/passwd", dir+"/was-link"))
	when := time.Unix(1e9, 0)
	in := stream(t,
		record{&tar.Header{Name: "d/", Typeflag: tar.TypeDir, Mode: 0o2700}, ""},
		record{&tar.Header{Name: "d/f", Typeflag: tar.TypeReg, Mode: 0o640, ModTime: when}, "hello"},
		file("parents/made/suid", "x", 0o6755),
		file("replaced", "new", 0o600), file("was-link", "file", 0o644),
		link(tar.TypeSymlink, "sym", "/anywhere"), link(tar.TypeLink, "hard", "d/f"),
	)
	uid := os.Geteuid()
	if uid == 0 {
		uid = 60000
	}
	must(t, Put(dir, uid, -1, in, plenty))
	want := map[string]string{
		"d/": "directory", "d/f": "file hello", "hard": "file hello", "parents/": "directory", "parents/made/": "directory",
		"parents/made/suid": "executable x", "replaced": "file new", "was-link": "file file", "sym": "link /anywhere",
	}
	if d := cmp.Diff(want, tree(t, dir)); d != "" {
		t.Error(d)
	}
	for name, mode := range map[string]fs.FileMode{"d": fs.ModeDir | 0o700, "d/f": 0o640, "parents/made/suid": 0o755, "parents": fs.ModeDir | 0o755} {
		fi, err := os.Lstat(filepath.Join(dir, name))
		must(t, err)
		if fi.Mode() != mode || int(fi.Sys().(*syscall.Stat_t).Uid) != uid {
			t.Errorf("%s: %v, owner %d", name, fi.Mode(), fi.Sys().(*syscall.Stat_t).Uid)
		}
	}
	if info, err := Stat(dir + "/d/f"); err != nil || !info.ModTime.Equal(when) || info.UID != uint32(uid) || info.Size != 5 {
		t.Errorf("stat: %+v, %v", info, err)
	}
	if info, err := Stat(dir + "/sym"); err != nil || info.Link != "/anywhere" {
		t.Errorf("stat of a link: %+v, %v", info, err)
	}
}

func TestPutRefuses(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		in   []record
		says string
	}{
		"dotdot":           {[]record{file("../x", "", 0o644)}, `"../x"`},
		"absolute":         {[]record{file("/x", "", 0o644)}, `"/x"`},
		"through a link":   {[]record{link(tar.TypeSymlink, "l", ".."), file("l/x", "", 0o644)}, `"l/x"`},
		"link and beyond":  {[]record{link(tar.TypeSymlink, "l", "/"), file("l/tmp/x", "", 0o644)}, `"l/tmp/x"`},
		"hard link by way": {[]record{link(tar.TypeSymlink, "l", "/"), link(tar.TypeLink, "h", "l/etc/passwd")}, `"h"`},
		"planted link":     {[]record{file("planted/x", "", 0o644)}, `"planted/x"`},
		"hard link out":    {[]record{link(tar.TypeLink, "h", "../outside")}, `"h"`},
		"device":           {[]record{{&tar.Header{Name: "dev", Typeflag: tar.TypeChar}, ""}}, `"dev"`},
		"file for a dir":   {[]record{file("have/f", "", 0o644), file("have", "", 0o644)}, `"have"`},
		"too many":         {[]record{file("1", "", 0), file("2", "", 0), file("3", "", 0), file("4", "", 0)}, `"4"`},
		"too big":          {[]record{file("big", strings.Repeat("x", 101), 0o644)}, `"big"`},
		"no name":          {[]record{file("", "", 0o644)}, `""`},
		"a very long one":  {[]record{file(strings.Repeat("d/", 2100)+"f", "", 0o644)}, "4096"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			base := t.TempDir()
			write(t, base+"/outside", "untouched")
			must(t, os.Mkdir(base+"/in", 0o755))
			must(t, os.Symlink(base, base+"/in/planted"))
			err := Put(base+"/in", os.Geteuid(), -1, stream(t, tc.in...), Limits{Bytes: 100, Entries: 3})
			if err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("got %v, want an error that names %s", err, tc.says)
			}
			checkOutside(t, base)
		})
	}
}

// checkOutside fails when anything beside base/in was made or changed.
func checkOutside(t *testing.T, base string) {
	t.Helper()
	b, err := os.ReadFile(base + "/outside")
	list, _ := os.ReadDir(base)
	if err != nil || string(b) != "untouched" || len(list) != 2 {
		t.Errorf("outside: %q, %v, %v", b, err, list)
	}
}

func TestPutOfACutStream(t *testing.T) {
	t.Parallel()
	whole := stream(t, file("f", strings.Repeat("x", 700), 0o644), file("g", "", 0o644)).Bytes()
	for n := 0; n < len(whole); n += 256 {
		if err := Put(t.TempDir(), os.Geteuid(), -1, bytes.NewReader(whole[:n]), plenty); err == nil {
			t.Errorf("%d of %d bytes were taken for all", n, len(whole))
		}
	}
}

// FuzzPut feeds a tar made of a script's lines, "type name|target|mode|content",
// and then raw bytes.
func FuzzPut(f *testing.F) {
	f.Add("5 d||755|\n0 d/f||6755|hello\n2 l|..|777|\n0 l/x||644|", []byte{})
	f.Add("1 h|../outside|0|\n1 planted/h|planted|0|", []byte{})
	f.Add("2 a|b|0|\n2 b|../../..|0|\n0 a/x||644|x\n0 planted||644|", []byte("junk"))
	f.Fuzz(func(t *testing.T, script string, raw []byte) {
		base := t.TempDir()
		write(t, base+"/outside", "untouched")
		must(t, os.Mkdir(base+"/in", 0o755))
		must(t, os.Symlink("..", base+"/in/planted"))
		err := Put(base+"/in", os.Geteuid(), -1, bytes.NewReader(append(script2tar(script), raw...)), Limits{Bytes: 1 << 16, Entries: 32})
		var limit *LimitError
		if errors.As(err, &limit) && limit.Max == 0 {
			t.Error("limit of zero")
		}
		checkOutside(t, base)
		must(t, filepath.WalkDir(base+"/in", func(path string, e fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			fi, err := e.Info()
			if err == nil && (fi.Mode()&(fs.ModeSetuid|fs.ModeSetgid|fs.ModeSticky) != 0 || fi.Size() > 1<<16) {
				t.Errorf("%s: %v, %d bytes", path, fi.Mode(), fi.Size())
			}
			return err
		}))
	})
}

// script2tar skips lines that archive/tar refuses to write.
func script2tar(script string) []byte {
	var buf bytes.Buffer
	for line := range strings.Lines(script) {
		line = strings.TrimSuffix(line, "\n")
		if len(line) < 2 {
			continue
		}
		parts := append(strings.SplitN(line[2:], "|", 4), "", "", "")
		h := &tar.Header{Typeflag: line[0], Name: parts[0], Linkname: parts[1], Size: int64(len(parts[3]))}
		for _, c := range parts[2] {
			h.Mode = h.Mode<<3 | int64(c&7)
		}
		h.Mode &= 0o7777
		var one bytes.Buffer
		tw := tar.NewWriter(&one)
		if tw.WriteHeader(h) != nil {
			continue
		}
		if _, err := tw.Write([]byte(parts[3])); err == nil && tw.Flush() == nil {
			buf.Write(one.Bytes())
		}
	}
	return buf.Bytes()
}
