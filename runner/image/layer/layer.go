// Package layer opens an image's layers: it checks that a blob is what its
// descriptor says, decompresses it, and checks the diff ID of what comes out.
// Fetching, decompressing and reading run side by side, with bounded memory.
package layer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// DigestError is content that isn't what a digest or a size promised.
type DigestError struct {
	// Kind of the content: "layer", "diff ID", "manifest", "config", ….
	Kind      string
	Want, Got string
}

func (e *DigestError) Error() string {
	return fmt.Sprintf("%s: want %s, got %s", e.Kind, e.Want, e.Got)
}

// Digest is sha256 over b, as in a descriptor.
func Digest(b []byte) v1.Hash {
	sum := sha256.Sum256(b)
	return v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(sum[:])}
}

// Check compares content with its digest.
func Check(kind string, b []byte, want v1.Hash) error {
	if got := Digest(b); got != want {
		return &DigestError{kind, want.String(), got.String()}
	}
	return nil
}

// Reader reads a layer's plain tar. It returns io.EOF only once everything has
// been read and every digest is right.
type Reader struct {
	r io.Reader
	// packed is the blob, when it is not r itself.
	packed io.Reader
	close  []func() error
}

// Open reads the layer that d describes from blob and takes blob over. An empty
// media type means that the first bytes decide, as in a docker-archive; an empty
// digest means that only the diff ID is known.
func Open(ctx context.Context, blob io.ReadCloser, d v1.Descriptor, diffID v1.Hash) (*Reader, error) {
	l := &Reader{close: []func() error{blob.Close}}
	packed := newAhead(ctx, verify(blob, "layer "+d.Digest.String(), d.Digest, d.Size))
	l.close = append(l.close, packed.Close)
	plain, err := decompress(packed, d)
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	if plain == nil { // not compressed
		if d.Digest == diffID {
			l.r = packed
		} else {
			l.r = verify(packed, "diff ID of layer "+d.Digest.String(), diffID, -1)
		}
		return l, nil
	}
	unpacked := newAhead(ctx, plain)
	l.close = append(l.close, unpacked.Close)
	l.r = verify(unpacked, "diff ID of layer "+d.Digest.String(), diffID, -1)
	l.packed = packed
	return l, nil
}

func (l *Reader) Read(p []byte) (int, error) {
	n, err := l.r.Read(p)
	if err == io.EOF && l.packed != nil {
		// A decompressor may stop short of the blob's end, and of its digest.
		if _, bad := io.Copy(io.Discard, l.packed); bad != nil {
			return n, bad
		}
	}
	return n, err
}

// Close ends all that Open started.
func (l *Reader) Close() error {
	var errs []error
	for _, f := range l.close {
		errs = append(errs, f())
	}
	return errors.Join(errs...)
}

// verify checks size bytes, or any number when negative, against a digest; an
// empty digest is only counted.
func verify(r io.Reader, kind string, want v1.Hash, size int64) io.Reader {
	return &verifier{r: r, kind: kind, want: want, size: size, sum: sha256.New()}
}

type verifier struct {
	r    io.Reader
	kind string
	want v1.Hash
	size int64
	read int64
	sum  hash.Hash
}

func (v *verifier) Read(p []byte) (int, error) {
	n, err := v.r.Read(p)
	v.read += int64(n)
	if v.size >= 0 && v.read > v.size {
		return 0, &DigestError{v.kind, fmt.Sprintf("%d bytes", v.size), "more"}
	}
	if v.want != (v1.Hash{}) {
		v.sum.Write(p[:n])
	}
	if err == io.EOF {
		if bad := v.end(); bad != nil {
			return n, bad
		}
	}
	return n, err
}

func (v *verifier) end() error {
	if v.size >= 0 && v.read != v.size {
		return &DigestError{v.kind, fmt.Sprintf("%d bytes", v.size), fmt.Sprintf("%d", v.read)}
	}
	if v.want == (v1.Hash{}) {
		return nil
	}
	if got := hex.EncodeToString(v.sum.Sum(nil)); got != v.want.Hex {
		return &DigestError{v.kind, v.want.String(), "sha256:" + got}
	}
	return nil
}
