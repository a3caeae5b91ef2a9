// Package sbom lists the packages in an image, as a CycloneDX document. It reads
// the image's root as sandboxes see it, so a package that a later layer deleted is
// not in the list. The same root gives the same bytes: there is no time in it.
package sbom

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/quavon/quavon/runner/image/erofs"
)

// Package is one installed package.
type Package struct {
	// Type is that of a package URL: deb, apk, npm, pypi, golang or generic.
	Type    string
	Name    string
	Version string
	// arch and distro are qualifiers of the URL.
	arch, distro string
}

// URL is the package URL.
func (p *Package) URL() string {
	name := url.PathEscape(p.Name)
	switch p.Type {
	case "npm", "golang":
		name = strings.ReplaceAll(name, "%2F", "/")
		name = strings.Replace(name, "@", "%40", 1)
	case "deb", "apk":
		name = p.distro + "/" + name
	}
	s := "pkg:" + p.Type + "/" + name + "@" + strings.ReplaceAll(url.PathEscape(p.Version), "+", "%2B")
	if p.arch != "" {
		s += "?arch=" + url.QueryEscape(p.arch)
	}
	return s
}

// maxPackages bounds what an image can make us list.
const maxPackages = 200_000

// Scan lists the packages in a root file, sorted and each once.
func Scan(root *os.File) ([]Package, error) {
	r, err := erofs.NewReader(root)
	if err != nil {
		return nil, err
	}
	s := &scanner{distro: "unknown"}
	if err := r.Walk(s.visit); err != nil {
		return nil, fmt.Errorf("list the packages in %s: %w", root.Name(), err)
	}
	for i := range s.found {
		if t := s.found[i].Type; t == "deb" || t == "apk" {
			s.found[i].distro = s.distro
		}
	}
	slices.SortFunc(s.found, func(a, b Package) int {
		return cmp.Or(
			cmp.Compare(a.Type, b.Type), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Version, b.Version), cmp.Compare(a.arch, b.arch),
		)
	})
	return slices.Compact(s.found), nil
}

// document is the part of CycloneDX that is used.
type document struct {
	Format     string      `json:"bomFormat"`
	Spec       string      `json:"specVersion"`
	Version    int         `json:"version"`
	Metadata   metadata    `json:"metadata"`
	Components []component `json:"components"`
}

type metadata struct {
	Component component `json:"component"`
}

type component struct {
	Type    string `json:"type"`
	Ref     string `json:"bom-ref,omitempty"`
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	PURL    string `json:"purl,omitempty"`
}

// Encode writes a CycloneDX document about the image with this config.
func Encode(name, config string, list []Package) ([]byte, error) {
	d := document{Format: "CycloneDX", Spec: "1.6", Version: 1, Components: []component{}}
	d.Metadata.Component = component{Type: "container", Name: name, Version: config}
	for _, p := range list {
		d.Components = append(d.Components, component{"library", p.URL(), p.Name, p.Version, p.URL()})
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	err := e.Encode(d)
	return b.Bytes(), err
}

// maxDocument bounds a document that is read, in bytes.
const maxDocument = 64 << 20

// Decode reads the packages of a document that Encode wrote.
func Decode(r io.Reader) ([]Package, error) {
	raw, err := io.ReadAll(io.LimitReader(r, maxDocument+1))
	if err != nil {
		return nil, err
	}
	var d document
	if err := json.Unmarshal(raw, &d); err != nil {
		return nil, err
	}
	if d.Format != "CycloneDX" || len(raw) > maxDocument {
		return nil, errors.New("it is no CycloneDX document of a usual size")
	}
	var list []Package
	for _, c := range d.Components {
		typ, _, _ := strings.Cut(strings.TrimPrefix(c.PURL, "pkg:"), "/")
		list = append(list, Package{Type: typ, Name: c.Name, Version: c.Version})
	}
	return list, nil
}
