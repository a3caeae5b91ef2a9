package files

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"
)

// What a run moves: many small files, or one large one.
var loads = []struct {
	name     string
	n, bytes int
}{{"small", 2000, 4 << 10}, {"large", 1, 128 << 20}}

func BenchmarkPut(b *testing.B) {
	for _, l := range loads {
		b.Run(l.name, func(b *testing.B) {
			in := load(b, l.n, l.bytes).Bytes()
			b.SetBytes(int64(len(in)))
			for b.Loop() {
				must(b, Put(b.TempDir(), 1, 1, bytes.NewReader(in), plenty))
			}
		})
	}
}

func BenchmarkGet(b *testing.B) {
	for _, l := range loads {
		b.Run(l.name, func(b *testing.B) {
			dir := b.TempDir()
			in := load(b, l.n, l.bytes)
			b.SetBytes(int64(in.Len()))
			must(b, Put(dir, 1, 1, in, plenty))
			for b.Loop() {
				must(b, Get(dir, nil, io.Discard, plenty))
			}
		})
	}
}

// BenchmarkDiff changes 2,000 of 20,000 files, with and without their content.
func BenchmarkDiff(b *testing.B) {
	o := mount(b, func(dir string) { must(b, Put(dir, 1, 1, load(b, 20000, 4<<10), plenty)) })
	for i := 0; i < 20000; i += 10 {
		write(b, fmt.Sprintf("%s/%d/%d", o.Target, i/100, i), "changed")
	}
	for _, content := range []bool{false, true} {
		b.Run(fmt.Sprint("content=", content), func(b *testing.B) {
			for b.Loop() {
				must(b, Diff(o, content, io.Discard, plenty))
			}
		})
	}
}

// load is a stream of n files, a hundred in each directory.
func load(b *testing.B, n, bytes int) *bytes.Buffer {
	b.Helper()
	var list []record
	for i := range n {
		list = append(list, file(fmt.Sprintf("%d/%d", i/100, i), strings.Repeat("x", bytes), 0o644))
	}
	return stream(b, list...)
}
