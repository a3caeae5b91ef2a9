package secret

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/quavon/quavon/runner/egress/policy"
	"github.com/quavon/quavon/runner/job"
)

// Binding is where a value may go.
type Binding struct {
	// Scheme is policy.HTTPS, or policy.HTTP where an operator wrote so.
	Scheme policy.Scheme
	Name   policy.Name
	Port   uint16
	// Path is what a path begins with, whole segments; "" and "/" are all.
	Path string
	// Header is the field's name in lower case.
	Header string
}

// framing lists the fields that say where a message ends or goes to, which no secret
// can be.
var framing = []string{
	"host", "connection", "content-length", "transfer-encoding", "te", "trailer", "upgrade", "expect", "accept-encoding",
	"content-encoding", "proxy-authorization", "proxy-connection", "range", "keep-alive",
}

// Bind reads the binding of a secret.
func Bind(s job.Secret) (Binding, error) {
	scheme, _, ok := strings.Cut(s.URL, "://")
	if !ok || scheme != string(policy.HTTPS) && scheme != string(policy.HTTP) {
		return Binding{}, fmt.Errorf("the URL %.300q doesn't begin with https:// or http://", s.URL)
	}
	host := strings.TrimPrefix(s.URL, scheme+"://")
	path := ""
	if i := strings.IndexByte(host, '/'); i >= 0 {
		host, path = host[:i], host[i:]
	}
	r, err := policy.Parse(scheme + "://" + host)
	if err != nil {
		return Binding{}, err
	}
	b := Binding{Scheme: r.Scheme, Name: r.Name, Port: r.Port, Path: path, Header: strings.ToLower(s.Header)}
	switch {
	case r.Below:
		return b, errors.New("a secret goes to one host, not to all below a name")
	case path != "" && !policy.CleanPath(path):
		return b, fmt.Errorf("the path %.300q has dots, a percent sign or a query: write it as servers read it", path)
	case slices.Contains(framing, b.Header):
		return b, fmt.Errorf("the field %s can't carry a secret", s.Header)
	}
	return b, nil
}

// URL writes the binding as Bind reads it.
func (b Binding) URL() string { return fmt.Sprintf("%s://%s:%d%s", b.Scheme, b.Name, b.Port, b.Path) }

// Goes says whether requests to a host are the binding's.
func (b Binding) Goes(to policy.Request) bool {
	return b.Scheme == to.Scheme && b.Name == to.Name && b.Port == to.Port
}

// Holds says whether the target of a request is below the binding's path however a
// server reads it: no decoding of it, once or more often, climbs.
func (b Binding) Holds(target string) bool {
	dir := strings.TrimSuffix(b.Path, "/")
	path, _, _ := strings.Cut(target, "?")
	if dir == "" {
		return true
	}
	if path != dir && !strings.HasPrefix(path, dir+"/") {
		return false
	}
	const rounds = 4
	for range rounds {
		if climbs(path) {
			return false
		}
		decoded, err := url.PathUnescape(path)
		if err != nil {
			return false
		}
		if decoded == path {
			return true
		}
		path = decoded
	}
	return false
}

// climbs says whether some server would read a segment of dots in the path, or
// something that isn't text.
func climbs(path string) bool {
	if !utf8.ValidString(path) || strings.ContainsFunc(path, func(r rune) bool {
		return r < ' ' || r == 0x7f || r == '\uff0e' ||
			r == '\u2024'
	}) {
		return true
	}
	for s := range strings.FieldsFuncSeq(path, func(r rune) bool { return r == '/' || r == '\\' || r == '\u2215' || r == '\uff0f' }) {
		name, _, _ := strings.Cut(s, ";") // parameters of a segment
		if name == "." || name == ".." {
			return true
		}
	}
	return false
}
