package imagebuild

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/quavon/quavon/imagebuild/declare"
	"github.com/quavon/quavon/imagebuild/inputs"
	"github.com/quavon/quavon/runner/bounded"
	"github.com/quavon/quavon/runner/fault"
)

// recipeFile is what every recipe of a base has.
const recipeFile = "recipe.yaml"

// sources is all that an image is made from; its digest is that of its JSON.
type sources struct {
	Format int `json:"format"`
	// Of an image that exists.
	Ref    string  `json:"ref,omitempty"`
	Policy *policy `json:"policy,omitempty"`
	// Of one of our own: which program that is, its config says.
	Executable string `json:"executable,omitempty"`
	// Of one that is built.
	Files      string                `json:"files,omitempty"`
	Dockerfile string                `json:"dockerfile,omitempty"`
	Target     string                `json:"target,omitempty"`
	Args       map[string]string     `json:"args,omitempty"`
	Bases      map[string]baseSource `json:"bases,omitempty"`
}

type baseSource struct {
	Ref    string  `json:"ref,omitempty"`
	Recipe string  `json:"recipe,omitempty"`
	Policy *policy `json:"policy,omitempty"`
}

// policy is a declared policy with the digests of the files it names.
type policy struct {
	Key, Issuer, Identity, Pattern, Root string
}

// sourceDigest covers all that an image is made from.
func (b *Builder) sourceDigest(ctx context.Context, i *declare.Image) (string, error) {
	s := sources{Format: format, Ref: i.Ref, Executable: i.Executable, Target: i.Target, Args: i.Args, Bases: map[string]baseSource{}}
	var err error
	if s.Policy, err = b.policy(i.Signature); err != nil {
		return "", err
	}
	if i.Context != "" {
		if err := b.addFiles(ctx, &s, i); err != nil {
			return "", err
		}
	}
	for arg, name := range i.Bases {
		if s.Bases[arg], err = b.baseSource(ctx, b.Declaration.Base(name)); err != nil {
			return "", err
		}
	}
	return digestOf(s)
}

// addFiles adds the build context, and checks its Dockerfile.
func (b *Builder) addFiles(ctx context.Context, s *sources, i *declare.Image) error {
	files, err := b.files(ctx, i)
	if err != nil {
		return err
	}
	defer files.Close()
	text, err := files.Read(i.Dockerfile)
	if err == nil {
		err = inputs.CheckDockerfile(filepath.Join(i.Context, i.Dockerfile), text, i.Bases)
	}
	if err != nil {
		return fault.Wrap(err, "can't build "+i.Name, "correct the Dockerfile")
	}
	s.Files, s.Dockerfile = files.Digest(), i.Dockerfile
	return nil
}

func (b *Builder) files(ctx context.Context, i *declare.Image) (*inputs.Files, error) {
	return inputs.Open(ctx, b.path(i.Context), i.Dockerfile)
}

// path of a file that the declaration names.
func (b *Builder) path(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(b.Declaration.Dir, name)
}

func (b *Builder) baseSource(ctx context.Context, base *declare.Base) (s baseSource, err error) {
	s.Ref = base.Ref
	if s.Policy, err = b.policy(base.Signature); err != nil || base.Ref != "" {
		return s, err
	}
	files, err := inputs.Open(ctx, b.path(base.Recipe), recipeFile)
	if err != nil {
		return s, fault.Wrap(err, "can't read the recipe of the base "+base.Name, "correct recipe: in the declaration")
	}
	s.Recipe = files.Digest()
	return s, files.Close()
}

func (b *Builder) policy(p *declare.Policy) (*policy, error) {
	if p == nil {
		return nil, nil
	}
	key, err1 := fileDigest(b.path, p.Key)
	root, err2 := fileDigest(b.path, p.TrustedRoot)
	if err := errors.Join(err1, err2); err != nil {
		return nil, fault.Wrap(err, "can't read what signatures are checked with", "correct signature: in the declaration")
	}
	return &policy{key, p.Issuer, p.Identity, p.IdentityPattern, root}, nil
}

func fileDigest(path func(string) string, name string) (string, error) {
	if name == "" {
		return "", nil
	}
	const most = 1 << 20
	raw, err := bounded.ReadFile(path(name), most)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:]), nil
}

func digestOf(v any) (string, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("sha256:%x", sha256.Sum256(raw)), nil
}
