package ext4

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/quavon/quavon/runner/image/imagetest"
)

// TestCollisionAcrossLeaves puts two names of the same hash at the end of one
// leaf and the start of the next; Linux must find both.
func TestCollisionAcrossLeaves(t *testing.T) {
	t.Parallel()
	const perLeaf = dirSpace / 16
	var o Options
	must(t, o.check())
	seed := newIdentity(&o).hashSeed
	byHash := map[uint32]string{}
	var first, second string
	for k := 0; second == ""; k++ {
		name := fmt.Sprintf("n%07d", k)
		major, _ := hashName([]byte(name), seed)
		if other, taken := byHash[major]; taken && major > 1<<30 {
			first, second = other, name
		}
		byHash[major] = name
	}
	pair, _ := hashName([]byte(first), seed)
	var below, above []string
	for major, name := range byHash {
		switch {
		case major < pair && len(below) < 3*perLeaf-1:
			below = append(below, name)
		case major > pair && len(above) < 3*perLeaf:
			above = append(above, name)
		}
	}
	entries := []imagetest.Entry{imagetest.Dir("d")}
	for _, name := range slices.Concat(below, above, []string{first, second}) {
		entries = append(entries, imagetest.File("d/"+name, name))
	}
	image, _ := build(t, o, layer(t, entries...))
	check(t, image)
	dir, unmount := mount(t, image, "ro")
	defer unmount()
	for _, e := range entries {
		var st unix.Stat_t
		must(t, unix.Stat(filepath.Join(dir, e.Name), &st))
	}
}

func TestIndexWidths(t *testing.T) {
	t.Parallel()
	for leaves, want := range map[int][]int{
		1:                                 {1},
		rootIndex:                         {1},
		rootIndex + 1:                     {1, 1},
		rootIndex * nodeIndex:             {1, rootIndex},
		rootIndex*nodeIndex + 1:           {1, 1, rootIndex + 1},
		rootIndex * nodeIndex * nodeIndex: {1, rootIndex, rootIndex * nodeIndex},
	} {
		if got := indexWidths(leaves); !slices.Equal(got, want) {
			t.Errorf("%d leaves: %v, want %v", leaves, got, want)
		}
	}
}

func TestHeads(t *testing.T) {
	t.Parallel()
	var got []int64
	for k := range int64(400) {
		if hasHead(k) {
			got = append(got, k)
		}
	}
	want := []int64{0, 1, 3, 5, 7, 9, 25, 27, 49, 81, 125, 243, 343}
	if !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
}

// TestDeepTree nests directories as deep as a layer may.
func TestDeepTree(t *testing.T) {
	t.Parallel()
	image, info := build(t, Options{}, layer(t, imagetest.Dir(strings.Repeat("d/", 8000))))
	check(t, image)
	if used := info.Inodes - info.FreeInodes; used != 8000+firstInode {
		t.Errorf("%d inodes", used)
	}
}
