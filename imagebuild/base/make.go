package base

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/quavon/quavon/imagebuild/tarlayer"
	"github.com/quavon/quavon/runner/fault"
)

// ErrMoved is a mirror that has other versions than the recipe pins. Debian's own
// keeps only the newest ones.
var ErrMoved = errors.New("the mirror no longer has what the base pins")

// Options of making a base.
type Options struct {
	// Sources is the text of apt's list of sources for another mirror than
	// Debian's own, in either of apt's formats. Nothing of it is in the base.
	Sources []byte
	// Unpinned takes the versions that the mirror has today.
	Unpinned bool
	// Log gets what mmdebstrap says, which is a lot; nil for nobody.
	Log io.Writer
}

// Base is a base that was made.
type Base struct {
	// Image has one layer, which is read from the file Layer.
	Image v1.Image
	Layer string
	// Packages are all that are installed, sorted: "adduser=3.152".
	Packages []string
}

// Program is the one that makes bases; without it a base can't be made here.
func Program() (string, error) {
	path, err := exec.LookPath("mmdebstrap")
	if err != nil {
		return "", fault.Wrap(err, "can't make a base", "type: sudo apt-get install mmdebstrap; or name a base by digest in images.yaml")
	}
	return path, nil
}

// Make makes the base for an architecture. The image's layer is a new file in
// dir; it is the caller's to remove when the image isn't needed any more.
func (r *Recipe) Make(ctx context.Context, arch, dir string, o Options) (*Base, error) {
	pins, pinned := r.Pins[arch]
	if !pinned && !o.Unpinned {
		return nil, fault.New("the recipe pins no packages for "+arch, "build for another platform, or add "+arch+".txt")
	}
	program, err := Program()
	if err != nil {
		return nil, err
	}
	scratch, err := os.MkdirTemp(dir, "base-*")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(scratch)
	if o.Unpinned {
		pins = nil
	}
	args, err := r.arguments(arch, scratch, pins, o.Sources)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = r.environment()
	layer, packages, err := run(ctx, cmd, dir, o.Log)
	if err != nil {
		return nil, err
	}
	b := &Base{Layer: layer.Path, Packages: packages}
	if diff := differences(pins, packages); len(diff) > 0 && !o.Unpinned {
		return nil, errors.Join(moved(diff), os.Remove(layer.Path))
	}
	b.Image, err = r.image(arch, layer)
	return b, err
}

// run copies mmdebstrap's tar to a layer in dir.
func run(ctx context.Context, cmd *exec.Cmd, dir string, log io.Writer) (*tarlayer.Layer, []string, error) {
	last := &tail{}
	cmd.Stderr = last
	if log != nil {
		cmd.Stderr = io.MultiWriter(last, log)
	}
	// Asked to end, it removes what it unpacked; what it runs has to end for that.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 30 * time.Second
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, nil, fault.Wrap(err, "can't start mmdebstrap", "check that "+cmd.Path+" runs")
	}
	l, packages, readErr := normalize(out, dir)
	if readErr != nil { // whatever else it has to say isn't wanted
		_ = cmd.Cancel()
	}
	_, _ = io.Copy(io.Discard, out)
	err = cmd.Wait()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	} else if err != nil {
		err = fault.Wrap(fmt.Errorf("%w\n%s", err, last), "mmdebstrap couldn't make the base",
			"check that this machine reaches Debian's mirror, or name another with the secret apt-sources")
	}
	if err == nil {
		err = readErr
	}
	if err != nil && l != nil {
		err = errors.Join(err, os.Remove(l.Path))
	}
	return l, packages, err
}

func moved(diff []string) error {
	const shown = 8
	more := ""
	if len(diff) > shown {
		diff, more = diff[:shown], fmt.Sprintf("\nand %d more", len(diff)-shown)
	}
	return fault.Wrap(fmt.Errorf("%w:\n%s%s", ErrMoved, strings.Join(diff, "\n"), more), "can't make the base as it is pinned",
		"take a newer Quavon, name a mirror that keeps old versions with the secret apt-sources, or pin anew: docs/images-shipped.md")
}

// arguments of mmdebstrap. Files that it needs are put into scratch.
func (r *Recipe) arguments(arch, scratch string, pins []string, sources []byte) ([]string, error) {
	args := []string{
		"--variant=minbase", "--format=tar", "--architectures=" + arch, "--skip=output/dev",
		// Documents nobody reads in a sandbox; licences stay.
		"--dpkgopt=path-exclude=/usr/share/doc/*", "--dpkgopt=path-include=/usr/share/doc/*/copyright",
		"--dpkgopt=path-include=" + publicSources,
		"--dpkgopt=path-exclude=/usr/share/man/*", "--dpkgopt=path-exclude=/usr/share/info/*",
		"--dpkgopt=path-exclude=/usr/share/locale/*", "--dpkgopt=path-exclude=/usr/share/lintian/*",
	}
	if len(r.Include) > 0 {
		args = append(args, "--include="+strings.Join(r.Include, ","))
	}
	if len(pins) > 0 {
		var prefs bytes.Buffer
		for _, p := range pins {
			name, version, _ := strings.Cut(p, "=")
			fmt.Fprintf(&prefs, "Package: %s\nPin: version %s\nPin-Priority: 1001\n\n", name, version)
		}
		path := filepath.Join(scratch, "pins")
		if err := os.WriteFile(path, prefs.Bytes(), 0o644); err != nil {
			return nil, err
		}
		args = append(args, "--setup-hook=upload '"+path+"' /etc/apt/preferences.d/pins",
			`--customize-hook=rm "$1"/etc/apt/preferences.d/pins`)
	}
	// The list of sources that apt itself brings names Debian's public mirror.
	args = append(args, `--customize-hook=rm -f "$1"/etc/apt/sources.list "$1"/etc/apt/sources.list.d/*`,
		`--customize-hook=cp "$1"`+publicSources+` "$1"/etc/apt/sources.list.d/debian.sources`, r.Suite, "-")
	if len(sources) > 0 {
		path := filepath.Join(scratch, "sources")
		if err := os.WriteFile(path, sources, 0o644); err != nil {
			return nil, err
		}
		args = append(args, path)
	}
	return args, nil
}

const publicSources = "/usr/share/doc/apt/examples/debian.sources"

// environment is that of mmdebstrap and of the packages' scripts.
func (r *Recipe) environment() []string {
	env := []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C", "HOME=/root",
		"DEBIAN_FRONTEND=noninteractive", fmt.Sprintf("SOURCE_DATE_EPOCH=%d", r.Time.Unix()),
	}
	for _, name := range []string{"http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "TMPDIR"} {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return env
}

// tail keeps the last 2 KiB written.
type tail struct{ text []byte }

func (t *tail) Write(p []byte) (int, error) {
	const keep = 2 << 10
	t.text = append(t.text, p...)
	if n := len(t.text) - keep; n > 0 {
		t.text = append(t.text[:0], t.text[n:]...)
	}
	return len(p), nil
}

func (t *tail) String() string { return strings.ToValidUTF8(string(t.text), "?") }
