package bundle

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/renameio/v2"

	"github.com/quavon/quavon/runner/image/signature"
)

// Content is where a bundle's members come from while it is written.
type Content interface {
	// Open opens a member.
	Open(name string) (io.ReadCloser, error)
}

// Sign signs a manifest by its digest, under the name Reference.
type Sign func(ctx context.Context, digest v1.Hash) (*signature.Bundle, error)

// Write makes a bundle at path, whole or not at all; the same manifest and key give
// the same bytes. Without sign it isn't signed.
func Write(ctx context.Context, path string, m *Manifest, c Content, sign Sign) (err error) {
	f, err := renameio.NewPendingFile(path, renameio.WithPermissions(0o644))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Cleanup()) }()
	w := bufio.NewWriterSize(f, 1<<20)
	if err := Encode(ctx, w, m, c, sign); err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return f.CloseAtomicallyReplace()
}

// Encode writes a bundle's bytes.
func Encode(ctx context.Context, w io.Writer, m *Manifest, c Content, sign Sign) error {
	if err := m.Check(); err != nil {
		return err
	}
	if err := writeHead(ctx, w, m, sign); err != nil {
		return err
	}
	for i := range m.Members {
		if err := writeMember(ctx, w, &m.Members[i], c); err != nil {
			return fmt.Errorf("%s: %w", m.Members[i].Name, err)
		}
	}
	_, err := w.Write(make([]byte, end))
	return err
}

func writeHead(ctx context.Context, w io.Writer, m *Manifest, sign Sign) error {
	raw, err := m.Encode()
	if err != nil {
		return err
	}
	if len(raw) > maxManifest {
		return fmt.Errorf("the manifest has more than %d bytes", maxManifest)
	}
	if err := writeBytes(w, ManifestName, raw); err != nil || sign == nil {
		return err
	}
	digest, _, err := v1.SHA256(bytes.NewReader(raw))
	if err != nil {
		return err
	}
	b, err := sign(ctx, digest)
	if err != nil {
		return err
	}
	signed, _, err := b.Encode()
	if err != nil {
		return err
	}
	return writeBytes(w, SignatureName, signed)
}

func writeBytes(w io.Writer, name string, raw []byte) error {
	head, err := header(name, int64(len(raw)))
	if err != nil {
		return err
	}
	for _, part := range [][]byte{head, raw, make([]byte, padding(int64(len(raw))))} {
		if _, err := w.Write(part); err != nil {
			return err
		}
	}
	return nil
}

// writeMember copies a member and makes sure that it is what the manifest says.
func writeMember(ctx context.Context, w io.Writer, m *Member, c Content) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	head, err := header(m.Name, m.Size)
	if err != nil {
		return err
	}
	if _, err := w.Write(head); err != nil {
		return err
	}
	r, err := c.Open(m.Name)
	if err != nil {
		return err
	}
	defer r.Close()
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(w, sum), io.LimitReader(r, m.Size+1))
	if err != nil {
		return err
	}
	if n != m.Size || hex.EncodeToString(sum.Sum(nil)) != m.SHA256 {
		return errors.New("it changed while the bundle was made")
	}
	_, err = w.Write(make([]byte, padding(m.Size)))
	return err
}
