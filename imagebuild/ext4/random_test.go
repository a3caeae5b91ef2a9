package ext4

import (
	"archive/tar"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/quavon/quavon/runner/image/imagetest"
)

// generator makes one layer that uses all an image can have.
type generator struct {
	*rand.Rand
	out   []imagetest.Entry
	files []string
	count int
}

func randomLayer(r *rand.Rand) []imagetest.Entry {
	g := &generator{Rand: r}
	g.out = append(g.out, g.attrs(imagetest.Dir("./")))
	g.dir("", 0)
	return g.out
}

func (g *generator) dir(dir string, depth int) {
	n := g.IntN(12)
	if g.IntN(15) == 0 {
		n = g.IntN(900) // directories with an index
	}
	for range n {
		if g.count > 1500 {
			return
		}
		g.entry(dir+g.name(), depth)
	}
}

// name is unique, so that no entry replaces another.
func (g *generator) name() string {
	g.count++
	s := fmt.Sprint(g.count)
	switch g.IntN(6) {
	case 0:
		return s + strings.Repeat("n", g.IntN(256-len(s)))
	case 1:
		return s + "\xff\xfe\x80" + strings.Repeat("\xe9", g.IntN(40))
	case 2:
		return strings.Repeat("ü", g.IntN(30)) + s
	}
	return s
}

func (g *generator) entry(name string, depth int) {
	switch k := g.IntN(16); {
	case k == 0:
		g.out = append(g.out, g.attrs(imagetest.Symlink(name, strings.Repeat("l", 1+g.IntN(4095)))))
	case k == 1:
		g.out = append(g.out, g.attrs(imagetest.Symlink(name, strings.Repeat("l", 55+g.IntN(10)))))
	case k == 2:
		g.out = append(g.out, g.attrs(imagetest.Entry{Type: tar.TypeFifo, Name: name}))
	case k == 3 && len(g.files) > 0:
		g.out = append(g.out, imagetest.Link(name, g.files[g.IntN(len(g.files))]))
	case k < 7 && depth < 5:
		g.out = append(g.out, g.attrs(imagetest.Dir(name)))
		g.dir(name+"/", depth+1)
	default:
		g.files = append(g.files, name)
		g.out = append(g.out, g.attrs(imagetest.File(name, g.body())))
	}
}

// body has holes at any block, sizes around the borders of blocks and windows.
func (g *generator) body() string {
	var s strings.Builder
	switch g.IntN(8) {
	case 0:
		return ""
	case 1:
		for range g.IntN(12) {
			s.WriteString(strings.Repeat("\x00", BlockSize*g.IntN(20)))
			s.WriteString(strings.Repeat("d", BlockSize*g.IntN(4)))
		}
	case 2:
		s.WriteString(strings.Repeat("\x00", g.IntN(3*windowSize)))
	case 3:
		return strings.Repeat("w", windowSize*g.IntN(3)+g.IntN(3))
	}
	return s.String() + strings.Repeat("e", g.IntN(9000))
}

func (g *generator) attrs(e imagetest.Entry) imagetest.Entry {
	ids := []int{0, 1, 1000, 65535, 65536, 3_000_000, 1<<32 - 2}
	e.UID, e.GID = ids[g.IntN(len(ids))], ids[g.IntN(len(ids))]
	e.Mtime = time.Unix(g.second(), g.Int64N(1e9))
	if e.Type != tar.TypeSymlink {
		e.Mode = g.Int64N(0o10000)
	}
	if e.Type == tar.TypeReg || e.Type == tar.TypeDir {
		e.Xattrs = g.xattrs(e.Type)
	}
	return e
}

// second is any that ext4 holds and e2fsck believes: it takes those with a sign
// and all epoch bits, 2310 to 2378, for a mistake of old kernels.
func (g *generator) second() int64 {
	for {
		s := minTime + g.Int64N(maxTime-minTime+1)
		if s < 3<<32-1<<31 || s >= 3<<32 {
			return s
		}
	}
}

// xattrs are none, or sets that fit an inode, a block, or neither.
func (g *generator) xattrs(typ byte) map[string]string {
	x := map[string]string{}
	longest := []int{0, 0, 20, 200, 3000, 12000}[g.IntN(6)]
	if longest == 0 {
		return x
	}
	for range 1 + g.IntN(4) {
		name := "user." + strings.Repeat(string(rune('a'+g.IntN(26))), 1+g.IntN(20))
		x[name] = strings.Repeat("v", g.IntN(longest))
	}
	if typ == tar.TypeReg && g.IntN(3) == 0 {
		x["security.capability"] = "\x01\x00\x00\x02\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
	}
	return x
}

func TestRandomTrees(t *testing.T) {
	imagetest.NeedMount(t)
	seeds := uint64(12)
	if heavy() {
		seeds = 400
	}
	for seed := range seeds {
		entries := randomLayer(rand.New(rand.NewPCG(seed, 4)))
		o := Options{Identity: fmt.Sprint(seed), Free: int64(seed%3) << 22, ResizeInode: seed%2 == 0}
		if seed%5 == 0 {
			o.Journal = MinJournal
		}
		image, _ := build(t, o, layer(t, entries...))
		check(t, image)
		same(t, image, expect(t, entries))
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func TestLayersAsOverlayfs(t *testing.T) {
	imagetest.NeedMount(t)
	for seed := range uint64(10) {
		layers := imagetest.Random(rand.New(rand.NewPCG(seed, 5)), 3)
		var tars []io.Reader
		for _, l := range layers {
			tars = append(tars, layer(t, l...))
		}
		image, _ := build(t, Options{Identity: "overlay"}, tars...)
		check(t, image)
		same(t, image, imagetest.List(t, imagetest.Overlay(t, layers...), true))
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}
