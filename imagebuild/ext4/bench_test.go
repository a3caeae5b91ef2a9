package ext4

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/quavon/quavon/runner/image/imagetest"
)

// The benchmarks read the tar that QUAVON_BENCH_TAR names, or one of about
// 170 MB they make, and work in QUAVON_BENCH_DIR or /dev/shm.
func benchTar(b *testing.B) (tarball, dir string) {
	b.Helper()
	base := "/dev/shm"
	if d := os.Getenv("QUAVON_BENCH_DIR"); d != "" {
		base = d
	}
	dir, err := os.MkdirTemp(base, "ext4bench") //nolint:usetesting // memory, not the disk that TempDir may be on
	must(b, err)
	b.Cleanup(func() { must(b, os.RemoveAll(dir)) })
	if tarball = os.Getenv("QUAVON_BENCH_TAR"); tarball == "" {
		tarball = filepath.Join(dir, "tar")
		must(b, writeBenchTar(tarball))
	}
	return tarball, dir
}

// writeBenchTar makes files as many and as big as a base image has.
func writeBenchTar(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	w := tar.NewWriter(f)
	r := rand.New(rand.NewPCG(1, 2))
	data := make([]byte, 4<<20)
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	for k := range 8700 {
		size := int64(1) << (6 + r.IntN(11))
		if k%100 == 0 {
			size = r.Int64N(int64(len(data)))
		}
		if err := w.WriteHeader(&tar.Header{Name: fmt.Sprintf("d%d/e%d/f%d", k/400, k/20, k), Size: size, Mode: 0o644}); err != nil {
			return err
		}
		if _, err := w.Write(data[:size]); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	return f.Close()
}

func benchmark(b *testing.B, once func(tarball, dir string) error) {
	b.Helper()
	tarball, dir := benchTar(b)
	st, err := os.Stat(tarball)
	must(b, err)
	b.SetBytes(st.Size())
	for b.Loop() {
		must(b, once(tarball, dir))
		b.StopTimer()
		for _, name := range []string{"image", "tree"} {
			must(b, os.RemoveAll(filepath.Join(dir, name)))
		}
		runtime.GC()
		b.StartTimer()
	}
}

func BenchmarkExt4(b *testing.B) {
	benchmark(b, func(tarball, dir string) error {
		in, err := os.Open(tarball)
		if err != nil {
			return err
		}
		f, err := os.Create(filepath.Join(dir, "image"))
		if err != nil {
			return err
		}
		w, err := NewWriter(f, Options{})
		if err != nil {
			return err
		}
		tree := scan(b, w, in)
		if err := w.Prune(tree); err != nil {
			return err
		}
		if _, err := w.Finish(tree); err != nil {
			return err
		}
		return cmpErr(in.Close(), f.Close)
	})
}

// BenchmarkBound is the least there is to do: read the tar, write its data in
// blocks, leave out holes.
func BenchmarkBound(b *testing.B) {
	benchmark(b, func(tarball, dir string) error {
		in, err := os.Open(tarball)
		if err != nil {
			return err
		}
		f, err := os.Create(filepath.Join(dir, "image"))
		if err != nil {
			return err
		}
		if err := copyAligned(tar.NewReader(in), f); err != nil {
			return err
		}
		return cmpErr(in.Close(), f.Close)
	})
}

func copyAligned(r *tar.Reader, f *os.File) error {
	buf, n, at := make([]byte, 1<<20), 0, int64(0)
	flush := func() error {
		_, err := f.WriteAt(buf[:n], at)
		at += int64(n)
		n = 0
		return err
	}
	for {
		h, err := r.Next()
		if err == io.EOF {
			return flush()
		}
		if err != nil {
			return err
		}
		for left := h.Size; left > 0 && h.Typeflag == tar.TypeReg; {
			k := int(min(left, int64(len(buf)-n)))
			if _, err := io.ReadFull(r, buf[n:n+k]); err != nil {
				return err
			}
			left -= int64(k)
			end := (n + k + BlockSize - 1) &^ (BlockSize - 1)
			clear(buf[n+k : end])
			if zero := isHole(buf[n:end]); zero || end == len(buf) {
				skip := 0
				if zero {
					skip, end = end-n, n
				}
				n = end
				if err := flush(); err != nil {
					return err
				}
				at += int64(skip)
				continue
			}
			n = end
		}
	}
}

func isHole(p []byte) bool {
	return len(p) >= windowSize && bytes.Equal(p[:64], zeros[:64]) && len(bytes.TrimLeft(p, "\x00")) == 0
}

func BenchmarkUntarMke2fs(b *testing.B) {
	imagetest.NeedTool(b, "mke2fs")
	benchmark(b, func(tarball, dir string) error {
		tree, image := filepath.Join(dir, "tree"), filepath.Join(dir, "image")
		if err := os.Mkdir(tree, 0o755); err != nil {
			return err
		}
		if out, err := exec.Command("tar", "-xpf", tarball, "-C", tree).CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		st, err := os.Stat(tarball)
		if err != nil {
			return err
		}
		size := fmt.Sprintf("%dM", st.Size()*3/2>>20+64)
		out, err := exec.Command("mke2fs", "-q", "-t", "ext4", "-d", tree, image, size).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
}
