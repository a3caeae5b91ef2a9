package secret

import (
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/quavon/quavon/runner/egress/policy"
	"github.com/quavon/quavon/runner/job"
)

// Bound is one secret of a step, as the proxy has it.
type Bound struct {
	Binding
	// Placeholder is what the job sees.
	Placeholder string
	Value       job.Value
}

// Set is a step's secrets.
type Set []Bound

// Errors of placeholders that aren't forwarded.
var (
	ErrUnknown   = errors.New("a placeholder that is none of this job's")
	ErrMisplaced = errors.New("a secret's placeholder where its value may not go")
)

// Bound says whether some secret goes to the host.
func (s Set) Bound(to policy.Request) bool {
	for _, b := range s {
		if b.Goes(to) {
			return true
		}
	}
	return false
}

// CheckTarget refuses a request's target that has a placeholder in it, encoded or not.
func (s Set) CheckTarget(target string) error {
	for range 3 {
		if p, ok := first(target); ok {
			return s.misplaced(p, "in the URL")
		}
		decoded := escape.ReplaceAllStringFunc(target, func(e string) string {
			b, _ := strconv.ParseUint(e[1:], 16, 8) // the pattern has two digits
			return string([]byte{byte(b)})
		})
		if decoded == target {
			return nil
		}
		target = decoded
	}
	return nil
}

// CheckName refuses a method or the name of a field that has a placeholder in it.
func (s Set) CheckName(name string) error {
	if p, ok := first(name); ok {
		return s.misplaced(p, "in the method or the name of a field")
	}
	return nil
}

// escape is one octet, encoded; what isn't one stands for itself, as lenient servers
// have it.
var escape = regexp.MustCompile(`%[0-9A-Fa-f]{2}`)

// misplaced is the error of a placeholder at a wrong place.
func (s Set) misplaced(placeholder, why string) error {
	if _, ok := s.find(placeholder); !ok {
		return ErrUnknown
	}
	return fmt.Errorf("%w: %s", ErrMisplaced, why)
}

func (s Set) find(placeholder string) (Bound, bool) {
	for _, b := range s {
		if b.Placeholder == placeholder {
			return b, true
		}
	}
	return Bound{}, false
}

// Resolve returns what a header field of a request to a host is sent on as: itself, or
// with the value in the placeholder's place. key is the field's name in lower case.
func (s Set) Resolve(to policy.Request, target, key, value string) (string, error) {
	user, password, basic := basicAuth(value)
	p, ok := first(value)
	if !ok && basic {
		p, ok = first(user + ":" + password)
	}
	if !ok {
		return value, nil
	}
	b, known := s.find(p)
	switch {
	case !known:
		return "", ErrUnknown
	case b.Scheme != to.Scheme || b.Name != to.Name || b.Port != to.Port:
		return "", fmt.Errorf("%w: it is bound to %s://%s:%d", ErrMisplaced, b.Scheme, b.Name, b.Port)
	case b.Header != key:
		return "", fmt.Errorf("%w: it is bound to the field %s", ErrMisplaced, b.Header)
	case !b.Holds(target):
		return "", fmt.Errorf("%w: it is bound to paths below %s", ErrMisplaced, b.Path)
	}
	filled, ok := b.fill(value, user, password, basic)
	if !ok {
		return "", fmt.Errorf("%w: the field may be it, SCHEME and it, or Basic with it as the user or the password", ErrMisplaced)
	}
	return filled, nil
}

// fill puts the value in the placeholder's place, in the three forms that a field may
// have.
func (b Bound) fill(value, user, password string, basic bool) (string, bool) {
	real := b.Value.Reveal()
	if basic {
		switch b.Placeholder {
		case user:
			user = real
		case password:
			password = real
		default:
			return "", false
		}
		if _, more := first(user + "\n" + password); more {
			return "", false
		}
		return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password)), true
	}
	if value == b.Placeholder {
		return real, true
	}
	scheme, rest, ok := strings.Cut(value, " ")
	if !ok || rest != b.Placeholder || strings.ContainsAny(scheme, "\t,;=\"") || strings.Contains(scheme, prefix) {
		return "", false
	}
	return scheme + " " + real, true
}

// basicAuth reads "Basic base64(user:password)".
func basicAuth(value string) (user, password string, ok bool) {
	scheme, rest, _ := strings.Cut(value, " ")
	if !strings.EqualFold(scheme, "basic") {
		return "", "", false
	}
	text := strings.TrimRight(strings.Trim(rest, " "), "=")
	for _, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		if plain, err := enc.DecodeString(text); err == nil {
			user, password, _ = strings.Cut(string(plain), ":")
			return user, password, true
		}
	}
	return "", "", false
}
