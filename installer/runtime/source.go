package runtime

import (
	"context"
	"errors"
	"net/url"
	"os"
	"regexp"
	"strings"

	"github.com/quavon/quavon/runner/bounded"
	"github.com/quavon/quavon/runner/disk"
	"github.com/quavon/quavon/runner/fault"
)

// source is where gVisor comes from.
type source struct {
	path, sha512 string
	archive, url bool
	// version names its directory: by release and content, or by the archive's digest.
	version string
}

var (
	digestForm  = regexp.MustCompile(`^[0-9a-f]{128}$`)
	archiveForm = regexp.MustCompile(`\.(tar\.(zstd?|bz2|gz)|tgz)$`)
)

// maxDigestFile bounds the file beside an archive, in bytes.
const maxDigestFile = 64 << 10

func (r *Runtime) source(ctx context.Context) (*source, error) {
	s := &source{path: r.Source}
	if s.path == "" {
		var err error
		if s.path, err = r.Beside(); err != nil {
			return nil, fault.Wrap(err, "there is no runsc to install",
				"put it beside quavon, or name an archive of a gVisor release with --runsc")
		}
	}
	s.url = strings.HasPrefix(s.path, "https://") || strings.HasPrefix(s.path, "http://")
	s.archive = s.url || archiveForm.MatchString(s.path)
	if !s.archive {
		return s, s.ofProgram(ctx)
	}
	return s, s.ofArchive(r.SHA512)
}

// ofArchive takes the digest that was given, else that of the file beside the archive.
func (s *source) ofArchive(sum string) error {
	if !s.url {
		if info, err := os.Stat(s.path); err != nil || !info.Mode().IsRegular() {
			return fault.Wrap(errors.Join(err, errors.New("it is no regular file")), "look at the archive of gVisor "+s.path,
				"name a file that is there with --runsc")
		}
	}
	if s.sha512 = strings.ToLower(sum); s.sha512 == "" && !s.url {
		// As gVisor publishes it: the digest and the file's name.
		if raw, err := bounded.ReadFile(s.path+".sha512", maxDigestFile); err == nil {
			first, _, _ := strings.Cut(strings.TrimSpace(string(raw)), " ")
			s.sha512 = strings.ToLower(first)
		}
	}
	if !digestForm.MatchString(s.sha512) {
		return fault.New("it isn't said what "+s.shown()+" must be",
			"add --runsc-sha512 with the release's digest, 128 hexadecimal digits")
	}
	s.version = s.sha512[:16]
	return nil
}

// ofProgram names the version of a runsc that is there.
func (s *source) ofProgram(ctx context.Context) error {
	release, err := checkProgram(ctx, s.path)
	if err != nil {
		return err
	}
	sum, err := disk.Sum(s.path)
	if err == nil {
		s.version = release + "-" + sum[:8]
	}
	return err
}

// shown is the path, without what in a URL may be a password.
func (s *source) shown() string {
	if !s.url {
		return s.path
	}
	u, err := url.Parse(s.path)
	if err != nil {
		return "the URL given with --runsc"
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return u.String()
}
