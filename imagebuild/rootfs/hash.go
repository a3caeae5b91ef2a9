package rootfs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"

	"golang.org/x/sync/errgroup"
)

const (
	hashChunk  = 512 << 10
	hashChunks = 4
)

// hash is a file's sha256, in hexadecimal. One processor reads while another adds up.
func hash(ctx context.Context, f *os.File) (string, error) {
	group, ctx := errgroup.WithContext(ctx)
	full, free := make(chan []byte, hashChunks), make(chan []byte, hashChunks)
	for range hashChunks {
		free <- make([]byte, hashChunk)
	}
	group.Go(func() error {
		defer close(full)
		return read(ctx, f, full, free)
	})
	h := sha256.New()
	for b := range full {
		h.Write(b)
		free <- b[:hashChunk]
	}
	return hex.EncodeToString(h.Sum(nil)), group.Wait()
}

// read sends the file's content, holes too, in buffers that come back.
func read(ctx context.Context, f *os.File, full chan<- []byte, free <-chan []byte) error {
	for at := int64(0); ; {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		b := <-free
		n, err := f.ReadAt(b, at)
		at += int64(n)
		if n > 0 {
			full <- b[:n]
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
