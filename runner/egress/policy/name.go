// Package policy decides what a job may reach: the one form of a host name, rules
// that allow hosts, and the addresses that no rule makes reachable by accident. It
// is pure: it resolves nothing and dials nothing.
package policy

import (
	"errors"
	"fmt"
	"strings"
)

// Name is a host name in its one form: ASCII, lower case, without a final dot. It
// is never an address in any spelling. The same string is decided on, resolved,
// dialled and logged.
type Name string

// Bounds of a name, as the DNS has them.
const (
	maxName  = 253
	maxLabel = 63
)

// Reasons why a text is no Name.
var (
	ErrAddress = errors.New("is an IP address; write the host's name")
	ErrName    = errors.New("is not a host name")
)

// Canonical brings a name into its one form: ASCII letters become small, one final
// dot goes. Everything else is refused, not repaired.
func Canonical(s string) (Name, error) {
	shown := s[:min(len(s), maxName)]
	s = strings.TrimSuffix(s, ".")
	if s == "" || len(s) > maxName {
		return "", fmt.Errorf("%q %w", shown, ErrName)
	}
	if strings.ContainsAny(s, ":[]%") {
		return "", fmt.Errorf("%q %w", shown, ErrAddress) // IPv6, with or without a zone
	}
	labels := strings.Split(s, ".")
	for i, label := range labels {
		lower, ok := canonicalLabel(label)
		if !ok {
			return "", fmt.Errorf("%q %w", shown, ErrName)
		}
		labels[i] = lower
	}
	if isNumber(labels[len(labels)-1]) {
		return "", fmt.Errorf("%q %w", shown, ErrAddress)
	}
	return Name(strings.Join(labels, ".")), nil
}

// canonicalLabel lowers a label of letters, digits, hyphens and underscores.
func canonicalLabel(label string) (string, bool) {
	if label == "" || len(label) > maxLabel || label[0] == '-' || label[len(label)-1] == '-' {
		return "", false
	}
	out := []byte(label)
	for i, c := range out {
		switch {
		case 'A' <= c && c <= 'Z':
			out[i] = c + 'a' - 'A'
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '-', c == '_':
		default:
			return "", false
		}
	}
	return string(out), true
}

// isNumber says whether a last label makes some resolver take the name for an IPv4
// address: 127.1, 0x7f000001, 2130706433, 0177.0.0.1. No such top-level domain exists.
func isNumber(label string) bool {
	if hex, ok := strings.CutPrefix(label, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return strings.Trim(label, "0123456789") == ""
}
