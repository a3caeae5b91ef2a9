package workspace

import (
	"os"
	"os/user"
	"path/filepath"
	"slices"

	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/job"
)

// Directories that hold a system, not a project. The first list is refused with
// everything below, the second just as it stands.
var (
	systemTrees = []string{"/etc", "/proc", "/sys", "/dev", "/boot", "/run", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"}
	systemDirs  = []string{
		"/", "/root", "/home", "/opt", "/srv", "/mnt", "/media", "/tmp", "/usr/local", "/usr/src", "/usr/local/src",
		"/var", "/var/cache", "/var/lib", "/var/log", "/var/spool", "/var/tmp", "/var/mail", "/var/backups",
	}
	// sourceTrees are the parts of /usr where projects are kept.
	sourceTrees = []string{"/usr/src", "/usr/local/src"}
	// Below a home, trees of credentials, and directories of all programs.
	secretTrees = []string{".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker"}
	dotDirs     = []string{".config", ".local", ".cache"}
)

// CheckWorkspace resolves the directory that a job is to see and refuses those
// that would show it more than a project: the root, homes and what contains
// them, and the system's directories. Errors say what is wrong with it, and leave
// its name to the caller.
func CheckWorkspace(dir string) (string, error) { return checkWorkspace(dir, homes()) }

func checkWorkspace(dir string, homes []string) (string, error) {
	const hint = "change to the project's own directory, or name it"
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", fault.Wrap(err, "it can't be found", hint)
	}
	real, err := filepath.EvalSymlinks(abs)
	if err != nil {
		return "", fault.Wrap(err, "it can't be found", hint)
	}
	if fi, err := os.Stat(real); err != nil || !fi.IsDir() {
		return "", fault.New("it is no directory", hint)
	}
	if why := unfit(real, homes); real == abs && why != "" {
		return "", fault.New("it "+why, hint)
	} else if why != "" {
		return "", fault.New("it leads to "+real+", which "+why, hint)
	}
	return real, nil
}

// unfit says why a resolved directory can't be a workspace.
func unfit(dir string, homes []string) string {
	for _, tree := range systemTrees {
		if job.Within(dir, tree) {
			return "belongs to the system"
		}
	}
	source := func(tree string) bool { return job.Within(dir, tree) }
	if slices.Contains(systemDirs, dir) || job.Within(dir, "/usr") && !slices.ContainsFunc(sourceTrees, source) {
		return "belongs to the system"
	}
	if filepath.Dir(dir) == "/home" {
		return "is a home directory"
	}
	for _, home := range homes {
		if job.Within(home, dir) {
			return "is or contains the home directory " + home
		}
		for _, tree := range secretTrees {
			if job.Within(dir, filepath.Join(home, tree)) {
				return "holds credentials"
			}
		}
		for _, name := range dotDirs {
			if dir == filepath.Join(home, name) {
				return "belongs to all programs of its user"
			}
		}
	}
	return ""
}

// homes lists the resolved home directories of whoever runs this, also of the
// user behind sudo.
func homes() []string {
	list := []string{os.Getenv("HOME")}
	if u, err := user.Current(); err == nil {
		list = append(list, u.HomeDir)
	}
	if u, err := user.Lookup(os.Getenv("SUDO_USER")); err == nil {
		list = append(list, u.HomeDir)
	}
	var real []string
	for _, home := range list {
		if home, err := filepath.EvalSymlinks(home); err == nil && filepath.IsAbs(home) && home != "/" {
			real = append(real, home)
		}
	}
	slices.Sort(real)
	return slices.Compact(real)
}
