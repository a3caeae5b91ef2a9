package imagetest

import (
	"archive/tar"
	"fmt"
	"math/rand/v2"
	"path"
	"strings"
	"time"
)

// Random makes layers that use every kind of entry, from a small set of names so
// that layers meet. Each layer is one overlayfs can show too.
func Random(r *rand.Rand, layers int) [][]Entry {
	var all [][]Entry
	for range layers {
		g := &generator{r: r, used: map[string]bool{}}
		g.add(g.attrs(Dir("./")))
		g.dir("", 0)
		all = append(all, g.out)
	}
	return all
}

type generator struct {
	r     *rand.Rand
	used  map[string]bool
	files []string
	out   []Entry
}

func (g *generator) add(e Entry) { g.out = append(g.out, e) }

func (g *generator) dir(dir string, depth int) {
	for range g.r.IntN(7) {
		name := path.Join(dir, g.name())
		if g.used[name] {
			continue
		}
		g.used[name] = true
		g.entry(name, depth)
	}
	if depth > 0 && g.r.IntN(8) == 0 {
		g.add(File(path.Join(dir, ".wh..wh..opq"), ""))
	}
}

func (g *generator) name() string {
	switch g.r.IntN(20) {
	case 0:
		return strings.Repeat("n", 1+g.r.IntN(251)) // a whiteout of it must fit, too
	case 1:
		return "n\xff\xfe"
	case 2:
		return "-" + string(rune('a'+g.r.IntN(3)))
	}
	return string(rune('a' + g.r.IntN(8)))
}

func (g *generator) entry(name string, depth int) {
	switch g.r.IntN(12) {
	case 0:
		g.add(g.attrs(Symlink(name, strings.Repeat("x/", g.r.IntN(2000))+"y")))
	case 1:
		g.add(g.attrs(Entry{Type: tar.TypeFifo, Name: name}))
	case 2:
		g.add(g.attrs(Entry{Type: tar.TypeChar, Name: name, Major: 1, Minor: 3}))
	case 3, 4:
		g.add(File(path.Join(path.Dir(name), ".wh."+path.Base(name)), ""))
	case 5:
		if len(g.files) > 0 {
			g.add(Link(name, g.files[g.r.IntN(len(g.files))]))
			return
		}
		fallthrough
	case 6, 7:
		g.files = append(g.files, name)
		g.add(g.attrs(File(name, g.body())))
	default:
		if g.r.IntN(6) == 0 { // what is below is hidden, the directory stays
			g.add(g.attrs(Dir(name)))
			g.add(File(path.Join(name, ".wh..wh..opq"), ""))
		} else {
			g.add(g.attrs(Dir(name)))
		}
		if depth < 4 {
			g.dir(name, depth+1)
		}
	}
}

func (g *generator) body() string {
	switch g.r.IntN(6) {
	case 0:
		return ""
	case 1:
		return strings.Repeat("b", 4096*(1+g.r.IntN(3)))
	case 2:
		return strings.Repeat("\x00", g.r.IntN(300<<10)) + "end"
	}
	return fmt.Sprintf("%d", g.r.Int64N(1<<40))
}

func (g *generator) attrs(e Entry) Entry {
	e.UID, e.GID = g.id(), g.id()
	e.Mtime = time.Unix(g.r.Int64N(4_000_000_000)-500_000_000, g.r.Int64N(1_000_000_000))
	if e.Type != tar.TypeSymlink {
		e.Mode = g.r.Int64N(0o10000)
	}
	if e.Type == tar.TypeReg || e.Type == tar.TypeDir {
		e.Xattrs = g.xattrs(e.Type)
	}
	return e
}

func (g *generator) id() int {
	return []int{0, 1, 1000, 65534, 65535, 3_000_000, 1<<32 - 2}[g.r.IntN(7)]
}

func (g *generator) xattrs(typ byte) map[string]string {
	x := map[string]string{}
	if g.r.IntN(3) == 0 {
		x["user."+string(rune('a'+g.r.IntN(3)))] = strings.Repeat("v", g.r.IntN(300))
	}
	if typ == tar.TypeReg && g.r.IntN(6) == 0 {
		x["security.capability"] = "\x01\x00\x00\x02\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
	}
	return x
}
