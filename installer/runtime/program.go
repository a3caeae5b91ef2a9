package runtime

import (
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	goruntime "runtime"
	"syscall"
	"time"

	"github.com/quavon/quavon/runner/bounded"
	"github.com/quavon/quavon/runner/disk"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/sandbox/runsc"
)

// helpers is the directory that must stay beside runsc.
const helpers = runsc.HelpersDir

var (
	releaseForm = regexp.MustCompile(`runsc version (release-[A-Za-z0-9.-]{1,60}|[A-Za-z0-9._-]{1,60})`)
	upstream    = regexp.MustCompile(`^release-(\d{8})\.\d+$`)
)

// splitRelease is the first whose archive has helpers beside runsc.
const splitRelease = "20260817"

// versionTime is how long a runsc may take to say its version.
const versionTime = 20 * time.Second

var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// checkProgram says which release a runsc is of. It must be static and of this
// machine: another passes --version and fails every run, with words about something
// else.
func checkProgram(ctx context.Context, path string) (release string, err error) {
	const hint = "use the runsc beside quavon, or a gVisor release for this machine"
	if err := checkFormat(path, hint); err != nil {
		return "", err
	}
	asked, cancel := context.WithTimeoutCause(ctx, versionTime, errors.New("it does not answer"))
	defer cancel()
	out, err := exec.CommandContext(asked, path, "--version").Output()
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	m := releaseForm.FindSubmatch(out)
	if err != nil || m == nil {
		return "", fault.New(fmt.Sprintf("%s --version says %.100q: %v", path, out, err), hint)
	}
	release = string(m[1])
	if up := upstream.FindStringSubmatch(release); up != nil && up[1] >= splitRelease {
		if all, err := os.ReadDir(filepath.Join(filepath.Dir(path), helpers)); err != nil || len(all) == 0 {
			return "", fault.New(fmt.Sprintf("%s of %s needs %s beside it", path, release, helpers),
				"name the release's whole archive with --runsc")
		}
	}
	return release, nil
}

func checkFormat(path, hint string) error {
	file, err := bounded.Open(path)
	if err != nil {
		return fault.Wrap(err, "there is no program", hint)
	}
	defer file.Close()
	f, err := elf.NewFile(file)
	if err != nil {
		return fault.Wrap(err, path+" is no program", hint)
	}
	if f.Machine != machines[goruntime.GOARCH] {
		return fault.New(fmt.Sprintf("%s is for %s, and this machine is %s", path, f.Machine, goruntime.GOARCH), hint)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return fault.New(path+" needs a loader, which a sandbox doesn't have", hint)
		}
	}
	return nil
}

// copyProgram copies a program of this host.
func copyProgram(ctx context.Context, from, to string) error {
	in, err := bounded.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	return writeProgram(to, &budget{ctx: ctx, r: in, left: usual.unpacked, most: usual.unpacked})
}

// writeProgram writes a file that everyone may run: runsc starts itself as nobody. Meanwhile
// no process is started, which would have it open for writing until its own program runs:
// nobody can run it as long.
func writeProgram(to string, in io.Reader) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o700)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if err == nil {
		err = out.Chmod(0o755)
	}
	if err == nil {
		err = out.Sync()
	}
	return errors.Join(err, out.Close())
}

// syncTree puts a tree on disk, with directories that everyone may enter.
func syncTree(dir string) error {
	return filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.IsDir() {
			return err
		}
		if err := os.Chmod(path, 0o755); err != nil {
			return err
		}
		return disk.SyncDir(path)
	})
}
