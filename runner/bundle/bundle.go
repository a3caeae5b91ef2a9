// Package bundle is the format of an offline bundle: one file with everything that
// an installation needs, for a host without a network. It is a plain tar:
//
//	manifest.json          names every other member with its size and sha256
//	signature.json         who vouches for the manifest; left out when nobody does
//	bin/OS-ARCH/…          quavon, quavon-guest, runsc and what runsc needs beside it
//	blobs/sha256/…, index.json, oci-layout   images, an OCI layout
//	images.lock.json, images/…, signatures/… the lock and what lies beside it
//	templates/…            the files that services are made from, to read
//
// Nothing in it is compressed as a whole, so that a member is read in place, and so
// that tar gets quavon out on a host that has none yet. Layers are compressed.
//
// The manifest decides every byte that follows: which member comes when, and its
// header. A reader makes these headers itself and compares, so there is nothing in
// the file to be parsed, and nothing that the manifest doesn't have: no link, no
// second member of a name, no rest behind the end.
package bundle

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// MediaType names the format's version.
const MediaType = "application/vnd.quavon.bundle.v1+json"

// Names of members that are always there, but for the signature.
const (
	ManifestName  = "manifest.json"
	SignatureName = "signature.json"
	LockName      = "images.lock.json"
	LayoutName    = "oci-layout"
	IndexName     = "index.json"
)

// Programs that a bundle has for each of its platforms.
const (
	Quavon = "quavon"
	Guest  = "quavon-guest"
	Runsc  = "runsc"
)

// Manifest says what is in a bundle.
type Manifest struct {
	MediaType string `json:"mediaType"`
	// Version of the quavon that is in it.
	Version string `json:"version"`
	// Platforms are "os/architecture", sorted: all that is needed is there for each.
	Platforms []string `json:"platforms"`
	// Images are sorted by name and platform.
	Images []Image `json:"images"`
	// Members are all but the manifest and its signature, in their order: sorted by
	// name.
	Members []Member `json:"members"`
}

// Image is where an image of the lock begins.
type Image struct {
	Name     string `json:"name"`
	Platform string `json:"platform"`
	// Digest of the index or the manifest to begin with.
	Digest string `json:"digest"`
	// Config is the image's identity, as in the lock.
	Config string `json:"config"`
}

// Member is a file.
type Member struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// Blob is the member with a digest, "sha256:" and 64 digits.
func Blob(digest string) string { return "blobs/sha256/" + strings.TrimPrefix(digest, "sha256:") }

// Bin is the directory of a platform's programs, with a slash at its end.
func Bin(platform string) string { return "bin/" + strings.ReplaceAll(platform, "/", "-") + "/" }

// Encode is the manifest's one form.
func (m *Manifest) Encode() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(m)
	return b.Bytes(), err
}

// Sort puts everything in its order.
func (m *Manifest) Sort() {
	slices.Sort(m.Platforms)
	slices.SortFunc(m.Images, func(a, b Image) int { return strings.Compare(a.key(), b.key()) })
	slices.SortFunc(m.Members, func(a, b Member) int { return strings.Compare(a.Name, b.Name) })
}

func (i Image) key() string { return i.Name + " " + i.Platform }

// Member finds a member, nil when there is none.
func (m *Manifest) Member(name string) *Member {
	i, found := slices.BinarySearchFunc(m.Members, name, func(m Member, name string) int { return strings.Compare(m.Name, name) })
	if !found {
		return nil
	}
	return &m.Members[i]
}
