package policy

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Scheme is what goes to a host.
type Scheme string

// Schemes of rules.
const (
	// HTTPS is TLS whose server name is the host's.
	HTTPS Scheme = "https"
	// HTTP is plain HTTP, of which method and path can be read.
	HTTP Scheme = "http"
	// TCP is anything, unread.
	TCP Scheme = "tcp"
)

// Rule allows a host, or with a wildcard all hosts below it, on one port.
type Rule struct {
	Scheme Scheme
	// Name is canonical. Below says that the names one or more labels below it are
	// meant, and not itself.
	Name  Name
	Below bool
	Port  uint16
	// Methods and Path narrow plain HTTP: the methods, "GET" and "HEAD" when there
	// are none, and what the path begins with.
	Methods []string
	Path    string
}

// Parse reads a rule: [METHOD[+METHOD…]=][SCHEME://]HOST[:PORT][/PATH]. The scheme is
// https when it is left out, the port the scheme's own. HOST is a canonical name or
// "*." and one. Methods and a path are for http, a port is a must for tcp. Rules have
// neither blanks nor commas, so that lists can.
func Parse(s string) (Rule, error) {
	r, err := parse(s)
	if err != nil {
		return Rule{}, fmt.Errorf("rule %.300q: %w", s, err)
	}
	return r, nil
}

func parse(s string) (r Rule, err error) {
	if strings.ContainsAny(s, " ,\t\n") {
		return r, errors.New("it has a blank or a comma")
	}
	if methods, rest, ok := strings.Cut(s, "="); ok && !strings.Contains(methods, "://") {
		r.Methods, s = strings.Split(methods, "+"), rest
	}
	r.Scheme = HTTPS
	if scheme, rest, ok := strings.Cut(s, "://"); ok {
		r.Scheme, s = Scheme(scheme), rest
	}
	if i := strings.IndexByte(s, '/'); i >= 0 {
		s, r.Path = s[:i], s[i:]
	}
	host, port, hasPort := strings.Cut(s, ":")
	if err := r.setHost(host); err != nil {
		return r, err
	}
	if err := r.setPort(port, hasPort); err != nil {
		return r, err
	}
	return r, r.checkHTTP()
}

func (r *Rule) setHost(host string) error {
	if below, ok := strings.CutPrefix(host, "*."); ok {
		r.Below, host = true, below
	}
	name, err := Canonical(host)
	if err != nil {
		return err
	}
	if string(name) != host {
		return fmt.Errorf("the host isn't written canonically: write %s", name)
	}
	if r.Below && !strings.Contains(host, ".") {
		return fmt.Errorf("*.%s is a whole top-level domain: name the hosts", host)
	}
	r.Name = name
	return nil
}

func (r *Rule) setPort(port string, given bool) error {
	switch {
	case given:
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 || strconv.FormatUint(n, 10) != port {
			return fmt.Errorf("%q is not a port", port)
		}
		r.Port = uint16(n)
	case r.Scheme == HTTPS:
		r.Port = 443
	case r.Scheme == HTTP:
		r.Port = 80
	case r.Scheme == TCP:
		return fmt.Errorf("tcp needs a port: write tcp://%s:PORT", r.Name)
	}
	if !slices.Contains([]Scheme{HTTPS, HTTP, TCP}, r.Scheme) {
		return fmt.Errorf("the scheme %q is unknown: write https, http or tcp", r.Scheme)
	}
	return nil
}

func (r *Rule) checkHTTP() error {
	if r.Scheme != HTTP && (r.Methods != nil || r.Path != "") {
		return fmt.Errorf("only of http can method and path be read: leave them out, or write http://%s", r.Name)
	}
	for _, m := range r.Methods {
		if m == "" || strings.Trim(m, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-") != "" {
			return fmt.Errorf("%q is not a method: write GET+POST=http://%s", m, r.Name)
		}
	}
	if r.Path != "" && !CleanPath(r.Path) {
		return fmt.Errorf("the path %q has dots, a percent sign or a query: write it as servers read it", r.Path)
	}
	return nil
}

// CleanPath says whether every server reads the path alike: no dots as segments, no
// empty ones, no percent, backslash or semicolon.
func CleanPath(p string) bool {
	if !strings.HasPrefix(p, "/") || strings.ContainsAny(p, "%\\;?#") || strings.Contains(p, "//") {
		return false
	}
	for s := range strings.SplitSeq(p, "/") {
		if s == "." || s == ".." {
			return false
		}
	}
	return true
}

// String writes the rule as Parse reads it.
func (r Rule) String() string {
	var b strings.Builder
	if r.Methods != nil {
		b.WriteString(strings.Join(r.Methods, "+") + "=")
	}
	b.WriteString(string(r.Scheme) + "://")
	if r.Below {
		b.WriteString("*.")
	}
	fmt.Fprintf(&b, "%s:%d%s", r.Name, r.Port, r.Path)
	return b.String()
}

// matches says whether the rule is about a host.
func (r Rule) matches(n Name) bool {
	if r.Below {
		return strings.HasSuffix(string(n), "."+string(r.Name))
	}
	return n == r.Name
}

// Policy is what may be reached.
type Policy struct {
	Rules     []Rule
	Addresses Addresses
}

// New makes a policy from rules and private networks, as Parse and ParsePrivate
// read them.
func New(rules, private []string) (p Policy, err error) {
	for _, s := range rules {
		r, err := Parse(s)
		if err != nil {
			return p, err
		}
		p.Rules = append(p.Rules, r)
	}
	for _, s := range private {
		n, err := ParsePrivate(s)
		if err != nil {
			return p, fmt.Errorf("private network: %w", err)
		}
		p.Addresses.Private = append(p.Addresses.Private, n)
	}
	return p, nil
}
