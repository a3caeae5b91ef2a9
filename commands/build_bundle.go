package commands

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/spf13/cobra"

	"github.com/quavon/quavon/imagebuild"
	"github.com/quavon/quavon/imagebuild/engine"
	"github.com/quavon/quavon/imagebuild/sign"
	"github.com/quavon/quavon/runner/bundle"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/image/signature"
)

const buildBundleLong = `Put everything that an installation needs into one file, for a host without a network:
the images of the lock, the lock with its signatures, quavon, quavon-guest and runsc, and
the files that services are made from. There, install takes nothing from elsewhere:

  tar -xf quavon.bundle bin/linux-amd64
  bin/linux-amd64/quavon install --sandbox --offline quavon.bundle --offline-key cosign.pub --yes

The same lock, images, programs and key give the same bytes. --show reads a bundle, all of
it, and says what is in it.`

type buildBundleOptions struct {
	*program
	Output    string
	Show      string
	Keys      []string
	JSON      bool
	Platforms []string
	Programs  []string
	// Images has what both this and `quavon build images` need to find images and to sign.
	Images buildImagesOptions
}

func newBuildBundle(p *program) *cobra.Command {
	o := &buildBundleOptions{program: p, Images: buildImagesOptions{program: p}}
	cmd := &cobra.Command{
		Use:   "bundle (-o FILE | --show FILE)",
		Short: "Put all that an installation needs into one file, for a host without a network",
		Long:  buildBundleLong,
		Example: `  quavon build bundle -o quavon.bundle --sign-key cosign.key
  quavon build bundle --show quavon.bundle --key cosign.pub`,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return buildBundle(cmd, o) },
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVarP(&o.Output, "output", "o", "", "file to write; one that is there is replaced")
	f.StringVar(&o.Images.Lock, "lock", "", "lock file to pack; QUAVON_SANDBOX_IMAGES_FILE, or images.lock.json")
	f.StringArrayVar(&o.Platforms, "platform", nil, "platform to pack, when not all that the lock has")
	f.StringArrayVar(&o.Programs, "executable", nil, "quavon for another architecture, beside its quavon-guest and runsc")
	f.StringVar(&o.Images.SignKey, "sign-key", "", "private key of cosign to sign with; its password is in COSIGN_PASSWORD")
	f.StringVar(&o.Images.Password, "sign-password-file", "", "file with the password of --sign-key in its first line")
	f.StringVar(&o.Images.DockerHost, "docker-host", "", "address of the Docker Engine; DOCKER_HOST, or its usual socket")
	f.StringArrayVar(&o.Images.Mirrors, "mirror", nil,
		"where to read a registry instead: REGISTRY=HOST[/PREFIX], or HOST for all; QUAVON_IMAGES_MIRROR")
	f.BoolVar(&o.Images.PlainHTTP, "plain-http", false, "also talk to a registry that has no https")
	f.StringVar(&o.Show, "show", "", "check this bundle and say what is in it, instead of making one")
	f.StringArrayVar(&o.Keys, "key", nil, "key that the shown bundle must be signed with: a file, or a fingerprint")
	f.BoolVar(&o.JSON, "json", false, "show the manifest, as JSON")
	return cmd
}

func buildBundle(cmd *cobra.Command, o *buildBundleOptions) error {
	if (o.Output == "") == (o.Show == "") {
		return &usageError{cmd, fault.New("no file to write, or one to write and one to show", "use -o FILE or --show FILE")}
	}
	if o.Show != "" {
		return o.show(cmd.Context())
	}
	return o.pack(cmd.Context())
}

func (o *buildBundleOptions) pack(ctx context.Context) (err error) {
	// The file is put in place of what is there, /dev/null, say.
	if info, err := os.Stat(o.Output); err == nil && !info.Mode().IsRegular() {
		return fault.New(o.Output+" is no file, and would be replaced by one", "use -o with the name of a file")
	}
	if err := fileFlag("-o", o.Output); err != nil {
		return err
	}
	p, err := o.packer()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	view := o.Images.newBuildProgress()
	p.Events = view.event
	start := time.Now()
	m, err := p.Pack(ctx, o.Output)
	view.clear()
	if err != nil {
		return err
	}
	info, err := os.Stat(o.Output)
	if err != nil {
		return err
	}
	o.note("wrote %s: %d images, %s in %v", o.Output, len(m.Images), approx(info.Size()), time.Since(start).Round(100*time.Millisecond))
	if p.Sign == nil {
		o.note("note: it is not signed, so that install takes it only with --accept-risk=%s", bundle.UnsignedRisk)
	}
	return nil
}

// packer is what the flags ask for.
func (o *buildBundleOptions) packer() (*imagebuild.Packer, error) {
	p := &imagebuild.Packer{
		Lock: o.Images.Lock, PlainHTTP: o.Images.PlainHTTP, Version: ownVersion(),
		Connect: func(ctx context.Context) (*engine.Engine, error) { return engine.Connect(ctx, o.Images.DockerHost) },
	}
	if p.Lock == "" {
		p.Lock = o.lockFile()
	}
	platforms, err := parsePlatforms(o.Platforms)
	if err != nil {
		return nil, err
	}
	for _, one := range platforms {
		p.Platforms = append(p.Platforms, one.String())
	}
	if p.Mirrors, err = o.Images.mirrors(); err != nil {
		return nil, err
	}
	if p.Programs, err = o.programs(); err != nil {
		return nil, err
	}
	if o.Images.SignKey != "" {
		s, err := sign.Open(o.Images.SignKey, sign.Options{PasswordFile: o.Images.Password, Password: o.env(sign.EnvPassword)})
		if err != nil {
			return nil, err
		}
		p.Sign = func(ctx context.Context, digest v1.Hash) (*signature.Bundle, error) {
			return s.Sign(ctx, bundle.Reference, digest)
		}
	}
	p.Store, err = openImages()
	return p, err
}

// programs are this one and those that are named, by architecture.
func (o *buildBundleOptions) programs() (map[string]imagebuild.Programs, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	guest, err := o.findGuest()
	if err != nil {
		return nil, err
	}
	runsc, err := o.findRunsc("")
	if err != nil {
		return nil, err
	}
	out := map[string]imagebuild.Programs{runtime.GOARCH: {Quavon: self, Guest: guest, Runsc: runsc}}
	for _, path := range o.Programs {
		dir := filepath.Dir(path)
		arch, err := imagebuild.Architecture(path)
		if err != nil {
			return nil, err
		}
		out[arch] = imagebuild.Programs{Quavon: path, Guest: filepath.Join(dir, bundle.Guest), Runsc: filepath.Join(dir, bundle.Runsc)}
	}
	return out, nil
}

// show reads all of a bundle, and says what is in it.
func (o *buildBundleOptions) show(ctx context.Context) (err error) {
	trust, err := bundle.ParseTrust(o.Keys, len(o.Keys) == 0)
	if err != nil {
		return err
	}
	b, err := bundle.Open(ctx, o.Show, trust)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	start := time.Now()
	if err := o.verify(ctx, b); err != nil {
		return err
	}
	if o.JSON {
		return o.writeJSON(b.Manifest)
	}
	var out strings.Builder
	fmt.Fprintf(&out, "quavon %s for %s\n", b.Manifest.Version, strings.Join(b.Manifest.Platforms, ", "))
	for _, part := range parts(b.Manifest) {
		fmt.Fprintf(&out, "%12s  %5d  %s\n", approx(part.size), part.files, part.what)
	}
	for _, i := range b.Manifest.Images {
		fmt.Fprintf(&out, "%s  %s  %s\n", i.Config, i.Platform, i.Name)
	}
	if _, err := o.IO.Out.Write([]byte(out.String())); err != nil {
		return err
	}
	o.note("%s: %s, read in %v, sound", o.Show, approx(b.Size), time.Since(start).Round(100*time.Millisecond))
	o.note("manifest %s: %s", b.Digest, signedBy(b))
	return nil
}

// verify reads all of a bundle, and shows how far it is.
func (p *program) verify(ctx context.Context, b *bundle.Bundle) error {
	bar := p.newBar(b.Path)
	defer bar.clear()
	return b.Verify(ctx, bar.update)
}

func signedBy(b *bundle.Bundle) string {
	switch {
	case b.Signer != "":
		return "signed by the key " + b.Signer
	case b.Signed:
		return "signed; name the key with --key to know whether it is yours"
	}
	return "not signed"
}

// part is a kind of members.
type part struct {
	what  string
	files int
	size  int64
}

func parts(m *bundle.Manifest) []part {
	all := []part{
		{what: "programs"}, {what: "content of images"}, {what: "lists of packages"}, {what: "signatures of images"}, {what: "other files"},
	}
	for _, f := range m.Members {
		at := &all[len(all)-1]
		for i, dir := range []string{"bin/", "blobs/", "images/", "signatures/"} {
			if strings.HasPrefix(f.Name, dir) {
				at = &all[i]
			}
		}
		at.files++
		at.size += f.Size
	}
	return all
}
