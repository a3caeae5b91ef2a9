package toolchain

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// allowed lists what tools need of /etc, as patterns relative to it; a directory
// brings all below it. Nothing in it holds secrets on a sound host: files that
// often do (npmrc, pip.conf, gitconfig, maven/settings.xml, profile.d, ssl/private)
// are left out, and what others may not read is never copied.
var allowed = []string{
	// Dynamic linking and the choice between versions of a tool.
	"ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives",
	// Trust in certificate authorities, in the places of the larger distributions.
	"ssl/certs", "ssl/openssl.cnf", "ssl/cert.pem", "ca-certificates", "ca-certificates.conf",
	"pki/tls/certs", "pki/tls/cert.pem", "pki/tls/openssl.cnf", "pki/ca-trust", "crypto-policies",
	// Time, language, and names of the network.
	"localtime", "timezone", "locale.alias", "locale.conf", "mime.types", "protocols", "services", "rpc",
	"ethertypes", "networks", "host.conf", "gai.conf", "magic", "terminfo", "inputrc", "shells",
	// What the system is.
	"os-release", "debian_version", "lsb-release", "alpine-release", "redhat-release", "system-release",
	// Languages and libraries that keep part of themselves here.
	"java*", "maven/m2.conf", "maven/logging", "maven/toolchains.xml", "python*", "perl", "nodejs",
	"php/*/mods-available", "php/*/cli/conf.d", "R/Makeconf", "R/ldpaths", "R/Renviron", "R/repositories",
	"fonts", "xml", "sgml", "ImageMagick-*", "OpenCL", "glvnd", "gss",
}

// entry is one file, link or directory below /etc.
type entry struct {
	// rel is relative to /etc, path its place on the host.
	rel, path string
	info      fs.FileInfo
	// link is a symbolic link's target.
	link string
}

// scanEtc returns the allowed entries below etc, sorted, parents before children.
func scanEtc(etc string) ([]entry, error) {
	var found []entry
	for _, pattern := range allowed {
		paths := []string{filepath.Join(etc, pattern)}
		if strings.ContainsRune(pattern, '*') {
			paths, _ = filepath.Glob(paths[0]) // fails only for a malformed pattern
		}
		for _, p := range paths {
			if err := walk(etc, p, &found); err != nil {
				return nil, err
			}
		}
	}
	slices.SortFunc(found, func(a, b entry) int { return strings.Compare(a.rel, b.rel) })
	return found, nil
}

// walk adds what is at p and below it. Absent paths are fine: hosts differ.
func walk(etc, p string, found *[]entry) error {
	info, err := os.Lstat(p)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	e := entry{rel: strings.TrimPrefix(p, etc+"/"), path: p, info: info}
	switch mode := info.Mode(); {
	case mode&fs.ModeSymlink != 0:
		if e.link, err = os.Readlink(p); err != nil {
			return err
		}
	case mode.IsRegular() && mode&0o004 != 0:
	case mode.IsDir() && mode&0o005 == 0o005:
		return walkDir(etc, e, found)
	default: // sockets, devices, and what others may not read
		return nil
	}
	*found = append(*found, e)
	return nil
}

func walkDir(etc string, dir entry, found *[]entry) error {
	*found = append(*found, dir)
	children, err := os.ReadDir(dir.path)
	if err != nil {
		return err
	}
	for _, c := range children {
		if err := walk(etc, filepath.Join(dir.path, c.Name()), found); err != nil {
			return err
		}
	}
	return nil
}
