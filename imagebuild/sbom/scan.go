package sbom

import (
	"bufio"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"io"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/quavon/quavon/runner/image/erofs"
)

const (
	// maxDatabase bounds what is read of one file, in bytes.
	maxDatabase = 64 << 20
	maxField    = 200
	maxBinary   = 1 << 30
)

var errTooMany = errors.New("it has too many packages")

type scanner struct {
	found  []Package
	distro string
}

func (s *scanner) visit(name string, f *erofs.File) error {
	if !f.Regular() {
		return nil
	}
	dir, base := path.Split(name)
	switch {
	case name == "var/lib/dpkg/status" || dir == "var/lib/dpkg/status.d/" && !strings.HasSuffix(base, ".md5sums"):
		return s.dpkg(f)
	case name == "lib/apk/db/installed" || name == "usr/lib/apk/db/installed":
		return s.apk(f)
	case name == "etc/os-release" || name == "usr/lib/os-release":
		return s.osRelease(f)
	case base == "package.json" && isNPM(dir):
		return s.npm(f)
	case base == "METADATA" && strings.HasSuffix(dir, ".dist-info/") || base == "PKG-INFO" && strings.HasSuffix(dir, ".egg-info/"):
		return s.python(f)
	case strings.HasSuffix(name, "go/VERSION"):
		return s.goVersion(f)
	case f.Mode&0o111 != 0 && f.Size > 4096 && f.Size < maxBinary:
		return s.goBinary(f)
	}
	return nil
}

// add notes a package; what an image says of itself is bounded.
func (s *scanner) add(p Package) error {
	for _, field := range []string{p.Name, p.Version, p.arch} {
		if len(field) > maxField || !utf8.ValidString(field) || strings.ContainsFunc(field, unicode.IsControl) {
			return nil
		}
	}
	if p.Name == "" || p.Version == "" {
		return nil
	}
	if len(s.found) == maxPackages {
		return errTooMany
	}
	s.found = append(s.found, p)
	return nil
}

// paragraphs calls f for blocks of lines that a blank line ends, with the value
// behind each line's first separator.
func paragraphs(file *erofs.File, sep string, f func(fields map[string]string) error) error {
	lines := bufio.NewScanner(io.LimitReader(file.At(), maxDatabase))
	lines.Buffer(nil, 4<<20)
	fields := map[string]string{}
	for lines.Scan() {
		line := lines.Text()
		if line == "" && len(fields) > 0 {
			if err := f(fields); err != nil {
				return err
			}
			clear(fields)
		}
		if key, value, ok := strings.Cut(line, sep); ok && len(key) < 32 && fields[key] == "" && !strings.HasPrefix(line, " ") {
			fields[key] = strings.TrimSpace(value)
		}
	}
	if len(fields) > 0 {
		if err := f(fields); err != nil {
			return err
		}
	}
	return lines.Err()
}

func (s *scanner) dpkg(file *erofs.File) error {
	return paragraphs(file, ":", func(f map[string]string) error {
		if status := f["Status"]; status != "" && !strings.HasSuffix(status, " installed") {
			return nil
		}
		return s.add(Package{Type: "deb", Name: f["Package"], Version: f["Version"], arch: f["Architecture"]})
	})
}

func (s *scanner) apk(file *erofs.File) error {
	return paragraphs(file, ":", func(f map[string]string) error {
		return s.add(Package{Type: "apk", Name: f["P"], Version: f["V"], arch: f["A"]})
	})
}

func (s *scanner) osRelease(file *erofs.File) error {
	return paragraphs(file, "=", func(f map[string]string) error {
		id := strings.Trim(f["ID"], `"'`)
		if id != "" && len(id) < 32 && !strings.ContainsFunc(id, func(r rune) bool { return !unicode.IsLower(r) && r != '-' }) {
			s.distro = id
		}
		return nil
	})
}

// isNPM says whether a directory is a package's own: node_modules/x/ or
// node_modules/@y/x/.
func isNPM(dir string) bool {
	parent := path.Dir(strings.TrimSuffix(dir, "/"))
	return path.Base(parent) == "node_modules" ||
		strings.HasPrefix(path.Base(parent), "@") && path.Base(path.Dir(parent)) == "node_modules"
}

func (s *scanner) npm(file *erofs.File) error {
	var p struct{ Name, Version string }
	raw, err := io.ReadAll(io.LimitReader(file.At(), 4<<20))
	if err != nil {
		return err
	}
	// What is no JSON is a fixture, or somebody's joke: it names no package.
	_ = json.Unmarshal(raw, &p)
	return s.add(Package{Type: "npm", Name: p.Name, Version: p.Version})
}

func (s *scanner) python(file *erofs.File) error {
	done := errors.New("only the first paragraph counts")
	err := paragraphs(file, ":", func(f map[string]string) error {
		name := strings.ToLower(strings.NewReplacer("_", "-", ".", "-").Replace(f["Name"]))
		return errors.Join(s.add(Package{Type: "pypi", Name: name, Version: f["Version"]}), done)
	})
	if errors.Is(err, done) && !errors.Is(err, errTooMany) || errors.Is(err, bufio.ErrTooLong) {
		return nil
	}
	return err
}

// goVersion reads the file that names a Go toolchain's version: "go1.26.0".
func (s *scanner) goVersion(file *erofs.File) error {
	raw, err := io.ReadAll(io.LimitReader(file.At(), maxField))
	if err != nil {
		return err
	}
	line, _, _ := strings.Cut(string(raw), "\n")
	version, ok := strings.CutPrefix(line, "go")
	if !ok {
		return nil
	}
	return s.add(Package{Type: "generic", Name: "go", Version: version})
}

// buildInfo is nil of what is no Go program.
func buildInfo(file *erofs.File) *buildinfo.BuildInfo {
	magic := make([]byte, 4)
	if _, err := file.At().ReadAt(magic, 0); err != nil || string(magic) != "\x7fELF" {
		return nil
	}
	info, err := buildinfo.Read(file.At())
	if err != nil {
		return nil
	}
	return info
}

// goBinary reads the modules that a Go program was built from.
func (s *scanner) goBinary(file *erofs.File) error {
	info := buildInfo(file)
	if info == nil {
		return nil
	}
	version := strings.TrimPrefix(info.GoVersion, "go")
	if err := s.add(Package{Type: "golang", Name: "stdlib", Version: version}); err != nil {
		return err
	}
	if err := s.add(Package{Type: "golang", Name: info.Main.Path, Version: info.Main.Version}); err != nil {
		return err
	}
	for _, d := range info.Deps {
		if d.Replace != nil {
			d = d.Replace
		}
		if err := s.add(Package{Type: "golang", Name: d.Path, Version: d.Version}); err != nil {
			return err
		}
	}
	return nil
}
