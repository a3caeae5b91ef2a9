package runtime

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
)

// small are limits that a test reaches.
var small = limits{archive: 64 << 10, unpacked: 64 << 10, entries: 20, window: 8 << 20}

// file is an entry of an archive.
func file(name, text string) *tar.Header {
	return &tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o4777, Size: int64(len(text)), PAXRecords: map[string]string{"QUAVON.text": text}}
}

func link(kind byte, name, to string) *tar.Header {
	return &tar.Header{Name: name, Typeflag: kind, Linkname: to, Mode: 0o777}
}

func node(kind byte, name string) *tar.Header {
	return &tar.Header{Name: name, Typeflag: kind, Mode: 0o666, Devmajor: 1, Devminor: 3}
}

// tarOf is an archive; files have their text in a record.
func tarOf(t testing.TB, headers ...*tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range headers {
		text := h.PAXRecords["QUAVON.text"]
		h.PAXRecords = nil
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func gzipped(t testing.TB, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func zstdOf(t testing.TB, data []byte) []byte {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	return w.EncodeAll(data, nil)
}

// files are those below dir, with their modes.
func files(t testing.TB, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		data, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		all[name] = info.Mode().String() + " " + string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestArchives: archives that tar and each of its compressors made.
func TestArchives(t *testing.T) {
	t.Parallel()
	want := map[string]string{
		"runsc": "-rwxr-xr-x the runtime\n", "containerd-shim-runsc-v1": "-rwxr-xr-x the shim\n",
		"gvisor-bin/gvisor_sentry": "-rwxr-xr-x the sentry\n",
	}
	for _, name := range []string{"release.tar.bz2", "release.tar.zstd", "release.tar.gz"} {
		data, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		if err := small.extract(t.Context(), bytes.NewReader(data), dir); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if d := cmp.Diff(want, files(t, dir)); d != "" {
			t.Errorf("%s: %s", name, d)
		}
		for _, cut := range []int{1, 5, len(data) / 2, len(data) - 9} {
			if err := small.extract(t.Context(), bytes.NewReader(data[:cut]), t.TempDir()); err == nil {
				t.Errorf("%s: %d of %d bytes were taken for all", name, cut, len(data))
			}
		}
	}
}

// TestHostileArchives: nothing is written outside, and nothing but plain files; what is
// not gVisor's stays in the archive.
func TestHostileArchives(t *testing.T) {
	t.Parallel()
	zeros := strings.Repeat("\x00", 60<<10)
	var many []*tar.Header
	for i := range 30 {
		many = append(many, file(strings.Repeat("x", i+1), ""))
	}
	good := file("runsc", "r")
	for name, c := range map[string]struct {
		entries []*tar.Header
		want    string // "" for success, with runsc alone
	}{
		"plain":                  {[]*tar.Header{good}, ""},
		"with a dot":             {[]*tar.Header{node(tar.TypeDir, "./"), file("./runsc", "r")}, ""},
		"others beside":          {[]*tar.Header{good, file("etc/passwd", "x"), link(tar.TypeSymlink, "x", "/etc"), node(tar.TypeChar, "null")}, ""},
		"below a directory":      {[]*tar.Header{file("gvisor/runsc", "r")}, "there is no runsc"},
		"absolute":               {[]*tar.Header{good, file("/gvisor-bin/x", "x")}, "leads out"},
		"parent":                 {[]*tar.Header{file("../runsc", "x"), good}, "leads out"},
		"parent inside":          {[]*tar.Header{good, file("gvisor-bin/../../x", "x")}, "leads out"},
		"parent at the end":      {[]*tar.Header{good, file("gvisor-bin/..", "x")}, "leads out"},
		"dot behind a dot":       {[]*tar.Header{file("./../runsc", "x")}, "leads out"},
		"deeper":                 {[]*tar.Header{good, file("gvisor-bin/a/b", "x")}, "no plain file"},
		"escape characters":      {[]*tar.Header{good, file("gvisor-bin/\x1b[2J", "x")}, "no plain file"},
		"a hidden helper":        {[]*tar.Header{good, file("gvisor-bin/.x", "x")}, "no plain file"},
		"symbolic link":          {[]*tar.Header{link(tar.TypeSymlink, "runsc", "/bin/sh")}, "no plain file"},
		"hard link":              {[]*tar.Header{link(tar.TypeLink, "runsc", "/etc/shadow")}, "no plain file"},
		"linked directory":       {[]*tar.Header{link(tar.TypeSymlink, "gvisor-bin", "/etc"), file("gvisor-bin/x", "x"), good}, "no plain file"},
		"device":                 {[]*tar.Header{good, node(tar.TypeChar, "gvisor-bin/null")}, "no plain file"},
		"pipe":                   {[]*tar.Header{node(tar.TypeFifo, "runsc")}, "no plain file"},
		"a file for helpers":     {[]*tar.Header{good, file("gvisor-bin", "x")}, "no plain file"},
		"twice":                  {[]*tar.Header{good, file("./runsc", "other")}, "in the archive twice"},
		"only helpers":           {[]*tar.Header{file("gvisor-bin/x", "x")}, "there is no runsc"},
		"empty":                  {nil, "there is no runsc"},
		"too many":               {append(many, good), "more than 20 files"},
		"bomb":                   {[]*tar.Header{good, file("gvisor-bin/a", zeros), file("gvisor-bin/b", zeros)}, "more than 65536 bytes"},
		"bomb that isn't wanted": {[]*tar.Header{file("a", zeros), file("b", zeros), good}, "more than 65536 bytes"},
	} {
		copied := make([]*tar.Header, len(c.entries))
		for i, h := range c.entries {
			h := *h
			copied[i] = &h
		}
		dir := filepath.Join(t.TempDir(), "in")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		err := small.extract(t.Context(), bytes.NewReader(zstdOf(t, tarOf(t, copied...))), dir)
		switch {
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want %q", name, err, c.want)
		case c.want == "" && (err != nil || cmp.Diff(map[string]string{"runsc": "-rwxr-xr-x r"}, files(t, dir)) != ""):
			t.Errorf("%s: %v, %v", name, err, files(t, dir))
		}
		if all, err := os.ReadDir(filepath.Dir(dir)); err != nil || len(all) != 1 {
			t.Errorf("%s: written outside: %v %v", name, all, err)
		}
	}
}

// TestDamagedArchives: what is no archive, or one that takes more memory than it may.
func TestDamagedArchives(t *testing.T) {
	t.Parallel()
	whole := tarOf(t, file("runsc", strings.Repeat("r", 2000)))
	// A frame that wants a window of 1 GiB, and one block.
	window := append([]byte("\x28\xb5\x2f\xfd\x00\xa0\x09\x00\x00"), 'x')
	hole, err := os.ReadFile("testdata/sparse.tar.zstd") // a megabyte of nothing
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"a sparse file":    {hole, "more than 65536 bytes"},
		"nothing":          {nil, "neither zstd"},
		"text":             {[]byte("<html>not found</html>"), "neither zstd"},
		"tar alone":        {whole, "neither zstd"},
		"half a magic":     {[]byte("\x28\xb5"), "neither zstd"},
		"no tar inside":    {gzipped(t, []byte(strings.Repeat("no tar ", 200))), "damaged"},
		"tar cut":          {gzipped(t, whole[:1024]), "unexpected EOF"},
		"header cut":       {gzipped(t, whole[:300]), "damaged"},
		"gzip's head only": {[]byte("\x1f\x8b"), "EOF"},
		"wrong checksum":   {func() []byte { b := gzipped(t, whole); b[len(b)-6] ^= 1; return b }(), "checksum"},
		"zstd's window":    {window, "window"},
		"bzip2 of nothing": {[]byte("BZh9"), "damaged"},
	} {
		err := small.extract(t.Context(), bytes.NewReader(c.data), t.TempDir())
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// TestExtractInterrupted: a signal ends it in the middle.
func TestExtractInterrupted(t *testing.T) {
	t.Parallel()
	signal := errors.New("interrupted")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(signal)
	if err := small.extract(ctx, bytes.NewReader(zstdOf(t, tarOf(t, file("runsc", "r")))), t.TempDir()); !errors.Is(err, signal) {
		t.Error(err)
	}
}

// FuzzExtract: whatever the bytes, nothing is written outside of the directory, more
// than the limit, or as anything but a file that everyone may run.
func FuzzExtract(f *testing.F) {
	for _, name := range []string{"release.tar.bz2", "release.tar.zstd", "release.tar.gz", "sparse.tar.zstd"} {
		data, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, false)
	}
	for _, h := range []*tar.Header{
		file("../runsc", "x"), file("/runsc", "x"), link(tar.TypeSymlink, "gvisor-bin", "/tmp"), link(tar.TypeLink, "runsc", "x"),
		node(tar.TypeChar, "runsc"), file("gvisor-bin/x", "x"), file("runsc", strings.Repeat("\x00", 70<<10)),
	} {
		f.Add(tarOf(f, h, file("gvisor-bin/x", "y"), file("runsc", "r")), true)
	}
	f.Fuzz(func(t *testing.T, data []byte, plain bool) {
		if plain { // so that not every change is one that the compression finds
			data = zstdOf(t, data)
		}
		dir := filepath.Join(t.TempDir(), "in")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		err := small.extract(t.Context(), bytes.NewReader(data), dir)
		if all, err := os.ReadDir(filepath.Dir(dir)); err != nil || len(all) != 1 {
			t.Fatalf("written outside: %v %v", all, err)
		}
		size := 0
		for name, is := range files(t, dir) {
			size += len(is)
			whole := strings.HasPrefix(is, "-rwxr-xr-x ") || err != nil && strings.HasPrefix(is, "-rwx------ ")
			if !whole || name != "runsc" && name != "containerd-shim-runsc-v1" && !helperName.MatchString(name) {
				t.Fatalf("%q is %.40q: %v", name, is, err)
			}
		}
		if size > int(small.unpacked)+small.entries*12 {
			t.Fatalf("%d bytes were unpacked", size)
		}
	})
}
