// Package lock reads and writes images.lock.json, which pins every image a
// project uses: by digest only, per platform, with all that is checked when the
// image is used. The file is sorted, holds no time and ends in a newline, so the
// same images always give the same bytes.
package lock

import (
	"bytes"
	"encoding/json"
	"iter"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/quavon/quavon/runner/bounded"
	"github.com/quavon/quavon/runner/fault"
)

const (
	// SchemaVersion of the files this package reads and writes.
	SchemaVersion = 1
	// EnvFile names the lock file when it isn't DefaultName.
	EnvFile = "QUAVON_SANDBOX_IMAGES_FILE"
	// DefaultName is looked for in the working directory.
	DefaultName = "images.lock.json"
	// MaxFile bounds a lock file, in bytes.
	MaxFile = 16 << 20
)

// File is a lock file.
type File struct {
	SchemaVersion int     `json:"schemaVersion"`
	Builder       Builder `json:"builder"`
	// Inputs is the digest of everything the images were built from, if they were.
	Inputs string `json:"inputs,omitempty"`
	// Images are sorted by name.
	Images []Image `json:"images"`
}

// Builder is what made the file.
type Builder struct {
	Version string `json:"version"`
	// Format of the artefacts.
	Format int `json:"format"`
}

// Source is where an image comes from.
type Source string

// Sources. Images from the last two have no manifest that a registry would know:
// they are pinned by config and diff IDs alone.
const (
	SourceRegistry      Source = "registry"
	SourceLayout        Source = "oci-layout"
	SourceDockerArchive Source = "docker-archive"
	SourceDockerDaemon  Source = "docker-daemon"
)

// Image is one image under the project's name for it.
type Image struct {
	Name   string `json:"name"`
	Source Source `json:"source"`
	// Ref is a repository without tag or digest, or a path.
	Ref string `json:"ref"`
	// SourceDigest covers what the image was built from.
	SourceDigest string `json:"sourceDigest,omitempty"`
	// Index is "" when the manifest isn't in one.
	Index string `json:"index,omitempty"`
	// Platforms are sorted by Platform.
	Platforms []Platform `json:"platforms"`
}

// Platform is an image for one platform.
type Platform struct {
	// Platform is "os/architecture" or "os/architecture/variant".
	Platform string `json:"platform"`
	Manifest string `json:"manifest,omitempty"`
	Config   string `json:"config"`
	// Base digests of the images it was built on, in the order of their use.
	Base    []string `json:"base,omitempty"`
	DiffIDs []string `json:"diffIDs,omitempty"`
	Layers  []Layer  `json:"layers,omitempty"`
	// Size of the root file system as sandboxes mount it, in bytes; 0 when it
	// wasn't made yet.
	Size int64 `json:"size,omitempty"`
	// SBOM lists the packages in the image.
	SBOM      *Document  `json:"sbom,omitempty"`
	Signature *Signature `json:"signature,omitempty"`
	// BaseSignatures of those bases that had to be signed, sorted by base.
	BaseSignatures []BaseSignature `json:"baseSignatures,omitempty"`
	// Artefacts are sorted by path.
	Artefacts []Artefact `json:"artefacts,omitempty"`
}

// Layer is a layer as it is fetched, one for each diff ID.
type Layer struct {
	Digest    string `json:"digest"`
	Size      int64  `json:"size"`
	MediaType string `json:"mediaType"`
}

// Signature is the policy that the image met: a key, or an identity.
type Signature struct {
	// Key is the sha256 fingerprint of a public key.
	Key string `json:"key,omitempty"`
	// Issuer and Identity are those of a certificate.
	Issuer   string `json:"issuer,omitempty"`
	Identity string `json:"identity,omitempty"`
	// TrustedRoot is the digest of the file that an identity was checked with.
	TrustedRoot string `json:"trustedRoot,omitempty"`
	// Bundle is the digest of the stored signature.
	Bundle string `json:"bundle"`
}

// BaseSignature is the policy that a base met.
type BaseSignature struct {
	// Base is one of the platform's base digests.
	Base      string    `json:"base"`
	Signature Signature `json:"signature"`
}

// Document is a file beside the lock that tells of an image.
type Document struct {
	// Path is relative to the lock file.
	Path   string `json:"path"`
	SHA256 string `json:"sha256"`
	Size   int64  `json:"size"`
}

// Kind of an artefact.
type Kind string

// Kinds of artefact.
const (
	KindEROFS Kind = "erofs"
	KindExt4  Kind = "ext4"
)

// Artefact is a file made from an image.
type Artefact struct {
	// Path is relative to the lock file.
	Path string `json:"path"`
	Kind Kind   `json:"kind"`
	// Options it was made with, such as its free space.
	Options map[string]string `json:"options,omitempty"`
	SHA256  string            `json:"sha256"`
	Size    int64             `json:"size"`
	// Allocated bytes on disk, holes left out.
	Allocated int64 `json:"allocated"`
}

// Read reads and checks a lock file.
func Read(path string) (*File, error) {
	raw, err := bounded.ReadFile(path, MaxFile)
	if err != nil {
		return nil, fault.Wrap(err, "can't read the image lock", "run `quavon build images`, or name the file in "+EnvFile)
	}
	l, err := Parse(path, raw)
	if err != nil {
		return nil, fault.Wrap(err, "the image lock is not valid", "restore it from version control, or run `quavon build images`")
	}
	return l, nil
}

// Encode is the file's one form.
func (f *File) Encode() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(f); err != nil {
		return nil, err
	}
	if _, err := Parse("images.lock.json", b.Bytes()); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// On are the images that the lock has for a platform, in its order.
func (f *File) On(p v1.Platform) iter.Seq2[*Image, *Platform] {
	return func(yield func(*Image, *Platform) bool) {
		for i := range f.Images {
			img := &f.Images[i]
			for j := range img.Platforms {
				if img.Platforms[j].Platform == p.String() && !yield(img, &img.Platforms[j]) {
					return
				}
			}
		}
	}
}

// Find returns an image for a platform, nil when the lock hasn't got it.
func (f *File) Find(name string, p v1.Platform) (*Image, *Platform) {
	for img, at := range f.On(p) {
		if img.Name == name {
			return img, at
		}
	}
	return nil, nil
}
