package imagebuild

import (
	"strings"

	"github.com/quavon/quavon/runner/fault"
)

// Mirrors says where registries are read instead. Digests stay what they are, so
// a mirror needs no trust.
type Mirrors map[string]string

// ParseMirrors reads settings such as "registry.example=mirror.example/cache"; one
// without "=" stands for all registries.
func ParseMirrors(settings []string) (Mirrors, error) {
	m := Mirrors{}
	for _, s := range settings {
		from, to, ok := strings.Cut(s, "=")
		if !ok {
			from, to = "", s
		}
		to = strings.TrimSuffix(to, "/")
		_, twice := m[from]
		if twice || to == "" || strings.ContainsAny(s, "@ ") || strings.Contains(to, "=") || strings.Contains(to, "://") {
			return nil, fault.New("the mirror "+s+" can't be used", "write REGISTRY=HOST[/PREFIX], each registry once, or HOST for all")
		}
		m[from] = to
	}
	return m, nil
}

// At is where to read a reference.
func (m Mirrors) At(ref string) string {
	host, rest, ok := strings.Cut(ref, "/")
	if !ok || !strings.ContainsAny(host, ".:") && host != "localhost" {
		host, rest = "docker.io", ref
	}
	to, ok := m[host]
	if !ok {
		to, ok = m[""]
	}
	if !ok {
		return ref
	}
	return to + "/" + rest
}
