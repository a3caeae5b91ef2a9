package declare

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/quavon/quavon/runner/image/lock"
	"github.com/quavon/quavon/runner/image/source"
)

// Parse reads a declaration called name. Errors begin with name and line.
func Parse(name string, raw []byte) (*File, error) {
	d := &document{name: name}
	root := d.mapping(d.load(raw), "the file", "schemaVersion", "bases", "images")
	d.version(root)
	f := &File{Dir: "."}
	d.each(root, "bases", func(name string, n *yaml.Node) { f.Bases = append(f.Bases, d.base(name, n)) })
	d.each(root, "images", func(name string, n *yaml.Node) { f.Images = append(f.Images, d.image(name, n, f)) })
	if len(f.Images) == 0 {
		d.fail(root.line, "the file declares no images")
	}
	if d.err != nil {
		return nil, d.err
	}
	slices.SortFunc(f.Bases, func(a, b Base) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(f.Images, func(a, b Image) int { return cmp.Compare(a.Name, b.Name) })
	return f, nil
}

func (d *document) version(root *mapping) {
	n, ok := root.values["schemaVersion"]
	if !ok {
		d.fail(root.line, "the file has no schemaVersion")
		return
	}
	if n.Tag != "!!int" || n.Value != fmt.Sprint(SchemaVersion) {
		d.fail(n.Line, "the schemaVersion is %q, this program reads %d", n.Value, SchemaVersion)
	}
}

// each calls read for all entries of one of the file's two mappings.
func (d *document) each(root *mapping, key string, read func(name string, n *yaml.Node)) {
	n, ok := root.values[key]
	if !ok {
		return
	}
	m := d.mapping(n, key)
	for _, name := range m.keys {
		if err := isName(name); err != nil {
			d.fail(m.lines[name], "%s has a name %q that %w", key, name, err)
		}
		read(name, m.values[name])
	}
}

func (d *document) base(name string, n *yaml.Node) Base {
	m := d.mapping(n, "bases."+name, "ref", "recipe", "signature")
	b := Base{
		Name: name, Ref: m.text("ref", isRef), Recipe: m.text("recipe", isPath), Signature: d.policy(m),
	}
	switch {
	case (b.Ref == "") == (b.Recipe == ""):
		d.fail(m.line, "%s needs either a ref or a recipe", m.path)
	case b.Recipe != "" && b.Signature != nil:
		d.fail(m.lines["signature"], "%s is made here: it has no signature to check", m.path)
	}
	return b
}

func (d *document) image(name string, n *yaml.Node, f *File) Image {
	m := d.mapping(n, "images."+name,
		"ref", "executable", "context", "dockerfile", "target", "bases", "args", "platforms", "signature", "artefacts")
	i := Image{
		Name: name, Ref: m.text("ref", isRef), Executable: m.text("executable", isSelf), Context: m.text("context", isPath),
		Dockerfile: m.text("dockerfile", isInside), Target: m.text("target", isName),
		Bases: m.texts("bases", isArg, func(base string) error { return f.declares(base) }),
		Args:  m.texts("args", isArg, anything), Signature: d.policy(m),
	}
	for arg := range i.Bases {
		if _, both := i.Args[arg]; both {
			d.fail(m.lines["args"], "%s has the build argument %q twice, in bases and in args", m.path, arg)
		}
	}
	m.list("platforms", func(path string, n *yaml.Node) {
		p := d.text(n, path, isPlatform)
		if slices.Contains(i.Platforms, p) {
			d.fail(n.Line, "%s: %q is there twice", path, p)
		}
		i.Platforms = append(i.Platforms, p)
	})
	slices.Sort(i.Platforms)
	if len(i.Platforms) == 0 {
		d.fail(m.line, "%s names no platforms, such as linux/amd64", m.path)
	}
	m.list("artefacts", func(path string, n *yaml.Node) {
		a := d.artefact(path, n)
		if slices.ContainsFunc(i.Artefacts, func(had Artefact) bool { return had.Kind == a.Kind }) {
			d.fail(n.Line, "%s: the kind %s is there twice", path, a.Kind)
		}
		i.Artefacts = append(i.Artefacts, a)
	})
	d.origin(m, &i)
	return i
}

// origin checks that an image is built, brought or our own.
func (d *document) origin(m *mapping, i *Image) {
	var from []string
	for _, key := range []string{"ref", "executable", "context"} {
		if _, there := m.lines[key]; there {
			from = append(from, key)
		}
	}
	switch {
	case len(from) != 1:
		d.fail(m.line, "%s needs one of ref, context and executable", m.path)
	case from[0] != "context":
		for _, key := range []string{"dockerfile", "target", "bases", "args"} {
			if line, there := m.lines[key]; there {
				d.fail(line, "%s has the key %s, so nothing is built: %s has no meaning", m.path, from[0], key)
			}
		}
	case i.Dockerfile == "":
		i.Dockerfile = "Dockerfile"
	}
	if i.Signature != nil && i.Ref == "" {
		d.fail(m.lines["signature"], "%s is built here: it has no signature to check; --sign-key makes one", m.path)
	}
}

func isSelf(s string) error {
	if s != Self {
		return errors.New("is not self, the running program")
	}
	return nil
}

func (f *File) declares(base string) error {
	if f.Base(base) == nil {
		return errors.New("is not among the bases")
	}
	return nil
}

func (d *document) policy(m *mapping) *Policy {
	n, ok := m.values["signature"]
	if !ok {
		return nil
	}
	s := d.mapping(n, m.path+".signature", "key", "issuer", "identity", "identityPattern", "trustedRoot")
	p := &Policy{
		Key: s.text("key", isPath), Issuer: s.text("issuer", anything), Identity: s.text("identity", anything),
		IdentityPattern: s.text("identityPattern", isPattern), TrustedRoot: s.text("trustedRoot", isPath),
	}
	byIdentity := p.Issuer != ""
	named := p.Identity != "" || p.IdentityPattern != ""
	switch {
	case (p.Key != "") == byIdentity, byIdentity != named, byIdentity != (p.TrustedRoot != ""):
		d.fail(s.line, "%s is neither by a key nor by an issuer, an identity and a trustedRoot", s.path)
	case p.Identity != "" && p.IdentityPattern != "":
		d.fail(s.lines["identityPattern"], "%s has an identity and a pattern for it", s.path)
	}
	return p
}

func (d *document) artefact(path string, n *yaml.Node) Artefact {
	m := d.mapping(n, path, "kind", "free", "size", "options")
	a := Artefact{Kind: lock.Kind(m.text("kind", isKind)), Options: m.texts("options", isName, anything)}
	if a.Kind == "" {
		d.fail(m.line, "%s has no kind", path)
	}
	for _, key := range []string{"free", "size"} {
		v := m.text(key, anything)
		if v == "" {
			continue
		}
		if a.Options == nil {
			a.Options = map[string]string{}
		}
		if _, twice := a.Options[key]; twice {
			d.fail(m.lines[key], "%s has %s twice, also in options", path, key)
		}
		a.Options[key] = v
	}
	return a
}

// Checks return what is wrong with a text.

var (
	nameRE     = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,62}$`)
	argRE      = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,62}$`)
	platformRE = regexp.MustCompile(`^linux/[a-z0-9]+(/[a-z0-9.]+)?$`)
)

func matching(re *regexp.Regexp, why string) func(string) error {
	return func(s string) error {
		if re.MatchString(s) {
			return nil
		}
		return errors.New(why)
	}
}

var (
	isName     = matching(nameRE, "is not 1 to 63 of a-z, 0-9, '.', '_' and '-'")
	isArg      = matching(argRE, "is not the name of a build argument")
	isPlatform = matching(platformRE, "is not linux/architecture")
)

func anything(s string) error {
	if strings.ContainsRune(s, 0) {
		return errors.New("has a NUL in it")
	}
	return nil
}

func isPattern(s string) error {
	_, err := regexp.Compile(s)
	return err
}

func isKind(s string) error {
	if s != string(lock.KindEROFS) && s != string(lock.KindExt4) {
		return errors.New("is neither ext4 nor erofs")
	}
	return nil
}

// isPath is a path relative to the declaration, or an absolute one.
func isPath(s string) error {
	if filepath.Clean(s) != s || strings.ContainsRune(s, 0) {
		return errors.New("is not a clean path")
	}
	return nil
}

// isInside is a path below a directory.
func isInside(s string) error {
	if !filepath.IsLocal(s) {
		return errors.New("leads out of the context")
	}
	return isPath(s)
}

// isRef refuses everything but REPOSITORY@sha256:….
func isRef(s string) error {
	if _, err := source.ParseDigest(s, false); err != nil {
		return fmt.Errorf("is not pinned by a digest: %w", err)
	}
	return nil
}
