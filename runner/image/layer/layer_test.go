package layer_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/zstd"

	it "github.com/quavon/quavon/runner/image/imagetest"
	"github.com/quavon/quavon/runner/image/layer"
	"github.com/quavon/quavon/test/leak"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

// read opens a blob as d says and reads it to its end.
func read(b []byte, d v1.Descriptor, diffID v1.Hash) ([]byte, error) {
	r, err := layer.Open(context.Background(), io.NopCloser(bytes.NewReader(b)), d, diffID)
	if err != nil {
		return nil, err
	}
	out, err := io.ReadAll(r)
	return out, errors.Join(err, r.Close())
}

func descriptor(b it.Blob) v1.Descriptor {
	return v1.Descriptor{MediaType: b.Type, Size: int64(len(b.Packed)), Digest: layer.Digest(b.Packed)}
}

func noise(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{}).Read(b) // never fails
	return b
}

func TestOpen(t *testing.T) {
	body := it.Tar(t, it.File("a", string(noise(3<<20))))
	docker := func(b it.Blob, typ types.MediaType) it.Blob { b.Type = typ; return b }
	for name, b := range map[string]it.Blob{
		"plain":              it.Plain(body),
		"gzip":               it.Gzip(t, body),
		"zstd":               it.Zstd(t, body),
		"docker plain":       docker(it.Plain(body), types.DockerUncompressedLayer),
		"docker gzip":        docker(it.Gzip(t, body), types.DockerLayer),
		"docker zstd":        docker(it.Zstd(t, body), "application/vnd.docker.image.rootfs.diff.tar.zstd"),
		"no type, plain":     docker(it.Plain(body), ""),
		"no type, gzip":      docker(it.Gzip(t, body), ""),
		"no type, zstd":      docker(it.Zstd(t, body), ""),
		"empty":              it.Plain(nil),
		"empty gzip":         it.Gzip(t, nil),
		"several gzip parts": {Type: types.OCILayer, Plain: append(bytes.Clone(body), body...), Packed: append(it.Gzip(t, body).Packed, it.Gzip(t, body).Packed...)},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := read(b.Packed, descriptor(b), layer.Digest(b.Plain))
			if err != nil || !bytes.Equal(got, b.Plain) {
				t.Fatalf("got %d bytes of %d, %v", len(got), len(b.Plain), err)
			}
			if _, err := read(b.Packed, v1.Descriptor{MediaType: b.Type, Size: -1}, layer.Digest(b.Plain)); err != nil {
				t.Errorf("with only the diff ID: %v", err)
			}
		})
	}
}

func TestNotWhatItSays(t *testing.T) {
	body := it.Tar(t, it.File("a", string(noise(1<<20))))
	other := layer.Digest([]byte("other"))
	for _, b := range []it.Blob{it.Plain(body), it.Gzip(t, body), it.Zstd(t, body)} {
		for name, c := range map[string]struct {
			change func(b []byte, d *v1.Descriptor, diffID *v1.Hash) []byte
		}{
			"digest":         {func(b []byte, d *v1.Descriptor, _ *v1.Hash) []byte { d.Digest = other; return b }},
			"IM-14 diff ID":  {func(b []byte, _ *v1.Descriptor, id *v1.Hash) []byte { *id = other; return b }},
			"longer":         {func(b []byte, _ *v1.Descriptor, _ *v1.Hash) []byte { return append(bytes.Clone(b), 0) }},
			"shorter":        {func(b []byte, _ *v1.Descriptor, _ *v1.Hash) []byte { return b[:len(b)-1] }},
			"size too big":   {func(b []byte, d *v1.Descriptor, _ *v1.Hash) []byte { d.Size++; return b }},
			"size too small": {func(b []byte, d *v1.Descriptor, _ *v1.Hash) []byte { d.Size--; return b }},
			"one bit":        {func(b []byte, _ *v1.Descriptor, _ *v1.Hash) []byte { b = bytes.Clone(b); b[len(b)/2] ^= 1; return b }},
			"something behind": {func(b []byte, d *v1.Descriptor, _ *v1.Hash) []byte {
				b = append(bytes.Clone(b), "junk"...)
				d.Size = int64(len(b))
				return b
			}},
		} {
			t.Run(string(b.Type)+" "+name, func(t *testing.T) {
				d, id := descriptor(b), layer.Digest(b.Plain)
				raw := c.change(b.Packed, &d, &id)
				if _, err := read(raw, d, id); err == nil {
					t.Error("it was taken")
				}
			})
		}
	}
}

func TestMediaTypes(t *testing.T) {
	body := it.Tar(t, it.File("a", "1"))
	gz, zs, plain := it.Gzip(t, body), it.Zstd(t, body), it.Plain(body)
	for name, c := range map[string]struct {
		blob it.Blob
		typ  types.MediaType
		want string
	}{
		"IM-12 zstd fed to gzip":   {zs, types.OCILayer, "its content is zstd"},
		"IM-12 plain fed to gzip":  {plain, types.OCILayer, "its content is uncompressed"},
		"IM-12 gzip fed to plain":  {gz, types.OCIUncompressedLayer, "its content is gzip"},
		"IM-12 gzip fed to zstd":   {gz, types.OCILayerZStd, "its content is gzip"},
		"IM-12 unknown type":       {gz, "application/vnd.oci.image.layer.v1.tar+foo", "unknown"},
		"IM-12 encrypted":          {gz, "application/vnd.oci.image.layer.v1.tar+gzip+encrypted", "unknown"},
		"IM-12 xz":                 {it.Blob{Packed: []byte("\xfd7zXZ\x00rest")}, "", "its content is xz"},
		"IM-12 bzip2":              {it.Blob{Packed: []byte("BZh91AY")}, "", "its content is bzip2"},
		"IM-25 nondistributable":   {gz, "application/vnd.oci.image.layer.nondistributable.v1.tar+gzip", "outside the registry"},
		"IM-25 foreign":            {gz, types.DockerForeignLayer, "outside the registry"},
		"an attestation's content": {plain, "application/vnd.in-toto+json", "unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			d := v1.Descriptor{MediaType: c.typ, Size: int64(len(c.blob.Packed)), Digest: layer.Digest(c.blob.Packed)}
			_, err := read(c.blob.Packed, d, layer.Digest(body))
			var e *layer.MediaTypeError
			if !errors.As(err, &e) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), d.Digest.String()) {
				t.Errorf("got %v; want %q, type and digest", err, c.want)
			}
		})
	}
}

// TestZstdWindow takes the largest window that every decoder must, and no larger.
func TestZstdWindow(t *testing.T) {
	body := it.Tar(t, it.File("a", string(noise(9<<20))))
	for window, ok := range map[int]bool{8 << 20: true, 16 << 20: false} {
		w, err := zstd.NewWriter(nil, zstd.WithWindowSize(window))
		if err != nil {
			t.Fatal(err)
		}
		var packed bytes.Buffer
		w.Reset(&packed) // a stream: EncodeAll would shrink the window to the content
		if _, err := io.Copy(w, bytes.NewReader(body)); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		b := it.Blob{Type: types.OCILayerZStd, Plain: body, Packed: packed.Bytes()}
		_, err = read(b.Packed, descriptor(b), layer.Digest(body))
		if ok != (err == nil) || !ok && !strings.Contains(err.Error(), "at most 8 MiB") {
			t.Errorf("window of %d MiB: %v", window>>20, err)
		}
	}
}

// TestCloseEarly leaves no goroutine, whatever is still to read.
func TestCloseEarly(t *testing.T) {
	body := it.Tar(t, it.File("a", string(noise(8<<20))))
	for _, b := range []it.Blob{it.Plain(body), it.Gzip(t, body), it.Zstd(t, body)} {
		r, err := layer.Open(context.Background(), io.NopCloser(bytes.NewReader(b.Packed)), descriptor(b), layer.Digest(body))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(r, make([]byte, 100)); err != nil {
			t.Fatal(err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestCancelled ends a reader whose source still has much to say.
func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancelCause(context.Background())
	why := errors.New("enough")
	r, err := layer.Open(ctx, io.NopCloser(endless{}), v1.Descriptor{Size: -1}, v1.Hash{})
	if err != nil {
		t.Fatal(err)
	}
	cancel(why)
	if _, err := io.Copy(io.Discard, r); !errors.Is(err, why) {
		t.Errorf("got %v, want the cause", err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }
