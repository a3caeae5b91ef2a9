package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"

	"golang.org/x/sync/errgroup"
)

// hashChunk is the unit of a tree hash, in bytes.
const hashChunk = 1 << 20

// treeHash is sha256 over the sha256 of each MiB of a file. The pieces can be
// hashed in any order: while a root is written, and by all processors when it is
// checked.
type treeHash struct {
	sums  [][sha256.Size]byte
	known []bool
}

// chunk notes content that was written at an offset; only whole chunks count.
func (h *treeHash) chunk(at int64, b []byte) {
	if at%hashChunk != 0 || len(b) != hashChunk {
		return
	}
	i := int(at / hashChunk)
	h.grow(i + 1)
	h.sums[i], h.known[i] = sha256.Sum256(b), true
}

// forget notes that content has changed again.
func (h *treeHash) forget(off, size int64) {
	for i := off / hashChunk; i*hashChunk < off+size && i < int64(len(h.known)); i++ {
		h.known[i] = false
	}
}

func (h *treeHash) grow(n int) {
	for len(h.sums) < n {
		h.sums, h.known = append(h.sums, [sha256.Size]byte{}), append(h.known, false)
	}
}

// finish reads what isn't known yet and returns the hash in hexadecimal.
func (h *treeHash) finish(ctx context.Context, f *os.File) (string, error) {
	st, err := f.Stat()
	if err != nil {
		return "", err
	}
	n := int((st.Size() + hashChunk - 1) / hashChunk)
	h.grow(n)
	h.sums, h.known = h.sums[:n], h.known[:n]
	if err := h.read(ctx, f, st.Size()); err != nil {
		return "", fmt.Errorf("hash %s: %w", f.Name(), err)
	}
	all := sha256.New()
	for i := range h.sums {
		all.Write(h.sums[i][:])
	}
	return hex.EncodeToString(all.Sum(nil)), nil
}

// read hashes the unknown chunks of a file, a few at a time.
func (h *treeHash) read(ctx context.Context, f *os.File, size int64) error {
	group, ctx := errgroup.WithContext(ctx)
	workers := min(8, runtime.GOMAXPROCS(0))
	for w := range workers {
		group.Go(func() error {
			var buf []byte
			for i := w; i < len(h.sums); i += workers {
				if h.known[i] {
					continue
				}
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
				if buf == nil {
					buf = make([]byte, hashChunk)
				}
				at := int64(i) * hashChunk
				b := buf[:min(hashChunk, size-at)]
				if _, err := f.ReadAt(b, at); err != nil && !errors.Is(err, io.EOF) {
					return err
				}
				h.sums[i] = sha256.Sum256(b)
			}
			return nil
		})
	}
	return group.Wait()
}
