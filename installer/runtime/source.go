package runtime

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	goruntime "runtime"
	"strings"

	"github.com/quavon/quavon/runner/fault"
)

// source is where gVisor comes from.
type source struct {
	path, sha512 string
	archive, url bool
	// version names its directory: by release and content, or by the archive's digest.
	version string
}

// helpers is the directory that must stay beside runsc.
const helpers = "gvisor-bin"

var (
	digestForm  = regexp.MustCompile(`^[0-9a-f]{128}$`)
	releaseForm = regexp.MustCompile(`runsc version (release-[A-Za-z0-9.-]{1,60}|[A-Za-z0-9._-]{1,60})`)
	upstream    = regexp.MustCompile(`^release-(\d{8})\.\d+$`)
)

// splitRelease is the first whose archive has helpers beside runsc.
const splitRelease = "20260817"

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
	s.archive = s.url || regexp.MustCompile(`\.(tar\.(zstd?|bz2|gz)|tgz)$`).MatchString(s.path)
	if !s.archive {
		return s, s.ofProgram(ctx)
	}
	s.sha512 = strings.ToLower(r.SHA512)
	if s.sha512 == "" && !s.url {
		// As gVisor publishes it: the digest and the file's name.
		if raw, err := os.ReadFile(s.path + ".sha512"); err == nil {
			s.sha512, _, _ = strings.Cut(strings.TrimSpace(string(raw)), " ")
		}
	}
	if !digestForm.MatchString(s.sha512) {
		return nil, fault.New("it isn't said what "+s.path+" must be",
			"add --runsc-sha512 with the release's digest, 128 hexadecimal digits")
	}
	s.version = s.sha512[:16]
	return s, nil
}

// ofProgram names the version of a runsc that is there.
func (s *source) ofProgram(ctx context.Context) error {
	release, err := checkProgram(ctx, s.path)
	if err != nil {
		return err
	}
	sum, err := fileSum(s.path, sha256.New())
	s.version = release + "-" + sum[:8]
	return err
}

func fileSum(path string, h hash.Hash) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	_, err = io.Copy(h, f)
	return hex.EncodeToString(h.Sum(nil)), err
}

var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// checkProgram says which release a runsc is of. It must be static and of this
// machine: another passes --version and fails every run, with words about something
// else.
func checkProgram(ctx context.Context, path string) (release string, err error) {
	const hint = "use the runsc beside quavon, or a gVisor release for this machine"
	f, err := elf.Open(path)
	if err != nil {
		return "", fault.Wrap(err, path+" is no program", hint)
	}
	defer f.Close()
	if f.Machine != machines[goruntime.GOARCH] {
		return "", fault.New(fmt.Sprintf("%s is for %s, and this machine is %s", path, f.Machine, goruntime.GOARCH), hint)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return "", fault.New(path+" needs a loader, which a sandbox doesn't have", hint)
		}
	}
	out, err := exec.CommandContext(ctx, path, "--version").Output()
	m := releaseForm.FindSubmatch(out)
	if err != nil || m == nil {
		return "", fault.New(fmt.Sprintf("%s --version says %.100q: %v", path, out, err), hint)
	}
	release = string(m[1])
	if up := upstream.FindStringSubmatch(release); up != nil && up[1] >= splitRelease {
		if _, err := os.Stat(filepath.Join(filepath.Dir(path), helpers)); err != nil {
			return "", fault.New(fmt.Sprintf("%s of %s needs %s beside it", path, release, helpers),
				"name the release's whole archive with --runsc")
		}
	}
	return release, nil
}

// staging is where a version is put together.
func staging(dir string) string { return dir + ".new" }

// unpack puts the version's directory there in one step.
func (s *source) unpack(ctx context.Context, dir string) error {
	tmp := staging(dir)
	if err := os.RemoveAll(tmp); err != nil {
		return err
	}
	if err := os.Mkdir(tmp, 0o755); err != nil {
		return err
	}
	var err error
	if s.archive {
		err = s.fromArchive(ctx, tmp)
	} else {
		err = s.fromProgram(tmp)
	}
	if err == nil {
		err = syncTree(tmp)
	}
	if err == nil {
		err = os.Rename(tmp, dir)
	}
	if err != nil {
		return errors.Join(fault.Wrap(err, "install gVisor from "+s.path, fault.Hint(err)), os.RemoveAll(tmp))
	}
	return sync(filepath.Dir(dir))
}

// fromProgram copies runsc and what is beside it of gVisor's.
func (s *source) fromProgram(dir string) error {
	real, err := filepath.EvalSymlinks(s.path)
	if err != nil {
		return err
	}
	if err := copyProgram(real, filepath.Join(dir, "runsc")); err != nil {
		return err
	}
	from := filepath.Join(filepath.Dir(real), helpers)
	entries, err := os.ReadDir(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(dir, helpers), 0o755); err != nil {
		return err
	}
	for _, e := range entries {
		if err := copyProgram(filepath.Join(from, e.Name()), filepath.Join(dir, helpers, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

func copyProgram(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	if info, err := in.Stat(); err != nil || !info.Mode().IsRegular() {
		return errors.Join(err, fmt.Errorf("%s is no regular file", from))
	}
	return writeProgram(to, in, maxUnpacked)
}

// writeProgram writes a file that everyone may run: runsc starts itself as nobody.
func writeProgram(to string, in io.Reader, most int64) error {
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o700)
	if err != nil {
		return err
	}
	n, err := io.Copy(out, io.LimitReader(in, most+1))
	if err == nil && n > most {
		err = fmt.Errorf("it unpacks to more than %d bytes", int64(maxUnpacked))
	}
	if err == nil {
		err = out.Chmod(0o755)
	}
	if err == nil {
		err = out.Sync()
	}
	return errors.Join(err, out.Close())
}

func syncTree(dir string) error {
	return filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.IsDir() {
			return err
		}
		if err := os.Chmod(path, 0o755); err != nil {
			return err
		}
		return sync(path)
	})
}

func sync(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// fromArchive takes a copy of the archive while it is compared with its digest, and
// only then looks into it.
func (s *source) fromArchive(ctx context.Context, dir string) error {
	in, err := s.open(ctx)
	if err != nil {
		return err
	}
	defer in.Close()
	copied, err := os.OpenFile(filepath.Join(dir, ".archive"), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer copied.Close()
	h := sha512.New()
	n, err := io.Copy(io.MultiWriter(copied, h), io.LimitReader(in, maxArchive+1))
	if err != nil {
		return err
	}
	if n > maxArchive {
		return fmt.Errorf("it has more than %d bytes", int64(maxArchive))
	}
	if got := h.Sum(nil); !bytes.Equal(got, decoded(s.sha512)) {
		return fault.New(fmt.Sprintf("its sha512 is %x… instead of %s…", got[:8], s.sha512[:16]),
			"fetch the archive again, and take the digest from gVisor's release, not from where the archive came from")
	}
	if _, err := copied.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if err := extract(copied, dir); err != nil {
		return err
	}
	if err := os.Remove(copied.Name()); err != nil {
		return err
	}
	_, err = checkProgram(ctx, filepath.Join(dir, "runsc"))
	return err
}

func decoded(s string) []byte {
	b, _ := hex.DecodeString(s) // its form was checked
	return b
}

func (s *source) open(ctx context.Context) (io.ReadCloser, error) {
	if !s.url {
		return os.Open(s.path)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		_ = resp.Body.Close() // there is nothing to read
		return nil, fault.New(resp.Status, "name a release by its date: since August 2026 each has one archive, gvisor.tar.zstd")
	}
	return resp.Body, nil
}

// check looks at the program once more where dockerd will run it, and at the way there.
func (r *Runtime) check(ctx context.Context, p *plan) error {
	path := filepath.Join(r.lib(), p.version, "runsc")
	if _, err := checkProgram(ctx, path); err != nil {
		return err
	}
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil {
			return err
		}
		if info.Mode().Perm()&0o001 == 0 {
			return fault.New(fmt.Sprintf("%s has mode %04o, and runsc starts itself again as nobody", dir, info.Mode().Perm()),
				"chmod o+x "+dir)
		}
		if dir == "/" {
			return nil
		}
	}
}
