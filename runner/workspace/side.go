package workspace

import (
	"crypto/sha1" //nolint:gosec // git names its objects by SHA-1
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// side is one end of a change; its mode is 0 when there is no file.
type side struct {
	mode Mode
	blob
}

// id is git's name of the content; all zeros when there is no file.
func (s side) id() (string, error) {
	if s.mode == 0 {
		return strings.Repeat("0", 2*sha1.Size), nil
	}
	sum := sha1.New() //nolint:gosec // git names its objects by SHA-1
	fmt.Fprintf(sum, "blob %d\x00", s.size)
	_, err := io.Copy(sum, s.reader())
	return hex.EncodeToString(sum.Sum(nil)), err
}

// asText returns the content, unless it must be written as binary.
func (s side) asText() (text string, ok bool, err error) {
	if s.size > maxText {
		return "", false, nil
	}
	text, err = s.text()
	return text, !strings.ContainsRune(text, 0), err
}

// label names a side in the header of hunks.
func (s side) label(prefix, path string) string {
	if s.mode == 0 {
		return "/dev/null"
	}
	return patchName(prefix + path)
}

// patchName quotes more names than git does: those with spaces, some of which
// git itself can't read back when they are bare.
func patchName(p string) string {
	if q := quotePath(p); q != p || !strings.Contains(p, " ") {
		return q
	}
	return `"` + p + `"`
}

// prefix is what comes before paths in a patch.
func (b Base) prefix() string {
	if b.RepoPath != nil {
		return *b.RepoPath
	}
	return RepoPath(b.Dir)
}

// RepoPath is the path of a directory in its git repository, "" when it is the
// top of one or in none. Git takes a patch's paths from the top, and silently
// leaves out what is outside of the directory it is run in.
func RepoPath(dir string) string {
	for top, rest := dir, ""; ; {
		if _, err := os.Lstat(filepath.Join(top, ".git")); err == nil {
			return rest
		}
		up := filepath.Dir(top)
		if up == top {
			return ""
		}
		top, rest = up, filepath.Base(top)+"/"+rest
	}
}
