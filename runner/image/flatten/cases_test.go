package flatten_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quavon/quavon/runner/image/flatten"
	it "github.com/quavon/quavon/runner/image/imagetest"
)

// memory is a Data sink that also tells who has which content.
type memory struct{ b []byte }

func (m *memory) Append(r io.Reader, size int64) (int64, error) {
	at := int64(len(m.b))
	b, err := io.ReadAll(io.LimitReader(r, size))
	if err == nil && int64(len(b)) < size {
		err = io.ErrUnexpectedEOF
	}
	m.b = append(m.b, b...)
	return at, err
}

// merge flattens layers given as tars.
func merge(tars ...[]byte) (*flatten.Tree, []*memory, error) {
	budget := flatten.NewBudget(flatten.DefaultLimits)
	tree := flatten.NewTree()
	var data []*memory
	for i, b := range tars {
		data = append(data, &memory{})
		upper, err := flatten.Scan(bytes.NewReader(b), i, data[i], budget)
		if err != nil {
			return nil, nil, err
		}
		if err := tree.Merge(upper); err != nil {
			return nil, nil, err
		}
	}
	tree.Finish()
	return tree, data, nil
}

// show lists a tree: type, content or target, and inode number of hard links.
func show(t *flatten.Tree, data []*memory) map[string]string {
	out := map[string]string{}
	var walk func(dir flatten.ID, path string)
	walk = func(dir flatten.ID, path string) {
		for id := t.First(dir); id != 0; id = t.Next(id) {
			i, name := t.Inode(id), path+string(t.Name(id))
			switch i.Type() {
			case 0o040000:
				out[name+"/"] = ""
				walk(id, name+"/")
			case 0o120000:
				out[name] = "-> " + string(t.Link(id))
			case 0o010000:
				out[name] = "fifo"
			default:
				out[name] = string(data[i.Layer].b[i.Data : i.Data+i.Size])
				if i.Nlink > 1 {
					out[name] += fmt.Sprintf(" (%d links, inode %d)", i.Nlink, t.InodeID(id))
				}
			}
		}
	}
	walk(flatten.RootID, "")
	return out
}

type layer = []it.Entry

func TestFlatten(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("d/", 2500) + "f"
	n255 := strings.Repeat("n", 255)
	for name, c := range map[string]struct {
		layers []layer
		want   map[string]string
		part   bool // want is only a part
	}{
		"IM-01 an opaque whiteout hides what is below": {
			[]layer{{it.Dir("a"), it.Dir("a/b"), it.File("a/b/foo", "1")}, {it.Dir("a"), it.File("a/.wh..wh..opq", "")}},
			map[string]string{"a/": ""},
			false,
		},
		"IM-01 an opaque whiteout behind what the layer has": {
			[]layer{{it.Dir("a"), it.File("a/old", "1")}, {it.Dir("a"), it.File("a/new", "2"), it.File("a/.wh..wh..opq", "")}},
			map[string]string{"a/": "", "a/new": "2"},
			false,
		},
		"a whiteout hides only what is below": {
			[]layer{{it.Dir("d"), it.File("d/x", "1"), it.File("f", "1")}, {it.Dir("d"), it.File("d/y", "2"), it.File(".wh.d", ""), it.File("f", "2"), it.File(".wh.f", "")}},
			map[string]string{"d/": "", "d/y": "2", "f": "2"},
			false,
		},
		"a whiteout of nothing": {[]layer{{it.File(".wh.x", ""), it.File("a", "1")}}, map[string]string{"a": "1"}, false},
		"IM-05 a new file under one name of a hard link": {
			[]layer{{it.File("t2", "old")}, {it.Link("t1", "t2"), it.Link("t3", "t2")}, {it.File("t1", "new")}},
			map[string]string{"t1": "new", "t2": "old (2 links, inode 2)", "t3": "old (2 links, inode 2)"},
			false,
		},
		"IM-05 one name of a hard link is deleted": {
			[]layer{{it.File("t2", "old")}, {it.Link("t1", "t2")}, {it.File(".wh.t2", "")}},
			map[string]string{"t1": "old"},
			false,
		},
		"IM-05 the target is deleted in the layer that links to it": {
			[]layer{{it.File("t2", "old")}, {it.File(".wh.t2", ""), it.Link("t1", "t2")}},
			map[string]string{"t1": "old"},
			false,
		},
		"IM-05 the target is replaced in the layer above": {
			[]layer{{it.File("t2", "old"), it.Link("t1", "t2")}, {it.File("t2", "new")}},
			map[string]string{"t1": "old", "t2": "new"},
			false,
		},
		"a hard link before its target": {
			[]layer{{it.Link("a", "b"), it.File("b", "1")}},
			map[string]string{"a": "1 (2 links, inode 3)", "b": "1 (2 links, inode 3)"},
			false,
		},
		"a hard link to itself": {[]layer{{it.File("a", "1"), it.Link("a", "a")}}, map[string]string{"a": "1"}, false},
		"a hard link to a symbolic link": {
			[]layer{{it.Symlink("a", "x"), it.Link("b", "a")}}, map[string]string{"a": "-> x", "b": "-> x"}, false,
		},
		"a hard link to a device is skipped with it": {
			[]layer{{it.Entry{Type: tar.TypeChar, Name: "c", Major: 1}, it.Link("b", "c")}}, map[string]string{}, false,
		},
		"IM-06 a directory becomes a symbolic link": {
			[]layer{{it.Dir("var"), it.Dir("var/run"), it.File("var/run/x", "1")}, {it.Dir("var"), it.Symlink("var/run", "../run")}},
			map[string]string{"var/": "", "var/run": "-> ../run"},
			false,
		},
		"IM-06 a symbolic link becomes a directory, nothing goes through it": {
			[]layer{{it.Dir("run"), it.Dir("var"), it.Symlink("var/run", "../run")}, {it.Dir("var"), it.Dir("var/run"), it.File("var/run/x", "1")}},
			map[string]string{"run/": "", "var/": "", "var/run/": "", "var/run/x": "1"},
			false,
		},
		"IM-06 a file becomes a directory and a directory a file": {
			[]layer{{it.File("a", "1"), it.Dir("b"), it.File("b/c", "1")}, {it.Dir("a"), it.File("a/x", "2"), it.File("b", "2")}},
			map[string]string{"a/": "", "a/x": "2", "b": "2"},
			false,
		},
		"IM-08 a file below a link of a lower layer stays in the image": {
			[]layer{{it.Symlink("x", "/etc"), it.Dir("etc")}, {it.File("x/cron.d/p", "evil")}},
			map[string]string{"etc/": "", "x/": "", "x/cron.d/": "", "x/cron.d/p": "evil"},
			false,
		},
		"IM-11 links are kept as they are": {
			[]layer{{it.Symlink("sh", "/bin/busybox"), it.Symlink("lib64", "../../../lib"), it.Symlink("odd", "a//b/./../c")}},
			map[string]string{"sh": "-> /bin/busybox", "lib64": "-> ../../../lib", "odd": "-> a//b/./../c"},
			false,
		},
		"IM-19 devices are skipped and hide what is below, FIFOs are kept": {
			[]layer{{it.Dir("dev"), it.File("x", "1")}, {
				it.Entry{Type: tar.TypeChar, Name: "dev/console", Major: 5, Minor: 1},
				it.Entry{Type: tar.TypeBlock, Name: "x", Major: 8},
				it.Entry{Type: tar.TypeFifo, Name: "p"},
			}},
			map[string]string{"dev/": "", "p": "fifo"},
			false,
		},
		"IM-20 long names": {
			[]layer{{it.File(long, "deep"), it.File(n255, "wide"), it.Symlink("s", strings.Repeat("t", 4000))}},
			map[string]string{long: "deep", n255: "wide", "s": "-> " + strings.Repeat("t", 4000)},
			true,
		},
		"IM-22 names are bytes": {
			[]layer{{it.Entry{Name: "n\xff\xfe", Body: "1"}}}, map[string]string{"n\xff\xfe": "1"}, false,
		},
		"IM-24 a directory that can't be written to": {
			[]layer{{it.Entry{Type: tar.TypeDir, Name: "d", Mode: 0o550}, it.File("d/x", "1"), it.File("d/y", "2")}},
			map[string]string{"d/": "", "d/x": "1", "d/y": "2"},
			false,
		},
		"names may begin with ./ and /": {
			[]layer{{it.Dir("./"), it.File("./a", "1"), it.File("/b", "2"), it.File("c//./d", "3")}},
			map[string]string{"a": "1", "b": "2", "c/": "", "c/d": "3"},
			false,
		},
		"the last of several entries counts": {
			[]layer{{it.File("a", "1"), it.File("a", "2"), it.Dir("d"), it.File("d/x", "1"), it.Dir("d")}},
			map[string]string{"a": "2", "d/": "", "d/x": "1"},
			false,
		},
		"an implied directory over a file": {
			[]layer{{it.File("a", "1")}, {it.File("a/b", "2")}}, map[string]string{"a/": "", "a/b": "2"}, false,
		},
		"a whiteout, then a directory that is only implied": {
			[]layer{{it.Dir("a"), it.File("a/old", "1")}, {it.File(".wh.a", ""), it.File("a/new", "2")}},
			map[string]string{"a/": "", "a/new": "2"},
			false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var tars [][]byte
			for _, l := range c.layers {
				tars = append(tars, it.Tar(t, l...))
			}
			tree, data, err := merge(tars...)
			if err != nil {
				t.Fatal(err)
			}
			got := show(tree, data)
			if c.part {
				for k := range got {
					if _, asked := c.want[k]; !asked {
						delete(got, k)
					}
				}
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("want (-), got (+):\n%s", d)
			}
		})
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		layers []layer
		entry  string // that the error names
		why    string // part of the reason
	}{
		"IM-03 .wh.":                     {[]layer{{it.File("etc/.wh.", "")}}, "etc/.wh.", "hides no valid name"},
		"IM-03 .wh. at the root":         {[]layer{{it.File(".wh.", "")}}, ".wh.", "hides no valid name"},
		"IM-03 .wh..":                    {[]layer{{it.File("a/.wh..", "")}}, "a/.wh..", "hides no valid name"},
		"IM-03 .wh...":                   {[]layer{{it.File("a/.wh...", "")}}, "a/.wh...", "hides no valid name"},
		"IM-03 .wh.a/b":                  {[]layer{{it.File(".wh.a/b", "")}}, ".wh.a/b", "can't be a directory"},
		"IM-03 aufs":                     {[]layer{{it.File(".wh..wh.plnk", "")}}, ".wh..wh.plnk", "hides no valid name"},
		"IM-03 .wh. directory":           {[]layer{{it.Dir(".wh.a")}}, ".wh.a", "not an empty file"},
		"IM-08 through a link":           {[]layer{{it.Symlink("x", "/etc"), it.File("x/cron.d/p", "1")}}, "x/cron.d/p", `"x" is not a directory`},
		"IM-08 through chained links":    {[]layer{{it.Dir("d"), it.Symlink("d/a", ".."), it.Symlink("d/b", "a/.."), it.File("d/b/p", "1")}}, "d/b/p", "is not a directory"},
		"IM-08 ..":                       {[]layer{{it.File("a/../../p", "1")}}, "a/../../p", `".." component`},
		"IM-09 hard link out":            {[]layer{{it.Link("l", "../../../../etc/shadow")}}, "l", "not possible"},
		"IM-09 hard link to the host":    {[]layer{{it.Link("l", "/etc/shadow")}}, "l", "no file of the image"},
		"IM-09 hard link via a link":     {[]layer{{it.Symlink("e", "/etc")}, {it.Link("l", "e/shadow")}}, "l", "no file of the image"},
		"hard link to a directory":       {[]layer{{it.Dir("d"), it.Link("l", "d")}}, "l", "directory"},
		"hard link to a lower directory": {[]layer{{it.Dir("d")}, {it.Link("l", "d")}}, "l", "no file of the image"},
		"hard links in a circle":         {[]layer{{it.Link("a", "b"), it.Link("b", "a")}}, "a", "no file of the image"},
		"IM-16 negative uid":             {[]layer{{it.Entry{Name: "a", UID: -1}}}, "a", "out of range"},
		"IM-16 uid too big":              {[]layer{{it.Entry{Name: "a", UID: 1 << 32}}}, "a", "out of range"},
		"IM-16 gid too big":              {[]layer{{it.Entry{Name: "a", GID: 9999999999}}}, "a", "out of range"},
		"IM-20 long component":           {[]layer{{it.File("a/"+strings.Repeat("n", 256), "")}}, "a/nnn", "longer than 255"},
		"a long path":                    {[]layer{{it.File(strings.Repeat("d/", 9000)+"f", "")}}, "d/d/", "longer than 16384"},
		"the root is a file":             {[]layer{{it.File(".", "x")}}, ".", "not a directory"},
		"the root is a link":             {[]layer{{it.Symlink("./", "/etc")}}, "./", "not a directory"},
		"a file is also a directory":     {[]layer{{it.File("a", "1"), it.File("a/b", "2")}}, "a/b", "not a directory"},
		"a link to nothing":              {[]layer{{it.Symlink("a", "")}}, "a", "target is empty"},
		"a link too long":                {[]layer{{it.Symlink("a", strings.Repeat("x", 4096))}}, "a", "longer than 4095"},
		"an unknown type":                {[]layer{{it.Entry{Type: 'V', Name: "vol"}}}, "vol", "unknown"},
		"too many attributes":            {[]layer{{it.Entry{Name: "a", Xattrs: map[string]string{"user.a": strings.Repeat("v", 65536)}}}}, "a", "more than 65536"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var tars [][]byte
			for _, l := range c.layers {
				tars = append(tars, it.Tar(t, l...))
			}
			_, _, err := merge(tars...)
			var e *flatten.EntryError
			if !errors.As(err, &e) {
				t.Fatalf("got %v, want an *EntryError", err)
			}
			if !strings.HasPrefix(e.Name, c.entry) || !strings.Contains(e.Error(), c.why) {
				t.Errorf("got %v; want entry %q and %q", e, c.entry, c.why)
			}
		})
	}
}

func TestAttributes(t *testing.T) {
	t.Parallel()
	early, late := time.Date(1912, 6, 23, 1, 2, 3, 456_000_000, time.UTC), time.Date(2345, 6, 7, 8, 9, 10, 11, time.UTC)
	capability := "\x01\x00\x00\x02\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
	tree, _, err := merge(it.Tar(
		t,
		it.Entry{Type: tar.TypeXGlobalHeader, PAX: map[string]string{"comment": "x", "mtime": "1", "uid": "7"}},
		it.Entry{Name: "a", Mode: 0o4755, UID: 3_000_000, GID: math.MaxUint32, Mtime: early, Xattrs: map[string]string{
			"security.capability": capability, "user.overlay.origin": "", "trusted.overlay.opaque": "y", "user.empty": "", "user.x": "1", "system.posix_acl_access": "z",
		}},
		it.Entry{Name: "b/c", Mode: 0o100644, Mtime: late},
	))
	if err != nil {
		t.Fatal(err)
	}
	a, b, c := tree.Lookup("/a"), tree.Lookup("/b"), tree.Lookup("/b/c")
	if a.UID != 3_000_000 || a.GID != math.MaxUint32 || a.Mode != 0o104755 {
		t.Errorf("a is %d:%d %o", a.UID, a.GID, a.Mode)
	}
	if got := time.Unix(a.Sec, int64(a.Nsec)); !got.Equal(early) {
		t.Errorf("a is from %v, want %v", got, early)
	}
	if got := time.Unix(c.Sec, int64(c.Nsec)); !got.Equal(late) {
		t.Errorf("c is from %v, want %v", got, late)
	}
	if b.Mode != 0o040755 || b.UID != 0 || b.Sec != 0 || c.Mode != 0o100644 {
		t.Errorf("b is %o of %d, %d s; c is %o", b.Mode, b.UID, b.Sec, c.Mode)
	}
	got := map[string]string{}
	for name, value := range tree.Xattrs(tree.First(flatten.RootID)) {
		got[name] = string(value)
	}
	if d := cmp.Diff(map[string]string{"security.capability": capability, "user.empty": "", "user.x": "1"}, got); d != "" {
		t.Errorf("attributes:\n%s", d)
	}
	want := flatten.Report{
		Xattrs:       map[string]int64{"user.overlay.origin": 1, "trusted.overlay.opaque": 1, "system.posix_acl_access": 1},
		Names:        []string{`"a"`},
		Capabilities: 1, Setuid: 1, Implied: 1, Globals: 1,
	}
	if d := cmp.Diff(want, tree.Report); d != "" {
		t.Errorf("report:\n%s", d)
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	entries := it.Tar(t, it.File("a", strings.Repeat("x", 4000)), it.File("b/c/d", strings.Repeat("y", 4000)))
	for name, c := range map[string]struct {
		limits flatten.Limits
		limit  string
	}{
		"entries": {flatten.Limits{Entries: 3, Stream: 1 << 20, Logical: 1 << 20}, "entries"},
		"stream":  {flatten.Limits{Entries: 10, Stream: 4096, Logical: 1 << 20}, "bytes in its layers"},
		"logical": {flatten.Limits{Entries: 10, Stream: 1 << 20, Logical: 7999}, "the sizes of its files"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := flatten.Scan(bytes.NewReader(entries), 0, &memory{}, flatten.NewBudget(c.limits))
			var big *flatten.TooBigError
			if !errors.As(err, &big) || big.Limit != c.limit {
				t.Errorf("got %v, want the limit on %s", err, c.limit)
			}
			c.limits = flatten.Limits{Entries: 4, Stream: 1 << 20, Logical: 8000}
			if _, err := flatten.Scan(bytes.NewReader(entries), 0, &memory{}, flatten.NewBudget(c.limits)); err != nil {
				t.Errorf("what just fits is refused: %v", err)
			}
		})
	}
}

func TestTruncated(t *testing.T) {
	t.Parallel()
	whole := it.Tar(t, it.File("a", strings.Repeat("x", 4000)))
	for _, n := range []int{100, 512, 700, 3000} {
		if _, _, err := merge(whole[:n]); err == nil {
			t.Errorf("a tar cut after %d bytes was taken", n)
		}
	}
}

func TestResolve(t *testing.T) {
	t.Parallel()
	tree, _, err := merge(it.Tar(t, it.Dir("a"), it.Symlink("a/up", ".."), it.Symlink("p", "/proc"), it.Symlink("q", "a/up/p/self"), it.Symlink("l1", "l2"), it.Symlink("l2", "l1")))
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"/": "/", "/none/x": "/none/x", "/p/fd": "/proc/fd", "/q/../x": "/proc/x", "../../a/up/a": "/a", "/p": "/proc", "q": "/proc/self",
	} {
		if got := tree.Resolve(path); got != want {
			t.Errorf("Resolve(%q) = %q, want %q", path, got, want)
		}
	}
	if got := tree.Resolve("/l1"); got != "/l1" && got != "/l2" {
		t.Errorf("a loop resolves to %q", got)
	}
}
