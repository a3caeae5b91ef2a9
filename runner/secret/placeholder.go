// Package secret is what the egress proxy knows of a job's secrets: the placeholder
// that the job sees, where its value may go, how it gets there, and how the value is
// kept out of responses. It is pure: it dials nothing and logs nothing.
package secret

import (
	"crypto/rand"
	"strings"
)

// A placeholder is prefix and 26 characters of base32: 130 random bits. Their letters
// are large and the prefix's small, so a match that fails can begin anew only with
// the prefix's first letter.
const (
	prefix = "quavon_secret_"
	// Size is a placeholder's length, in bytes.
	Size = len(prefix) + 26
)

// Mint makes a placeholder that nobody can guess.
func Mint() string { return prefix + rand.Text() }

// Finder looks for placeholders, of any job, in a stream of bytes.
type Finder struct{ matched int }

// Next looks at one more byte and says whether it completes a placeholder.
func (f *Finder) Next(c byte) bool {
	switch {
	case f.matched < len(prefix) && c == prefix[f.matched], f.matched >= len(prefix) && isBase32(c):
		f.matched++
	case c == prefix[0]:
		f.matched = 1
	default:
		f.matched = 0
	}
	if f.matched == Size {
		f.matched = 0
		return true
	}
	return false
}

// Pending is how many of the last bytes may be the beginning of one.
func (f *Finder) Pending() int { return f.matched }

func isBase32(c byte) bool { return 'A' <= c && c <= 'Z' || '2' <= c && c <= '7' }

// first finds the first placeholder in a text.
func first(s string) (placeholder string, ok bool) {
	if !strings.Contains(s, prefix) {
		return "", false
	}
	var f Finder
	for i := range len(s) {
		if f.Next(s[i]) {
			return s[i+1-Size : i+1], true
		}
	}
	return "", false
}
