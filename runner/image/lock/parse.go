package lock

import (
	"bytes"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Parse reads a lock file called name. Errors begin with name and line.
func Parse(name string, raw []byte) (*File, error) {
	p := &document{name: name, raw: raw}
	switch {
	case len(raw) > MaxFile:
		return nil, p.fail(0, "the file has more than %d bytes", MaxFile)
	case !bytes.HasSuffix(raw, []byte("\n")):
		return nil, p.fail(int64(len(raw)), "the file doesn't end in a newline: it may be cut short")
	}
	v, err := p.parse()
	if err != nil {
		return nil, err
	}
	f := p.file(v, &err)
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (p *document) file(v value, err *error) *File {
	f := p.fields(v, top, err)
	out := &File{SchemaVersion: int(f.number("schemaVersion", 1))}
	if out.SchemaVersion != SchemaVersion {
		f.fail(v.off, "has the schemaVersion %d, this program reads %d", out.SchemaVersion, SchemaVersion)
		return out
	}
	f.known("schemaVersion builder inputs images")
	if b, ok := f.get("builder", true); ok {
		bf := p.fields(b, "builder", err).known("version format")
		out.Builder = Builder{bf.text("version", filled), int(bf.number("format", 1))}
	}
	out.Inputs = f.text("inputs", optional(digest))
	out.Images = []Image{}
	last := ""
	f.list("images", true, func(path string, v value) {
		img := p.image(v, path, err)
		f.ordered("image", &last, img.Name, v.off)
		out.Images = append(out.Images, img)
	})
	return out
}

func (p *document) image(v value, path string, err *error) Image {
	f := p.fields(v, path, err).known("name source ref sourceDigest index platforms")
	img := Image{
		Name:   f.text("name", imageName),
		Source: Source(f.text("source", oneOf(SourceRegistry, SourceLayout, SourceDockerArchive, SourceDockerDaemon))),
		Ref:    f.text("ref", reference), SourceDigest: f.text("sourceDigest", optional(digest)), Index: f.text("index", optional(digest)),
	}
	last := ""
	f.list("platforms", true, func(path string, v value) {
		pl := p.platform(v, path, img.pinned(), err)
		f.ordered("platform", &last, pl.Platform, v.off)
		img.Platforms = append(img.Platforms, pl)
	})
	if len(img.Platforms) == 0 {
		f.fail(v.off, "has no platforms")
	}
	return img
}

// pinned says whether the source has manifests to pin.
func (i *Image) pinned() bool { return i.Source == SourceRegistry || i.Source == SourceLayout }

func (p *document) platform(v value, path string, pinned bool, err *error) Platform {
	f := p.fields(v, path, err).known("platform manifest config base diffIDs layers size sbom signature baseSignatures artefacts")
	manifest := optional(digest)
	if pinned {
		manifest = digest
	}
	out := Platform{
		Platform: f.text("platform", platform), Manifest: f.text("manifest", manifest), Config: f.text("config", digest),
		Base: f.texts("base", false, digest), DiffIDs: f.texts("diffIDs", false, digest),
	}
	f.list("layers", false, func(path string, v value) {
		lf := p.fields(v, path, err).known("digest size mediaType")
		out.Layers = append(out.Layers, Layer{lf.text("digest", digest), lf.number("size", 0), lf.text("mediaType", filled)})
	})
	if n := len(out.Layers); (pinned || n > 0) && n != len(out.DiffIDs) {
		f.fail(v.off, "has %d layers and %d diff IDs", n, len(out.DiffIDs))
	}
	if _, ok := f.get("size", false); ok {
		out.Size = f.number("size", 1)
	}
	if s, ok := f.get("sbom", false); ok {
		df := p.fields(s, path+".sbom", err).known("path sha256 size")
		out.SBOM = &Document{df.text("path", localPath), df.text("sha256", hex256), df.number("size", 0)}
	}
	if s, ok := f.get("signature", false); ok {
		out.Signature = p.signature(s, path+".signature", err)
	}
	last := ""
	f.list("baseSignatures", false, func(path string, v value) {
		b := p.baseSignature(v, path, err)
		f.ordered("the signature of", &last, b.Base, v.off)
		if !slices.Contains(out.Base, b.Base) {
			f.fail(v.off, "has the signature of %s, which is none of its bases", b.Base)
		}
		out.BaseSignatures = append(out.BaseSignatures, b)
	})
	last = ""
	f.list("artefacts", false, func(path string, v value) {
		a := p.artefact(v, path, err)
		f.ordered("artefact", &last, a.Path, v.off)
		out.Artefacts = append(out.Artefacts, a)
	})
	return out
}

func (p *document) baseSignature(v value, path string, err *error) BaseSignature {
	f := p.fields(v, path, err).known("base signature")
	b := BaseSignature{Base: f.text("base", digest)}
	if s, ok := f.get("signature", true); ok {
		b.Signature = *p.signature(s, path+".signature", err)
	}
	return b
}

func (p *document) signature(v value, path string, err *error) *Signature {
	f := p.fields(v, path, err).known("key issuer identity trustedRoot bundle")
	s := &Signature{
		f.text("key", optional(digest)), f.text("issuer", anything), f.text("identity", anything),
		f.text("trustedRoot", optional(digest)), f.text("bundle", digest),
	}
	byIdentity := s.Issuer != ""
	if (s.Key != "") == byIdentity || byIdentity != (s.Identity != "") || byIdentity != (s.TrustedRoot != "") {
		f.fail(v.off, "is neither by a key nor by an issuer, an identity and a trusted root")
	}
	return s
}

func (p *document) artefact(v value, path string, err *error) Artefact {
	f := p.fields(v, path, err).known("path kind options sha256 size allocated")
	a := Artefact{
		Path: f.text("path", localPath), Kind: Kind(f.text("kind", oneOf(KindEROFS, KindExt4))),
		SHA256: f.text("sha256", hex256), Size: f.number("size", 0), Allocated: f.number("allocated", 0),
	}
	if o, ok := f.get("options", false); ok {
		of := p.fields(o, path+".options", err)
		a.Options = map[string]string{}
		for _, k := range of.obj.keys {
			a.Options[k] = of.text(k, anything)
		}
	}
	return a
}

// Checks return what is wrong with a value, "" for nothing.

var (
	digestRE   = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
	hexRE      = regexp.MustCompile(`^[0-9a-f]{64}$`)
	nameRE     = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,62}$`)
	platformRE = regexp.MustCompile(`^[a-z0-9]+/[a-z0-9]+(/[a-z0-9.]+)?$`)
)

func matching(re *regexp.Regexp, why string) func(string) string {
	return func(s string) string {
		if re.MatchString(s) {
			return ""
		}
		return why
	}
}

var (
	digest    = matching(digestRE, "is not sha256: and 64 hexadecimal digits")
	hex256    = matching(hexRE, "is not 64 hexadecimal digits")
	imageName = matching(nameRE, "is not 1 to 63 of a-z, 0-9, '.', '_' and '-'")
	platform  = matching(platformRE, "is not os/architecture")
)

func anything(string) string { return "" }

func filled(s string) string {
	if s == "" {
		return "is empty"
	}
	return ""
}

func optional(check func(string) string) func(string) string {
	return func(s string) string {
		if s == "" {
			return ""
		}
		return check(s)
	}
}

func oneOf[T ~string](all ...T) func(string) string {
	return func(s string) string {
		for _, one := range all {
			if s == string(one) {
				return ""
			}
		}
		return "is unknown"
	}
}

// reference refuses tags and digests: the lock has the digests elsewhere.
func reference(s string) string {
	last := s[strings.LastIndex(s, "/")+1:]
	switch {
	case s == "":
		return "is empty"
	case strings.Contains(s, "@"):
		return "has a digest, which belongs into index and manifest"
	case strings.Contains(last, ":"):
		return "has a tag: images are pinned by digest only"
	}
	return ""
}

func localPath(s string) string {
	if s == "" || path.IsAbs(s) || path.Clean(s) != s || s == ".." || strings.HasPrefix(s, "../") {
		return "is not a clean path below the lock file"
	}
	return ""
}
