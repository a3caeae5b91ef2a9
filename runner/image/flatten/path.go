package flatten

import (
	"errors"
	"fmt"
	"strings"
)

const (
	maxName = 255
	maxPath = 16 << 10
	// maxLink is the longest symbolic link Linux can follow.
	maxLink = 4095
)

const (
	whiteoutPrefix = ".wh."
	opaqueName     = ".wh..wh..opq"
)

// split checks an entry's name and cuts it into components; none is the root.
func split(name string) ([]string, error) {
	if len(name) > maxPath {
		return nil, fmt.Errorf("the path is longer than %d bytes", maxPath)
	}
	var parts []string
	for c := range strings.SplitSeq(name, "/") {
		switch {
		case c == "" || c == ".":
			continue
		case c == "..":
			return nil, errors.New(`the path has a ".." component`)
		case len(c) > maxName:
			return nil, fmt.Errorf("a component is longer than %d bytes", maxName)
		case strings.IndexByte(c, 0) >= 0:
			return nil, errors.New("the path has a NUL byte")
		}
		parts = append(parts, c)
	}
	if name == "" {
		return nil, errors.New("the path is empty")
	}
	return parts, nil
}

// splitEntry also finds out what a whiteout hides: "" for none, "." for
// everything in its directory.
func splitEntry(name string) (parts []string, hides string, err error) {
	parts, err = split(name)
	if err != nil || len(parts) == 0 {
		return parts, "", err
	}
	for _, c := range parts[:len(parts)-1] {
		if strings.HasPrefix(c, whiteoutPrefix) {
			return nil, "", errors.New("a whiteout can't be a directory")
		}
	}
	last := parts[len(parts)-1]
	if last == opaqueName {
		return parts[:len(parts)-1], ".", nil
	}
	hidden, is := strings.CutPrefix(last, whiteoutPrefix)
	if !is {
		return parts, "", nil
	}
	if hidden == "" || hidden == "." || hidden == ".." || strings.HasPrefix(hidden, whiteoutPrefix) {
		return nil, "", errors.New("the whiteout hides no valid name")
	}
	return parts[:len(parts)-1], hidden, nil
}
