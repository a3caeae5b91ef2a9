package commands

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/quavon/quavon/runner/agent"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/job"
)

// Environment variables that name the binaries quavon uses.
const (
	envGuest = "QUAVON_GUEST"
	envRunsc = "QUAVON_RUNSC"
)

// findGuest is the agent to put into sandboxes: QUAVON_GUEST, else the one beside
// quavon.
func (p *program) findGuest() (string, error) {
	path := p.env(envGuest)
	if path == "" {
		var err error
		if path, err = beside("quavon-guest"); err != nil {
			return "", unavailable("quavon-guest is missing", err,
				"run make, which builds it beside quavon, or set "+envGuest)
		}
	}
	if err := agent.CheckGuest(path); err != nil {
		return "", err
	}
	return filepath.Abs(path)
}

// findRunsc is gVisor's runtime: flag, QUAVON_RUNSC, beside quavon, then PATH.
func (p *program) findRunsc(flag string) (string, error) {
	for _, named := range []struct{ path, by string }{{flag, "--runsc"}, {p.env(envRunsc), envRunsc}} {
		if named.path == "" {
			continue
		}
		path, err := exec.LookPath(named.path)
		if err != nil {
			return "", unavailable("no runsc where "+named.by+" says", err, "correct "+named.by+", or leave it out")
		}
		return filepath.Abs(path)
	}
	if path, err := beside("runsc"); err == nil {
		return path, nil
	}
	path, err := exec.LookPath("runsc")
	if err != nil {
		return "", unavailable("runsc is missing", err, "run make, which builds it beside quavon, or set "+envRunsc)
	}
	return filepath.Abs(path)
}

// beside is an executable in the directory of this one.
func beside(name string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	if real, err := filepath.EvalSymlinks(self); err == nil {
		self = real
	}
	path := filepath.Join(filepath.Dir(self), name)
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
		return "", &fs.PathError{Op: "run", Path: path, Err: errors.New("not an executable file")}
	}
	return path, nil
}

func unavailable(what string, err error, hint string) error {
	return fault.Wrap(err, what, hint).WithCode(string(job.ReasonSandboxUnavailable))
}
