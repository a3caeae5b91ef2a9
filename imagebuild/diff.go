package imagebuild

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/quavon/quavon/imagebuild/sbom"
	"github.com/quavon/quavon/runner/bounded"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/image/lock"
)

// Change is how one platform of an image differs between two locks.
type Change struct {
	Image, Platform string
	// Old or New is nil when it is only in the other.
	Old, New *lock.Platform
	Fields   []Field
	// Packages that differ, as the lists beside the lock say.
	Packages []sbom.Change
}

// Field is one thing that differs.
type Field struct{ Name, Old, New string }

type imageKey struct{ image, platform string }

// Diff compares two locks; before may be nil.
func (b *Builder) Diff(before, after *lock.File) ([]Change, error) {
	was, is := index(before), index(after)
	keys := map[imageKey]bool{}
	for k := range was {
		keys[k] = true
	}
	for k := range is {
		keys[k] = true
	}
	var out []Change
	for k := range keys {
		c := Change{Image: k.image, Platform: k.platform, Old: was[k], New: is[k]}
		if c.Fields = fields(c.Old, c.New); len(c.Fields) == 0 {
			continue
		}
		var err error
		if c.Packages, err = b.packages(c.Old, c.New); err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b Change) int {
		return cmp.Or(cmp.Compare(a.Image, b.Image), cmp.Compare(a.Platform, b.Platform))
	})
	return out, nil
}

func index(l *lock.File) map[imageKey]*lock.Platform {
	out := map[imageKey]*lock.Platform{}
	if l == nil {
		return out
	}
	for i := range l.Images {
		for j := range l.Images[i].Platforms {
			p := &l.Images[i].Platforms[j]
			out[imageKey{l.Images[i].Name, p.Platform}] = p
		}
	}
	return out
}

// fields lists what differs, in a fixed order.
func fields(was, is *lock.Platform) (out []Field) {
	before, after := describe(was), describe(is)
	for i, f := range after {
		if f.New != before[i].New {
			out = append(out, Field{f.Name, before[i].New, f.New})
		}
	}
	return out
}

// describe has the same fields for every platform, those of none empty.
func describe(p *lock.Platform) []Field {
	if p == nil {
		p = &lock.Platform{}
	}
	size, signed := "", ""
	if p.Size > 0 {
		size = fmt.Sprintf("%.1f MiB", float64(p.Size)/(1<<20))
	}
	if p.Signature != nil {
		signed = cmp.Or(p.Signature.Key, p.Signature.Identity)
	}
	var artefacts []string
	for _, a := range p.Artefacts {
		artefacts = append(artefacts, fmt.Sprintf("%s %.1f MiB %s", a.Kind, float64(a.Size)/(1<<20), a.SHA256))
	}
	return []Field{
		{Name: "manifest", New: p.Manifest},
		{Name: "config", New: p.Config},
		{Name: "base", New: strings.Join(p.Base, " ")},
		{Name: "layers", New: countOf(p.DiffIDs)},
		{Name: "size", New: size},
		{Name: "signed by", New: signed},
		{Name: "file systems", New: strings.Join(artefacts, ", ")},
	}
}

func countOf(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return fmt.Sprint(len(list))
}

// packages compares the lists of two platforms. One that is lost counts as empty:
// the lock says what it was, but not what was in it.
func (b *Builder) packages(was, is *lock.Platform) ([]sbom.Change, error) {
	before, err := b.readSBOM(was)
	if err != nil {
		before = nil
	}
	after, err := b.readSBOM(is)
	if err != nil {
		return nil, fault.Wrap(err, "can't read the list of packages", "run `quavon build images` to make it again")
	}
	return sbom.Diff(before, after), nil
}

func (b *Builder) readSBOM(p *lock.Platform) ([]sbom.Package, error) {
	if p == nil || p.SBOM == nil {
		return nil, nil
	}
	f, err := bounded.Open(b.beside(p.SBOM.Path))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return sbom.Decode(f)
}
