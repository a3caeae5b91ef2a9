package imagebuild

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/quavon/quavon/imagebuild/engine"
	"github.com/quavon/quavon/imagebuild/service"
	"github.com/quavon/quavon/runner/bundle"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/image"
	"github.com/quavon/quavon/runner/image/lock"
	"github.com/quavon/quavon/runner/image/signature"
	"github.com/quavon/quavon/runner/image/source"
	"github.com/quavon/quavon/runner/sandbox/runsc"
	"github.com/quavon/quavon/templates"
)

// Packer puts the images of a lock, and all else that an installation needs, into an
// offline bundle.
type Packer struct {
	// Lock is the path of the lock file.
	Lock  string
	Store *image.Store
	// Connect reaches the Docker Engine, which has what was built.
	Connect   func(context.Context) (*engine.Engine, error)
	Mirrors   Mirrors
	PlainHTTP bool
	// Platforms to take, "os/architecture"; none takes all that the lock has.
	Platforms []string
	// Programs are by architecture.
	Programs map[string]Programs
	// Sign is nil for a bundle that isn't signed.
	Sign bundle.Sign
	// Version of the programs.
	Version string
	// Events is told what happens; nil for nobody.
	Events func(Event)

	connected
}

// Programs are paths of executables; what gVisor has beside runsc goes with it.
type Programs struct{ Quavon, Guest, Runsc string }

// Pack writes the bundle. The same lock, images, programs and key give the same bytes.
func (p *Packer) Pack(ctx context.Context, path string) (m *bundle.Manifest, err error) {
	unlock, err := exclude(ctx, p.Lock)
	if err != nil {
		return nil, err
	}
	defer unlock()
	raw, l, err := readLock(p.Lock)
	if err == nil && l == nil {
		err = fault.New("there is no lock "+p.Lock, "run `quavon build images` first")
	}
	if err != nil {
		return nil, err
	}
	work, err := os.MkdirTemp(p.Store.Scratch(), "bundle-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	s := &staged{dir: work, files: map[string]stagedFile{}}
	m = &bundle.Manifest{MediaType: bundle.MediaType, Version: p.Version, Platforms: p.platforms(l), Images: []bundle.Image{}}
	if err := p.stage(ctx, s, m, raw, l); err != nil {
		return nil, err
	}
	m.Members = s.members()
	m.Sort()
	tell(p.Events, Event{Image: filepath.Base(path), Text: "writing", Going: true})
	if err := bundle.Write(ctx, path, m, s, p.Sign); err != nil {
		return nil, fault.Wrap(err, "can't write "+path, fault.Hint(err))
	}
	return m, nil
}

// platforms to pack, those of the lock without any named.
func (p *Packer) platforms(l *lock.File) []string {
	all := slices.Clone(p.Platforms)
	for _, i := range l.Images {
		for _, one := range i.Platforms {
			if len(p.Platforms) == 0 && !slices.Contains(all, one.Platform) {
				all = append(all, one.Platform)
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// stage gathers all that the bundle is to have.
func (p *Packer) stage(ctx context.Context, s *staged, m *bundle.Manifest, raw []byte, l *lock.File) error {
	if err := p.stagePrograms(s, m.Platforms); err != nil {
		return err
	}
	s.add(bundle.LockName, raw)
	s.add("templates/compose.yaml", []byte(templates.Compose))
	s.add("templates/users.acl", []byte(templates.ValkeyUsers))
	var index []v1.Descriptor
	for k := range l.Images {
		img := &l.Images[k]
		for n := range img.Platforms {
			at := &img.Platforms[n]
			if !slices.Contains(m.Platforms, at.Platform) {
				continue
			}
			d, err := p.stageImage(ctx, s, img, at)
			if err != nil {
				return fault.Wrap(err, fmt.Sprintf("can't pack the image %s for %s", img.Name, at.Platform), fault.Hint(err))
			}
			index = append(index, d)
			m.Images = append(m.Images, bundle.Image{Name: img.Name, Platform: at.Platform, Digest: d.Digest.String(), Config: at.Config})
		}
	}
	return s.addLayout(index)
}

// stagePrograms takes what must be there for each platform.
func (p *Packer) stagePrograms(s *staged, platforms []string) error {
	for _, name := range platforms {
		platform, err := v1.ParsePlatform(name)
		if err != nil {
			return err
		}
		programs, ok := p.Programs[platform.Architecture]
		if !ok {
			return fault.New("there are no programs for "+name, "name the quavon for it with --executable, or leave it out with --platform")
		}
		if err := programs.stage(s, bundle.Bin(name), platform.Architecture); err != nil {
			return fault.Wrap(err, "can't pack the programs for "+name, fault.Hint(err))
		}
	}
	return nil
}

// Architecture of a static executable, such as amd64.
func Architecture(path string) (string, error) {
	e, err := service.Open(path, path)
	if err != nil {
		return "", err
	}
	return e.Architecture, nil
}

// shim and helpers are gVisor's own, beside runsc in a release.
const (
	shim    = "containerd-shim-runsc-v1"
	helpers = runsc.HelpersDir
)

func (p Programs) stage(s *staged, to, architecture string) error {
	for name, path := range map[string]string{bundle.Quavon: p.Quavon, bundle.Guest: p.Guest, bundle.Runsc: p.Runsc} {
		has, err := Architecture(path)
		if err != nil {
			return err
		}
		if has != architecture {
			return fault.New(fmt.Sprintf("%s is for %s, not %s", path, has, architecture), "name a quavon that has its own beside it")
		}
		if err := s.addFile(to+name, path); err != nil {
			return err
		}
	}
	runsc, err := filepath.EvalSymlinks(p.Runsc)
	if err != nil {
		return err
	}
	dir := filepath.Dir(runsc)
	if err := s.addFile(to+shim, filepath.Join(dir, shim)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	entries, err := os.ReadDir(filepath.Join(dir, helpers))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		if err := s.addFile(to+helpers+"/"+e.Name(), filepath.Join(dir, helpers, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// stageImage takes an image, the signatures it must have, and its list of packages.
func (p *Packer) stageImage(ctx context.Context, s *staged, img *lock.Image, at *lock.Platform) (d v1.Descriptor, err error) {
	if err := p.stageBeside(s, at); err != nil {
		return d, err
	}
	got, err := p.open(ctx, img, at)
	if err != nil {
		return d, err
	}
	defer func() { err = errors.Join(err, got.Close()) }()
	if err := isLocked(got, img, at); err != nil {
		return d, err
	}
	tell(p.Events, Event{Image: img.Name, Platform: at.Platform, Text: "packing"})
	d, err = s.addImage(ctx, got)
	if err != nil {
		return d, err
	}
	d.Annotations = map[string]string{"org.opencontainers.image.ref.name": img.Name}
	if !d.MediaType.IsIndex() {
		platform, err := v1.ParsePlatform(at.Platform)
		if err != nil {
			return d, err
		}
		d.Platform = platform
	}
	return d, nil
}

// isLocked compares an image with the lock.
func isLocked(got *source.Image, img *lock.Image, at *lock.Platform) error {
	hint := "run `quavon build images`, and find out who changed it"
	switch {
	case got.Config.String() != at.Config:
		return fault.New(fmt.Sprintf("its config is %s, the lock says %s", got.Config, at.Config), hint)
	case at.Manifest != "" && got.Manifest.String() != at.Manifest:
		return fault.New(fmt.Sprintf("its manifest is %s, the lock says %s", got.Manifest, at.Manifest), hint)
	case img.Index != "" && got.Index.String() != img.Index:
		return fault.New(fmt.Sprintf("its index is %s, the lock says %s", got.Index, img.Index), hint)
	}
	for i, l := range got.Layers {
		if i >= len(at.DiffIDs) || l.DiffID.String() != at.DiffIDs[i] {
			return fault.New("it has other layers than the lock says", hint)
		}
	}
	return nil
}

// stageBeside takes files beside the lock. File systems made of an image are not among
// them: they are made again where they are needed.
func (p *Packer) stageBeside(s *staged, at *lock.Platform) error {
	dir := filepath.Dir(p.Lock)
	for _, want := range signaturesOf(at) {
		b, err := signature.Read(filepath.Join(dir, signature.Dir), want.Bundle)
		if errors.Is(err, fs.ErrNotExist) {
			b, err = p.Store.Bundle(want.Bundle)
		}
		if err != nil {
			return fault.Wrap(err, "the signature "+want.Bundle, "run `quavon build images` to look for it")
		}
		raw, _, err := b.Encode()
		if err != nil {
			return err
		}
		s.add(signatureMember(want.Bundle), raw)
	}
	if at.SBOM == nil {
		return nil
	}
	if err := s.addFile(at.SBOM.Path, filepath.Join(dir, at.SBOM.Path)); err != nil {
		return fault.Wrap(err, "the list of packages", "run `quavon build images` to make it again")
	}
	if s.files[at.SBOM.Path].sha256 != at.SBOM.SHA256 {
		return fault.New(at.SBOM.Path+" isn't what the lock says", "run `quavon build images` to make it again")
	}
	return nil
}

func signatureMember(digest string) string {
	return signature.Dir + "/" + strings.TrimPrefix(digest, "sha256:") + ".json"
}

// open finds an image where the lock says that it came from.
func (p *Packer) open(ctx context.Context, img *lock.Image, at *lock.Platform) (*source.Image, error) {
	platform, err := v1.ParsePlatform(at.Platform)
	if err != nil {
		return nil, err
	}
	digest := img.Index
	if digest == "" {
		digest = at.Manifest
	}
	switch img.Source {
	case lock.SourceRegistry:
		return source.Registry(ctx, p.Mirrors.At(img.Ref+"@"+digest), *platform, source.RegistryOptions{PlainHTTP: p.PlainHTTP})
	case lock.SourceDockerDaemon:
		return p.saved(ctx, img, at, *platform)
	}
	if digest == "" {
		digest = at.Config
	}
	hash, err := v1.NewHash(digest)
	if err != nil {
		return nil, err
	}
	path := img.Ref
	if !filepath.IsAbs(path) {
		path = filepath.Join(filepath.Dir(p.Lock), path)
	}
	return source.File(ctx, path, source.Select{Digest: hash, Platform: *platform}, p.Store.Scratch())
}

// saved gets what was built out of the engine.
func (p *Packer) saved(ctx context.Context, img *lock.Image, at *lock.Platform, platform v1.Platform) (*source.Image, error) {
	e, err := p.reach(ctx, p.Connect)
	if err != nil {
		return nil, err
	}
	has, err := InEngine(ctx, e, img, at)
	if errors.Is(err, engine.ErrNoImage) || errors.Is(err, ErrOtherImage) {
		return nil, fault.Wrap(err, "it isn't here", "run `quavon build images`, or leave the platform out with --platform")
	}
	if err != nil {
		return nil, err
	}
	return e.Save(ctx, has.ID, platform, p.Store.Scratch())
}
