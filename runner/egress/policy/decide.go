package policy

import (
	"slices"
	"strings"
)

// Reason is why a connection was refused; stable, programs match on it.
type Reason string

// Reasons of the decision on a name. The proxy has more.
const (
	ReasonName    Reason = "bad_name"
	ReasonAddress Reason = "ip_literal"
	ReasonHost    Reason = "host_not_allowed"
	ReasonPort    Reason = "port_not_allowed"
	ReasonScheme  Reason = "scheme_not_allowed"
	ReasonMethod  Reason = "method_not_allowed"
	ReasonPath    Reason = "path_not_allowed"
)

// Request is what a client asks for, before anything is resolved.
type Request struct {
	Name Name
	Port uint16
	// Scheme is HTTP for a plain request. HTTPS stands for a tunnel, which TCP rules
	// allow too.
	Scheme Scheme
	// Method and Path are a plain request's.
	Method, Path string
}

// Decide finds the rule that allows a request, or the reason why there is none:
// that of the rule that came closest.
func (p Policy) Decide(q Request) (*Rule, Reason) {
	reason, close := ReasonHost, 0
	for i := range p.Rules {
		why, how := p.Rules[i].decide(q)
		if why == "" {
			return &p.Rules[i], ""
		}
		if how > close {
			reason, close = why, how
		}
	}
	return nil, reason
}

// decide returns "" when the rule allows q, or why it doesn't and how close it is.
func (r Rule) decide(q Request) (Reason, int) {
	switch {
	case !r.matches(q.Name):
		return ReasonHost, 0
	case r.Port != q.Port:
		return ReasonPort, 1
	case q.Scheme == HTTP && r.Scheme != HTTP, q.Scheme == HTTPS && r.Scheme == HTTP:
		return ReasonScheme, 2
	case q.Scheme == HTTP && !r.allowsMethod(q.Method):
		return ReasonMethod, 3
	case q.Scheme == HTTP && !r.allowsPath(q.Path):
		return ReasonPath, 4
	}
	return "", 0
}

func (r Rule) allowsMethod(m string) bool {
	if r.Methods == nil {
		return m == "GET" || m == "HEAD"
	}
	return slices.Contains(r.Methods, m)
}

// allowsPath compares whole segments. With a rule that names a path, a request whose
// path servers may read in two ways is not allowed.
func (r Rule) allowsPath(target string) bool {
	if r.Path == "" {
		return true
	}
	path, _, _ := strings.Cut(target, "?")
	if !CleanPath(path) {
		return false
	}
	dir := strings.TrimSuffix(r.Path, "/")
	return path == r.Path || path == dir || strings.HasPrefix(path, dir+"/")
}

// Both is what two policies allow together. A request needs a rule of each, so
// rules aren't merged: Both decides twice.
type Both struct{ A, B Policy }

// Decide returns the stricter rule: TLS is checked unless both say it needn't.
func (b Both) Decide(q Request) (*Rule, Reason) {
	first, why := b.A.Decide(q)
	if why != "" {
		return nil, why
	}
	second, why := b.B.Decide(q)
	if why != "" {
		return nil, why
	}
	if first.Scheme != TCP {
		return first, ""
	}
	return second, ""
}
