// Package declare reads images.yaml, which says what images a project wants: what
// each is built from or which one is meant, for which platforms, who must have
// signed it and what files are to be made of it. Everything that comes from
// elsewhere is named by digest; tags are refused.
package declare

import (
	"path/filepath"

	"github.com/quavon/quavon/runner/bounded"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/image/lock"
)

const (
	// SchemaVersion of the files this package reads.
	SchemaVersion = 1
	// DefaultName is looked for in the working directory.
	DefaultName = "images.yaml"
	maxFile     = 1 << 20
)

// File is a declaration.
type File struct {
	// Dir is what paths in the file are relative to: the directory it is in.
	Dir string
	// Bases and Images are sorted by name.
	Bases  []Base
	Images []Image
}

// Base is what images are built on: one that exists, or one we make.
type Base struct {
	Name string
	// Ref is REPOSITORY@sha256:…, "" for a recipe.
	Ref string
	// Recipe is a directory that tells mmdebstrap what to make, "" for a reference.
	Recipe string
	// Signature that a reference must have, if any.
	Signature *Policy
}

// Self is this program, as what an image is made from.
const Self = "self"

// Image is one wanted image: built from a Dockerfile, one that exists, or Quavon's
// own.
type Image struct {
	Name string
	// Ref is REPOSITORY@sha256:…, "" for one that is built.
	Ref string
	// Executable is "self" for the image of Quavon's own services, made of the
	// running program.
	Executable string
	// Context is the directory that is sent to the builder, and Dockerfile a file in it.
	Context, Dockerfile string
	// Target is the stage to build, "" for the last.
	Target string
	// Bases are build arguments and the names of the bases they stand for.
	Bases map[string]string
	// Args are further build arguments.
	Args map[string]string
	// Platforms are sorted, at least one.
	Platforms []string
	// Signature that a reference must have, if any.
	Signature *Policy
	Artefacts []Artefact
}

// Policy is who must have signed an image: the owner of a key, or an identity.
type Policy struct {
	// Key is a file of public keys, any of which may have signed.
	Key string
	// Issuer and Identity are those of a certificate. IdentityPattern stands
	// instead of Identity and matches all of it, in RE2's syntax.
	Issuer, Identity, IdentityPattern string
	// TrustedRoot is the file that certificates are checked with.
	TrustedRoot string
}

// Artefact is a file that is to be made from an image.
type Artefact struct {
	Kind lock.Kind
	// Options are how, as `quavon build rootfs` has its flags: "free": "1GiB".
	Options map[string]string
}

// Read reads and checks a declaration.
func Read(path string) (*File, error) {
	raw, err := bounded.ReadFile(path, maxFile)
	if err != nil {
		return nil, fault.Wrap(err, "can't read the declaration of images", "name the file with --file")
	}
	d, err := Parse(path, raw)
	if err != nil {
		return nil, fault.Wrap(err, "the declaration of images is not valid", "correct the line; docs/build.md has an example")
	}
	d.Dir = filepath.Dir(path)
	return d, nil
}

// Base returns the base called name, nil when there is none.
func (f *File) Base(name string) *Base {
	for i := range f.Bases {
		if f.Bases[i].Name == name {
			return &f.Bases[i]
		}
	}
	return nil
}

// Image returns the image called name, nil when there is none.
func (f *File) Image(name string) *Image {
	for i := range f.Images {
		if f.Images[i].Name == name {
			return &f.Images[i]
		}
	}
	return nil
}
