// Package service makes the image of Quavon's own services: nothing but the static
// executable, the agent that it puts into sandboxes, the certificates of public
// authorities, and the directories that volumes are mounted at. The same executables
// give the same bytes, so the image's digest says which programs they are.
package service

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"

	"github.com/quavon/quavon/imagebuild/tarlayer"
	"github.com/quavon/quavon/runner/bounded"
	"github.com/quavon/quavon/runner/fault"
)

const (
	// Path of the executable in the image.
	Path = "/quavon"
	// GuestPath is the agent's, beside it.
	GuestPath = "/quavon-guest"
	// UID runs it: nobody's number, so no passwd is needed.
	UID = 65532
	// User is the same as the image's config has it.
	User = "65532:65532"
	// StateDir and RunDir are the user's own, and so are new volumes there.
	StateDir = "/var/lib/quavon"
	// RunDir is for sockets.
	RunDir = "/run/quavon"
	// caFile is where Go programs look first.
	caFile = "etc/ssl/certs/ca-certificates.crt"
)

// architectures by machine, those that Quavon runs on.
var architectures = map[elf.Machine]string{elf.EM_X86_64: "amd64", elf.EM_AARCH64: "arm64"}

// Executable is quavon as a static Linux program, and the quavon-guest that goes
// with it.
type Executable struct {
	Path, Guest  string
	Architecture string
}

// Open checks that both files are executables for the same machine that need nothing
// beside them.
func Open(path, guest string) (*Executable, error) {
	arch, err := architecture(path)
	if err != nil {
		return nil, err
	}
	of, err := architecture(guest)
	if err == nil && of != arch {
		err = fault.New(fmt.Sprintf("%s is for %s, and %s for %s", guest, of, path, arch), "build both for the same machine")
	}
	if err != nil {
		return nil, err
	}
	return &Executable{path, guest, arch}, nil
}

// architecture of a static executable.
func architecture(path string) (string, error) {
	const hint = "name an executable for Linux"
	file, err := bounded.Open(path)
	if err != nil {
		return "", fault.Wrap(err, "can't make an image of it", hint)
	}
	defer file.Close()
	f, err := elf.NewFile(file)
	if err != nil {
		return "", fault.Wrap(err, "can't make an image of "+path, hint)
	}
	arch := architectures[f.Machine]
	switch {
	case arch == "" || f.Class != elf.ELFCLASS64:
		return "", fault.New(fmt.Sprintf("%s is for the machine %s", path, f.Machine), "name an executable for amd64 or arm64")
	case interpreter(f):
		return "", fault.New(path+" isn't a static executable", "build it with CGO_ENABLED=0; make does")
	}
	return arch, nil
}

// interpreter says whether the program needs a dynamic linker.
func interpreter(f *elf.File) bool {
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return true
		}
	}
	return false
}

// Config is the digest of the image's config, without making the image.
func (e *Executable) Config(ctx context.Context) (v1.Hash, error) {
	l, err := e.layer(ctx, io.Discard)
	if err != nil {
		return v1.Hash{}, err
	}
	img, err := e.image(l)
	if err != nil {
		return v1.Hash{}, err
	}
	return img.ConfigName()
}

// Image is the service image of an executable. Its layer is written to a new file
// in dir; done removes it.
func (e *Executable) Image(ctx context.Context, dir string) (img v1.Image, done func() error, err error) {
	f, err := os.CreateTemp(dir, "service-*")
	if err != nil {
		return nil, nil, err
	}
	remove := func() error { return os.Remove(f.Name()) }
	defer func() {
		if err != nil {
			err = errors.Join(err, remove())
		}
	}()
	l, err := e.layer(ctx, f)
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, nil, fault.Wrap(err, "can't make an image of "+e.Path, "check that the state directory isn't full")
	}
	l.Path = f.Name()
	img, err = e.image(l)
	return img, remove, err
}

func (e *Executable) image(layer v1.Layer) (v1.Image, error) {
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err := mutate.Append(img, mutate.Addendum{Layer: layer, History: v1.History{CreatedBy: "quavon"}})
	if err != nil {
		return nil, err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", e.Architecture
	config.Config = v1.Config{
		Entrypoint: []string{Path}, User: User, WorkingDir: "/",
		Env: []string{"PATH=/", "SSL_CERT_FILE=/" + caFile},
	}
	return mutate.ConfigFile(img, config)
}

// layer writes the layer: parents before what they hold, all of it root's, at the
// beginning of time.
func (e *Executable) layer(ctx context.Context, to io.Writer) (*tarlayer.Layer, error) {
	sum := sha256.New()
	n := &counter{}
	if err := e.write(ctx, io.MultiWriter(to, sum, n)); err != nil {
		return nil, err
	}
	return &tarlayer.Layer{Hash: v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(sum.Sum(nil))}, Bytes: n.size}, nil
}

type counter struct{ size int64 }

func (c *counter) Write(p []byte) (int, error) { c.size += int64(len(p)); return len(p), nil }

func (e *Executable) write(ctx context.Context, to io.Writer) error {
	w := tar.NewWriter(to)
	for _, h := range []*tar.Header{directory("etc/", 0), directory("etc/ssl/", 0), directory("etc/ssl/certs/", 0)} {
		if err := w.WriteHeader(h); err != nil {
			return err
		}
	}
	ca := certificates()
	if err := w.WriteHeader(file(caFile, 0o644, int64(len(ca)))); err != nil {
		return err
	}
	if _, err := w.Write(ca); err != nil {
		return err
	}
	for _, p := range [][2]string{{Path, e.Path}, {GuestPath, e.Guest}} {
		if err := program(w, p[0], p[1]); err != nil {
			return err
		}
	}
	for _, h := range []*tar.Header{
		directory("run/", 0), directory(RunDir[1:]+"/", UID),
		directory("var/", 0), directory("var/lib/", 0), directory(StateDir[1:]+"/", UID),
	} {
		if err := w.WriteHeader(h); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return w.Close()
}

func program(w *tar.Writer, to, from string) error {
	f, err := bounded.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := w.WriteHeader(file(to[1:], 0o755, info.Size())); err != nil {
		return err
	}
	_, err = io.Copy(w, f)
	return err
}

func file(name string, mode, size int64) *tar.Header {
	return &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: size, ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR}
}

// directory is root's, or its owner's alone.
func directory(name string, owner int) *tar.Header {
	mode := int64(0o755)
	if owner != 0 {
		mode = 0o700
	}
	return &tar.Header{
		Typeflag: tar.TypeDir, Name: name, Mode: mode, Uid: owner, Gid: owner, ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR,
	}
}

// certificates are those of Mozilla's authorities that have no conditions, at the
// version that go.mod pins.
func certificates() []byte {
	var b bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			_ = pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // a buffer takes everything
		}
	}
	return b.Bytes()
}
