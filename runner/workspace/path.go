package workspace

import (
	"errors"
	"path"
	"strings"
)

const (
	maxPath      = 4096
	maxComponent = 255
)

// stagePrefix begins the name of the directory that WriteBack prepares files in.
const stagePrefix = ".quavon-write-"

// checkPath accepts relative, clean paths that a file system can hold.
func checkPath(p string) error {
	if len(p) > maxPath {
		return errors.New("path is longer than 4096 bytes")
	}
	if strings.ContainsRune(p, 0) {
		return errors.New("path holds a NUL byte")
	}
	for part := range strings.SplitSeq(p, "/") {
		switch {
		case part == "", part == ".", part == "..":
			return errors.New("path is not relative and clean")
		case len(part) > maxComponent:
			return errors.New("name is longer than 255 bytes")
		}
	}
	return nil
}

// barred says why a path must not be taken to the host, "" when it may be.
func (b Base) barred(e *Entry) string {
	for part := range strings.SplitSeq(e.Path, "/") {
		if isDotGit(part) {
			return "is git's own data, which decides what git runs"
		}
	}
	first, _, _ := strings.Cut(e.Path, "/")
	if strings.HasPrefix(first, stagePrefix) {
		return "has a name that Quavon uses itself"
	}
	if e.Mode == ModeLink && strings.EqualFold(path.Base(e.Path), ".gitmodules") {
		return "is a link in place of git's .gitmodules"
	}
	for _, p := range b.Protect {
		if p = path.Clean(p); e.Path == p || strings.HasPrefix(e.Path, p+"/") {
			return "is protected"
		}
	}
	return ""
}

// isDotGit finds the names that are ".git" on some file system: in any case, in
// NTFS's spellings (a trailing dot or space, an alternate stream, the short
// name "git~1") and with the characters that HFS+ ignores.
func isDotGit(name string) bool {
	name = strings.Map(func(r rune) rune {
		if ignoredByHFS(r) {
			return -1
		}
		return r
	}, name)
	if i := strings.IndexAny(name, `:\`); i >= 0 {
		name = name[:i]
	}
	name = strings.ToLower(strings.TrimRight(name, ". "))
	return name == ".git" || name == "git~1"
}

func ignoredByHFS(r rune) bool {
	return r >= 0x200c && r <= 0x200f || r >= 0x202a && r <= 0x202e || r >= 0x206a && r <= 0x206f || r == 0xfeff
}
