package commands

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/spf13/cobra"

	"github.com/quavon/quavon/imagebuild"
	"github.com/quavon/quavon/imagebuild/declare"
	"github.com/quavon/quavon/imagebuild/engine"
	"github.com/quavon/quavon/imagebuild/service"
	"github.com/quavon/quavon/runner/bounded"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/image"
)

const buildImagesLong = `Build the images that a declaration names, fetch those it names by digest, put all of
them into the store, and write down in images.lock.json exactly what came of it. The
declaration is images.yaml; without one, the images that Quavon ships are built.

An image whose sources haven't changed isn't built again, so a second run does nothing.
Networks and registries of the place are passed as secrets, which steps of a Dockerfile
mount and no image keeps; docs/build.md lists them.`

type buildImagesOptions struct {
	*program
	Names      []string
	File       string
	Lock       string
	DockerHost string
	Mirrors    []string
	Platforms  []string
	Secrets    []string
	Network    string
	SignKey    string
	Password   string
	Programs   []string
	NoCache    bool
	PlainHTTP  bool
	Check      bool
	Diff       bool
	Verbose    bool
	// shipped builds what Quavon ships, whatever is in the working directory.
	shipped bool
}

// envMirror names mirrors, separated by commas, where no flag does.
const envMirror = "QUAVON_IMAGES_MIRROR"

func newBuildImages(p *program) *cobra.Command {
	o := &buildImagesOptions{program: p}
	cmd := &cobra.Command{
		Use:   "images [NAME...]",
		Short: "Build the images that images.yaml declares, and lock them",
		Long:  buildImagesLong,
		Example: `  quavon build images
  quavon build images scanners --secret npmrc=$HOME/.npmrc
  quavon build images --file team/images.yaml --diff`,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Names = args
			return buildImages(cmd, o)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.File, "file", "f", "", "declaration of the images; images.yaml, or without one what Quavon ships")
	f.StringVar(&o.Lock, "lock", "", "lock file to write; QUAVON_SANDBOX_IMAGES_FILE, or images.lock.json")
	f.StringVar(&o.DockerHost, "docker-host", "", "address of the Docker Engine; DOCKER_HOST, or its usual socket")
	f.StringArrayVar(&o.Mirrors, "mirror", nil,
		"where to read a registry instead: REGISTRY=HOST[/PREFIX], or HOST for all; QUAVON_IMAGES_MIRROR")
	f.StringArrayVar(&o.Platforms, "platform", nil, "platform to build for, when not this host's; the engine needs emulation for it")
	f.StringArrayVar(&o.Secrets, "secret", nil, "file that steps may mount and no image keeps: ID=FILE")
	f.StringVar(&o.Network, "network", "", "network of the steps: default, host or none")
	f.StringVar(&o.SignKey, "sign-key", "", "private key of cosign to sign with what is built; its password is in COSIGN_PASSWORD")
	f.StringArrayVar(&o.Programs, "executable", nil,
		"quavon for another architecture, beside its quavon-guest, for the image of Quavon's own services")
	f.StringVar(&o.Password, "sign-password-file", "", "file with the password of --sign-key in its first line")
	f.BoolVar(&o.NoCache, "no-cache", false, "run all steps of what is built, whatever the engine has of earlier builds")
	f.BoolVar(&o.PlainHTTP, "plain-http", false, "also talk to a registry that has no https")
	f.BoolVar(&o.Check, "check", false, "build nothing: exit with 0 when the lock is up to date, else with 1")
	f.BoolVar(&o.Diff, "diff", false, "build, but leave the lock as it is, and show what would change in it")
	f.BoolVarP(&o.Verbose, "verbose", "v", false, "show all output of the builds")
	return cmd
}

func buildImages(cmd *cobra.Command, o *buildImagesOptions) (err error) {
	if o.Check && o.Diff {
		return &usageError{cmd, fault.New("--check and --diff at once", "--check builds nothing, --diff builds: use one")}
	}
	if err := checkNetwork(o.Network); err != nil {
		return &usageError{cmd, err}
	}
	b, done, err := o.builder()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close(), done()) }()
	if o.Check {
		return o.check(cmd.Context(), b)
	}
	show := o.newBuildProgress()
	b.Events = show.event
	r, err := b.Run(cmd.Context(), o.Names, o.Diff)
	show.clear()
	if err != nil {
		return err
	}
	if o.Diff {
		return o.showDiff(b, r)
	}
	return o.showBuilt(b, r)
}

// checkNetwork refuses what no builder knows, before one is asked.
func checkNetwork(name string) error {
	if slices.Contains([]string{"", "default", "host", "none"}, name) {
		return nil
	}
	return fault.New(fmt.Sprintf("--network %.80q is unknown", name), "use default, host or none")
}

// builder is what the flags ask for. done removes what it left.
func (o *buildImagesOptions) builder() (b *imagebuild.Builder, done func() error, err error) {
	b = &imagebuild.Builder{
		Lock: o.Lock, Network: o.Network, NoCache: o.NoCache, PlainHTTP: o.PlainHTTP, Version: ownVersion(),
		Connect: func(ctx context.Context) (*engine.Engine, error) { return engine.Connect(ctx, o.DockerHost) },
	}
	if b.Lock == "" {
		b.Lock = o.lockFile()
	}
	if b.Platforms, err = parsePlatforms(o.Platforms); err != nil {
		return nil, nil, err
	}
	if b.Mirrors, err = o.mirrors(); err != nil {
		return nil, nil, err
	}
	if b.Secrets, err = readSecrets(o.Secrets); err != nil {
		return nil, nil, err
	}
	if b.Store, err = openImages(); err != nil {
		return nil, nil, err
	}
	if b.Declaration, done, err = o.declaration(b.Store); err != nil {
		return nil, nil, err
	}
	if b.Executables, err = o.executables(); err == nil {
		b.Signatures, err = o.signatures(b)
	}
	if err != nil {
		return nil, nil, errors.Join(err, done())
	}
	return b, done, nil
}

// mirrors are those of the flags, or of the environment.
func (o *buildImagesOptions) mirrors() (imagebuild.Mirrors, error) {
	mirrors := o.Mirrors
	if env := o.env(envMirror); len(mirrors) == 0 && env != "" {
		mirrors = strings.Split(env, ",")
	}
	return imagebuild.ParseMirrors(mirrors)
}

// executables are this program and those that are named, each with its
// quavon-guest. This one is left out when it can't be in an image, which only matters
// where one is declared.
func (o *buildImagesOptions) executables() (map[string]*service.Executable, error) {
	out := map[string]*service.Executable{}
	self, err := os.Executable()
	guest, err2 := o.findGuest()
	if err == nil && err2 == nil {
		if e, err := service.Open(self, guest); err == nil {
			out[e.Architecture] = e
		}
	}
	for _, path := range o.Programs {
		e, err := service.Open(path, filepath.Join(filepath.Dir(path), "quavon-guest"))
		if err != nil {
			return nil, err
		}
		out[e.Architecture] = e
	}
	return out, nil
}

// declaration reads the file, or unpacks what is shipped.
func (o *buildImagesOptions) declaration(s *image.Store) (d *declare.File, done func() error, err error) {
	path := o.File
	done = func() error { return nil }
	if path == "" && !o.shipped {
		path = declare.DefaultName
		if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
			path = ""
		}
	}
	if path == "" {
		if path, done, err = imagebuild.Shipped(s.Scratch()); err != nil {
			return nil, nil, err
		}
	}
	d, err = declare.Read(path)
	if err != nil {
		return nil, nil, errors.Join(err, done())
	}
	return d, done, nil
}

func parsePlatforms(names []string) ([]v1.Platform, error) {
	var out []v1.Platform
	for _, name := range names {
		p, err := v1.ParsePlatform(name)
		if err != nil || p.OS != "linux" {
			return nil, fault.New("--platform "+name+" is none that images are built for", "write linux/ARCHITECTURE, such as linux/arm64")
		}
		out = append(out, *p)
	}
	return out, nil
}

// maxSecret bounds a secret's file; BuildKit takes no more.
const maxSecret = 500 << 10

// readSecrets reads ID=FILE. No error has anything of a file's content.
func readSecrets(settings []string) (map[string][]byte, error) {
	out := map[string][]byte{}
	for _, s := range settings {
		id, path, ok := strings.Cut(s, "=")
		if !ok || id == "" || path == "" || out[id] != nil {
			return nil, fault.New("the secret "+id+" can't be used", "write ID=FILE, each once, such as npmrc=$HOME/.npmrc")
		}
		raw, err := bounded.ReadFile(path, maxSecret)
		if err != nil {
			return nil, fault.Wrap(err, "can't read the secret "+id, "correct --secret")
		}
		out[id] = raw
	}
	return out, nil
}
