package toolchain

import (
	"errors"
	"fmt"
	"io/fs"
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
	rel string
	// mode is the kernel's, size in bytes, mtime in nanoseconds; of most links only the
	// kind is known.
	mode        uint32
	size, mtime int64
}

func (e entry) is(kind uint32) bool { return e.mode&unix.S_IFMT == kind }

// allowed says whether the entry may be copied: links, and what others may read.
func (e entry) allowed() bool {
	switch e.mode & unix.S_IFMT {
	case unix.S_IFLNK:
		return true
	case unix.S_IFREG:
		return e.mode&0o004 != 0
	case unix.S_IFDIR:
		return e.mode&0o005 == 0o005
	}
	return false // sockets, devices
}

// scanEtc returns the allowed entries below etc, sorted, parents before
// children. It is on the path of every run, so it looks at no more than it must.
func scanEtc(etc string) ([]entry, error) {
	names, err := readNames(etc)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var found []entry
	for _, pattern := range allowed {
		for _, rel := range expand(etc, pattern, names) {
			if err := walk(unix.AT_FDCWD, filepath.Join(etc, rel), rel, &found); err != nil {
				return nil, fmt.Errorf("%s in %s: %w", rel, etc, err)
			}
		}
	}
	slices.SortFunc(found, func(a, b entry) int { return strings.Compare(a.rel, b.rel) })
	return found, nil
}

func readNames(dir string) ([]string, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close() // only read
	return f.Readdirnames(-1)
}

// expand lists what a pattern may stand for; what isn't there is walk's business.
// names are those in etc, so that it isn't read again for each pattern.
func expand(etc, pattern string, names []string) []string {
	first, rest, nested := strings.Cut(pattern, "/")
	if !strings.Contains(pattern, "*") {
		return []string{pattern}
	}
	var found []string
	if !nested {
		for _, n := range names {
			if ok, _ := filepath.Match(pattern, n); ok {
				found = append(found, n)
			}
		}
		return found
	}
	below, _ := filepath.Glob(filepath.Join(etc, first, rest)) // fails only for a malformed pattern
	for _, p := range below {
		found = append(found, strings.TrimPrefix(p, etc+"/"))
	}
	return found
}

// walk adds what is called name in the directory dirfd, and all below it. Absent
// paths are fine: hosts differ.
func walk(dirfd int, name, rel string, found *[]entry) error {
	var st unix.Stat_t
	err := unix.Fstatat(dirfd, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		return nil
	}
	if err != nil {
		return err
	}
	e := entry{rel, st.Mode, st.Size, st.Mtim.Nano()}
	if !e.allowed() {
		return nil
	}
	*found = append(*found, e)
	if !e.is(unix.S_IFDIR) {
		return nil
	}
	return walkDir(dirfd, name, rel, found)
}

// walkDir adds what is in a directory. A symbolic link can't be changed, only
// replaced, which its directory's time tells: links, which most of /etc's bulk
// is, need no look of their own.
func walkDir(dirfd int, name, rel string, found *[]entry) error {
	fd, err := unix.Openat(dirfd, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	dir := os.NewFile(uintptr(fd), rel)
	defer dir.Close() // only read
	children, err := dir.ReadDir(-1)
	if err != nil {
		return err
	}
	for _, c := range children {
		below := rel + "/" + c.Name()
		if c.Type()&fs.ModeSymlink != 0 {
			*found = append(*found, entry{rel: below, mode: unix.S_IFLNK})
			continue
		}
		if err := walk(fd, c.Name(), below, found); err != nil {
			return err
		}
	}
	return nil
}
