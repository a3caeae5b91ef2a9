package ext4

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quavon/quavon/runner/image/flatten"
	"github.com/quavon/quavon/runner/image/imagetest"
)

// FuzzImage writes two hostile layers. What is accepted is an image that e2fsck has
// nothing to say about, and the same one when it is written again.
func FuzzImage(f *testing.F) {
	dir, file, link := imagetest.Dir, imagetest.File, imagetest.Link
	sym, long := imagetest.Symlink, strings.Repeat("long/", 60)
	xattrs := map[string]string{"user.a": "1", "security.capability": "2", "user.big": strings.Repeat("v", 5000)}
	for _, seed := range [][2][]imagetest.Entry{
		{{file("t2", "1"), dir("d"), file("d/x", strings.Repeat("\x00", 9000)+"2")}, {link("t1", "t2"), file("d/.wh..wh..opq", ""), file(".wh.t2", "")}},
		{{dir("./"), sym("x", "/etc"), file("y/z", "")}, {file("x/p", "1"), sym("y", strings.Repeat("l", 2000))}},
		{{{Name: "a", Xattrs: xattrs, UID: 1 << 31, Mode: 0o7777}}, {{Type: '6', Name: "a"}, {Type: '3', Name: "dev/c"}}},
		{{file(long+"f", "1")}, {file(long+".wh.f", ""), dir("lost+found"), file("lost+found/x", "")}},
	} {
		f.Add(imagetest.Tar(f, seed[0]...), imagetest.Tar(f, seed[1]...))
	}
	f.Fuzz(func(t *testing.T, a, b []byte) {
		if len(a)+len(b) > 64<<10 {
			return
		}
		fixSums(a)
		fixSums(b)
		first, ok := writeHostile(t, a, b)
		if !ok {
			return
		}
		check(t, first)
		if second, _ := writeHostile(t, a, b); sum(t, first) != sum(t, second) {
			t.Error("other bytes the second time")
		}
	})
}

// writeHostile says whether the layers are an image that ext4 holds.
func writeHostile(t *testing.T, layers ...[]byte) (string, bool) {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "image"))
	must(t, err)
	defer func() { must(t, f.Close()) }()
	w, err := NewWriter(f, Options{MaxSize: 1 << 30})
	must(t, err)
	budget := flatten.NewBudget(flatten.Limits{Entries: 10_000, Stream: 1 << 24, Logical: 1 << 24, Written: 1 << 24})
	tree := flatten.NewTree()
	for i, l := range layers {
		upper, err := flatten.Scan(bytes.NewReader(l), i, w, budget)
		if err == nil {
			err = tree.Merge(upper)
		}
		if err != nil {
			return "", false
		}
	}
	tree.Finish()
	must(t, w.Prune(tree))
	if _, err := w.Finish(tree); err != nil {
		if len(err.Error()) > 2000 {
			t.Errorf("an error of %d bytes", len(err.Error()))
		}
		return "", false
	}
	return f.Name(), true
}

// fixSums lets mutated headers pass the one check that would stop nearly all.
func fixSums(b []byte) {
	for ; len(b) >= 512; b = b[512:] {
		h := b[:512]
		if string(h[257:262]) != "ustar" {
			continue
		}
		copy(h[148:156], "        ")
		sum := 0
		for _, c := range h {
			sum += int(c)
		}
		copy(h[148:156], fmt.Sprintf("%06o\x00 ", sum))
	}
}
