package source

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/image/layer"
)

const (
	maxArchiveFiles = 100_000
	maxArchiveLinks = 8
)

// archive is a tar file whose members are read in place.
type archive struct {
	f     *os.File
	files map[string]section
	links map[string]string
}

type section struct{ off, size int64 }

// openArchive lists a tar; it takes f over.
func openArchive(f *os.File) (*archive, error) {
	a := &archive{f: f, files: map[string]section{}, links: map[string]string{}}
	r := tar.NewReader(f)
	for {
		hdr, err := r.Next()
		if errors.Is(err, io.EOF) {
			return a, nil
		}
		if err != nil {
			return nil, fmt.Errorf("list the tar: %w", err)
		}
		at, err := f.Seek(0, io.SeekCurrent)
		if err != nil {
			return nil, err
		}
		name := path.Clean(strings.TrimPrefix(hdr.Name, "/"))
		switch hdr.Typeflag {
		case tar.TypeReg:
			a.files[name] = section{at, hdr.Size}
		case tar.TypeSymlink:
			a.links[name] = path.Join(path.Dir(name), hdr.Linkname)
		case tar.TypeLink:
			a.links[name] = path.Clean(hdr.Linkname)
		}
		if len(a.files)+len(a.links) > maxArchiveFiles {
			return nil, fmt.Errorf("the tar has more than %d files: it is no image archive", maxArchiveFiles)
		}
	}
}

func (a *archive) openFile(name string) (io.ReadCloser, int64, error) {
	name = path.Clean(name)
	for range maxArchiveLinks {
		if s, ok := a.files[name]; ok {
			return io.NopCloser(io.NewSectionReader(a.f, s.off, s.size)), s.size, nil
		}
		to, ok := a.links[name]
		if !ok {
			break
		}
		name = to
	}
	return nil, 0, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}

// savedImage is an entry of a docker-archive's manifest.json.
type savedImage struct {
	Config   string
	RepoTags []string
	Layers   []string
}

// image finds the image in a docker-archive, or in an OCI layout that was
// packed as a tar.
func (a *archive) image(ctx context.Context, s Select) (*Image, error) {
	if _, _, err := a.openFile("oci-layout"); err == nil && !a.isConfig(s.Digest) {
		return layout{a}.image(ctx, s)
	}
	raw, err := readFile(a, "manifest.json")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.New("it is neither an OCI layout nor a docker-archive", "make one with `docker save` or `skopeo copy`")
	}
	if err != nil {
		return nil, err
	}
	var saved []savedImage
	if err := json.Unmarshal(raw, &saved); err != nil {
		return nil, fmt.Errorf("manifest.json: %w", err)
	}
	one, config, err := a.choose(saved, s)
	if err != nil {
		return nil, err
	}
	return a.saved(one, config, s.Platform)
}

// isConfig says whether a digest names a config of manifest.json, as image IDs
// do.
func (a *archive) isConfig(d v1.Hash) bool {
	for _, name := range []string{d.Hex + ".json", "blobs/sha256/" + d.Hex} {
		raw, err := readFile(a, name)
		if err != nil {
			continue
		}
		var doc struct{ RootFS json.RawMessage }
		return json.Unmarshal(raw, &doc) == nil && doc.RootFS != nil
	}
	return false
}

// choose returns the selected entry and its config.
func (a *archive) choose(saved []savedImage, s Select) (one savedImage, config []byte, err error) {
	var all []string
	found := 0
	for _, e := range saved {
		raw, err := readFile(a, e.Config)
		if err != nil {
			return one, nil, fmt.Errorf("manifest.json: %w", err)
		}
		id := layer.Digest(raw)
		if want := configName(e.Config); want != "" && want != id.Hex {
			return one, nil, &layer.DigestError{Kind: "config " + e.Config, Want: "sha256:" + want, Got: id.String()}
		}
		if s.Digest != (v1.Hash{}) && s.Digest != id || s.Name != "" && !slices.Contains(e.RepoTags, s.Name) {
			continue
		}
		one, config = e, raw
		all = append(all, id.String())
		found++
	}
	switch found {
	case 0:
		return one, nil, fault.New("no such image in it", "see what its manifest.json lists")
	case 1:
		return one, config, nil
	}
	return one, nil, fault.New("it holds more than one image: "+strings.Join(all, " "), "choose one with --digest")
}

// configName is the digest that a config's file name promises, "" for none.
func configName(file string) string {
	name := strings.TrimSuffix(path.Base(file), ".json")
	if len(name) == 64 && strings.Trim(name, "0123456789abcdef") == "" {
		return name
	}
	return ""
}

func (a *archive) saved(e savedImage, config []byte, p v1.Platform) (*Image, error) {
	if len(e.Layers) > maxLayers {
		return nil, fmt.Errorf("manifest.json lists %d layers, more than %d", len(e.Layers), maxLayers)
	}
	img := &Image{}
	for _, name := range e.Layers {
		img.Layers = append(img.Layers, Layer{Descriptor: v1.Descriptor{Size: -1}, blobs: member{a, name}})
	}
	return img, img.addConfig(config, p)
}

// member is one file of an archive.
type member struct {
	a    *archive
	name string
}

func (m member) open(context.Context, v1.Descriptor) (io.ReadCloser, error) {
	r, _, err := m.a.openFile(m.name)
	return r, err
}
