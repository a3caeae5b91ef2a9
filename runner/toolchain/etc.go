package toolchain

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
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
	// rel is relative to /etc.
	rel  string
	stat unix.Stat_t
}

func (e entry) is(kind uint32) bool { return e.stat.Mode&unix.S_IFMT == kind }

// allowed says whether the entry may be copied: links, and what others may read.
func (e entry) allowed() bool {
	switch e.stat.Mode & unix.S_IFMT {
	case unix.S_IFLNK:
		return true
	case unix.S_IFREG:
		return e.stat.Mode&0o004 != 0
	case unix.S_IFDIR:
		return e.stat.Mode&0o005 == 0o005
	}
	return false // sockets, devices
}

// scanEtc returns the allowed entries below etc, sorted, parents before
// children. It is on the path of every run: one fstatat for each entry, no more.
func scanEtc(etc string) ([]entry, error) {
	var found []entry
	for _, pattern := range allowed {
		paths := []string{filepath.Join(etc, pattern)}
		if strings.ContainsRune(pattern, '*') {
			paths, _ = filepath.Glob(paths[0]) // fails only for a malformed pattern
		}
		for _, p := range paths {
			rel := strings.TrimPrefix(p, etc+"/")
			if err := walk(unix.AT_FDCWD, p, rel, &found); err != nil {
				return nil, fmt.Errorf("%s: %w", p, err)
			}
		}
	}
	slices.SortFunc(found, func(a, b entry) int { return strings.Compare(a.rel, b.rel) })
	return found, nil
}

// walk adds what is called name in the directory dirfd, and all below it. Absent
// paths are fine: hosts differ.
func walk(dirfd int, name, rel string, found *[]entry) error {
	e := entry{rel: rel}
	err := unix.Fstatat(dirfd, name, &e.stat, unix.AT_SYMLINK_NOFOLLOW)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		return nil
	}
	if err != nil {
		return err
	}
	if !e.allowed() {
		return nil
	}
	*found = append(*found, e)
	if !e.is(unix.S_IFDIR) {
		return nil
	}
	fd, err := unix.Openat(dirfd, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	dir := os.NewFile(uintptr(fd), rel)
	defer dir.Close() // only read
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, n := range names {
		if err := walk(fd, n, rel+"/"+n, found); err != nil {
			return err
		}
	}
	return nil
}
