package imagebuild

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/renameio/v2"

	"github.com/quavon/quavon/imagebuild/declare"
	"github.com/quavon/quavon/imagebuild/rootfs"
	"github.com/quavon/quavon/imagebuild/sbom"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/image"
	"github.com/quavon/quavon/runner/image/lock"
	"github.com/quavon/quavon/runner/image/source"
)

// FilesDir is the directory beside the lock with the files that it names.
const FilesDir = "images"

// fileName of something made of an image, relative to the lock. It changes with
// the image, so that the previous lock's files stay.
func fileName(name string, p v1.Platform, config v1.Hash, ext string) string {
	return fmt.Sprintf("%s/%s-%s-%s.%s", FilesDir, name, strings.ReplaceAll(p.String(), "/", "-"), config.Hex[:12], ext)
}

// beside is where a path of the lock is.
func (b *Builder) beside(path string) string { return filepath.Join(filepath.Dir(b.Lock), path) }

func (b *Builder) writeSBOM(ctx context.Context, name string, p v1.Platform, r *image.Record) (*lock.Document, error) {
	root, err := b.Store.Open(ctx, r.Config.String())
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, err := os.Open(root.Path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	list, err := sbom.Scan(f)
	if err != nil {
		return nil, err
	}
	raw, err := sbom.Encode(name, r.Config.String(), list)
	if err != nil {
		return nil, err
	}
	doc := &lock.Document{Path: fileName(name, p, r.Config, "cdx.json"), Size: int64(len(raw))}
	sum := sha256.Sum256(raw)
	doc.SHA256 = hex.EncodeToString(sum[:])
	if err := b.writeFile(b.beside(doc.Path), raw); err != nil {
		return nil, fault.Wrap(err, "can't write the list of packages", "make "+filepath.Dir(b.Lock)+" writable for you")
	}
	return doc, nil
}

func (b *Builder) writeFile(path string, raw []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return renameio.WriteFile(path, raw, 0o644)
}

// artefacts makes the file systems that are wanted of an image, sorted by path.
func (b *Builder) artefacts(ctx context.Context, i *declare.Image, p v1.Platform, img *source.Image) ([]lock.Artefact, error) {
	var out []lock.Artefact
	for _, a := range i.Artefacts {
		o, err := artefactOptions(a)
		if err != nil {
			return nil, err
		}
		path := fileName(i.Name, p, img.Config, string(a.Kind))
		if err := os.MkdirAll(filepath.Dir(b.beside(path)), 0o755); err != nil {
			return nil, err
		}
		what := Event{Image: i.Name, Platform: p.String(), Text: "making " + path, Going: true}
		m := rootfs.Maker{Records: b.Store.Path("artefacts"), Progress: func(done, total int64) {
			e := what
			e.Done, e.Total = done, total
			b.tell(e)
		}}
		made, _, err := m.Make(ctx, img, b.beside(path), o)
		if err != nil {
			return nil, err
		}
		made.Path = path
		out = append(out, made.Artefact)
	}
	slices.SortFunc(out, func(a, b lock.Artefact) int { return strings.Compare(a.Path, b.Path) })
	return out, nil
}

// artefactOptions reads what the declaration wants of a file system.
func artefactOptions(a declare.Artefact) (rootfs.Options, error) {
	o := rootfs.Options{Kind: a.Kind}
	for name, value := range a.Options {
		var err error
		switch name {
		case "free":
			o.Free, err = parseSize(value)
		case "size":
			o.Size, err = parseSize(value)
		case "journal":
			if o.Journal, err = parseSize(value); value == "true" {
				o.Journal, err = 16<<20, nil
			}
		case "resize":
			o.Resize, err = strconv.ParseBool(value)
		default:
			err = fmt.Errorf("there is no such option")
		}
		if err != nil {
			return o, fault.Wrap(err, fmt.Sprintf("the option %s: %q of an artefact", name, value),
				"use free, size and journal with sizes such as 1GiB, or resize with true")
		}
	}
	return o, o.Check()
}

// units of sizes, each 1024 times the one before.
var units = []string{"B", "KiB", "MiB", "GiB", "TiB"}

// parseSize reads a number of bytes such as 512MiB, 1G or 4096.
func parseSize(s string) (int64, error) {
	digits := strings.TrimRight(s, "BKMGTib")
	n, err := strconv.ParseInt(digits, 10, 32)
	if err != nil || n < 0 {
		if n, err := strconv.ParseInt(s, 10, 64); err == nil && n >= 0 {
			return n, nil
		}
		return 0, fmt.Errorf("%q is no size", s)
	}
	unit := s[len(digits):]
	for i, u := range units {
		if unit == u || unit == u[:1] || unit == "" && i == 0 {
			return n << (10 * i), nil
		}
	}
	return 0, fmt.Errorf("%q is no size", s)
}
