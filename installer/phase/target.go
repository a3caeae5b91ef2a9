package phase

import (
	"os"
	"path/filepath"
)

// Target is what all phases of one installation are about.
type Target struct {
	// Dir holds the installation's files; absolute.
	Dir string
	// Sandbox says that runner and egress proxy are wanted.
	Sandbox bool
	// Backend is docker-runsc unless another was asked for.
	Backend string
	// Socket is the Docker engine's, "" when there is none.
	Socket string
	// Version is this program's.
	Version string
	// Bundle is the offline bundle's file, "" for none.
	Bundle string
	// Local says that nothing is fetched: it is planned, and nobody has agreed to that yet.
	Local bool
}

// ServiceUser is the number of the user that services are in their containers. Files that
// they have mounted belong to it; the directories above keep it out on the host.
const ServiceUser = 65532

// Files of an installation.

// Env is the file that compose reads settings from.
func (t *Target) Env() string { return filepath.Join(t.Dir, ".env") }

// Secrets is the directory of one file per secret, 0700.
func (t *Target) Secrets() string { return filepath.Join(t.Dir, "secrets") }

// Lock is the lock of all images.
func (t *Target) Lock() string { return filepath.Join(t.Dir, "images.lock.json") }

// Compose is the compose file; the operator's own is beside it, compose.override.yaml.
func (t *Target) Compose() string { return filepath.Join(t.Dir, "compose.yaml") }

// State is the installer's own directory: journal, backups, generations, 0700.
func (t *Target) State() string { return filepath.Join(t.Dir, ".quavon") }

// Installed says that a directory has an installation, or what one has left.
func Installed(dir string) bool {
	_, err := os.Lstat((&Target{Dir: dir}).State())
	return err == nil
}

// SameFile says that two paths lead to the same file or directory.
func SameFile(a, b string) bool {
	if a == b {
		return true
	}
	one, err := os.Stat(a)
	other, err2 := os.Stat(b)
	return err == nil && err2 == nil && os.SameFile(one, other)
}

// Resolved is a path without symbolic links, in as much of it as there is.
func Resolved(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil || path == filepath.Dir(path) {
		return real
	}
	return filepath.Join(Resolved(filepath.Dir(path)), filepath.Base(path))
}
