package main

import (
	"archive/tar"
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"

	"github.com/quavon/quavon/imagebuild/ext4"
	"github.com/quavon/quavon/runner/image/flatten"
)

// child does one thing that is measured as a process.
func child(what string, args []string) error {
	switch what {
	case "gunzip":
		return unpack(args[0])
	case "big":
		return writeBig(args[0])
	case "ext4", "bound":
		in, err := os.Open(args[0])
		if err != nil {
			return err
		}
		defer in.Close()
		out, err := os.Create(args[1])
		if err != nil {
			return err
		}
		if what == "ext4" {
			err = writeExt4(in, out)
		} else {
			err = (&aligned{f: out, buf: make([]byte, 1<<20)}).copy(tar.NewReader(in))
		}
		return errors.Join(err, out.Close())
	}
	return fmt.Errorf("no such arm: %s", what)
}

func writeExt4(in io.Reader, out *os.File) error {
	w, err := ext4.NewWriter(out, ext4.Options{})
	if err != nil {
		return err
	}
	layer, err := flatten.Scan(in, 0, w, flatten.NewBudget(flatten.DefaultLimits))
	if err != nil {
		return err
	}
	tree := flatten.NewTree()
	if err := tree.Merge(layer); err != nil {
		return err
	}
	tree.Finish()
	if err := w.Prune(tree); err != nil {
		return err
	}
	_, err = w.Finish(tree)
	return err
}

// aligned is the least there is to do: it writes a tar's data in blocks, and leaves
// out holes.
type aligned struct {
	f   *os.File
	buf []byte
	n   int
	at  int64
}

const (
	block = 4 << 10
	hole  = 64 << 10
)

func (a *aligned) copy(r *tar.Reader) error {
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return a.flush()
		}
		if err != nil {
			return err
		}
		if h.Typeflag == tar.TypeReg {
			if err := a.file(r, h.Size); err != nil {
				return err
			}
		}
	}
}

func (a *aligned) file(r io.Reader, left int64) error {
	for left > 0 {
		if len(a.buf)-a.n < hole {
			if err := a.flush(); err != nil {
				return err
			}
		}
		piece := a.buf[a.n : a.n+int(min(left, hole))]
		if _, err := io.ReadFull(r, piece); err != nil {
			return err
		}
		left -= int64(len(piece))
		if len(piece) == hole && bytes.Equal(piece[:64], zeros[:64]) && bytes.Equal(piece, zeros[:]) {
			if err := a.flush(); err != nil {
				return err
			}
			a.at += hole
			continue
		}
		end := (a.n + len(piece) + block - 1) &^ (block - 1)
		clear(a.buf[a.n+len(piece) : end])
		a.n = end
	}
	return nil
}

var zeros [hole]byte

func (a *aligned) flush() error {
	_, err := a.f.WriteAt(a.buf[:a.n], a.at)
	a.at, a.n = a.at+int64(a.n), 0
	return err
}

// writeBig makes a tar of bigFiles files whose sizes spread as those of source trees
// and packages do, with a big one now and then.
func writeBig(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	buf := bufio.NewWriterSize(f, 1<<20)
	w := tar.NewWriter(buf)
	r := rand.New(rand.NewPCG(3, 6)) //nolint:gosec // the same tar every time
	noise := make([]byte, 64<<20)
	for i := range noise {
		noise[i] = byte(r.Uint32())
	}
	for k := range bigFiles {
		size := min(int(math.Exp(8.3+1.6*r.NormFloat64())), len(noise)/2)
		if k%1000 == 0 {
			size = r.IntN(len(noise) / 2)
		}
		h := &tar.Header{Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(size)}
		h.Name = fmt.Sprintf("usr/lib/dir%d/sub%d/some-file-name-%d.js", k/5000, k/100, k)
		if err := w.WriteHeader(h); err != nil {
			return err
		}
		from := r.IntN(len(noise) - size)
		if _, err := w.Write(noise[from : from+size]); err != nil {
			return err
		}
	}
	return errors.Join(w.Close(), buf.Flush(), f.Close())
}
