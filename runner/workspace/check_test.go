package workspace

import (
	"os"
	"testing"

	"github.com/quavon/quavon/runner/fault"
)

func TestUnfit(t *testing.T) {
	t.Parallel()
	homes := []string{"/home/ann", "/root", "/data/people/bob"}
	for dir, fit := range map[string]bool{
		"/": false, "/root": false, "/home": false, "/home/ann": false, "/home/carl": false, "/data": false, "/data/people": false,
		"/etc": false, "/etc/nginx": false, "/usr": false, "/usr/lib/x": false, "/usr/src": false, "/var": false, "/var/lib": false,
		"/proc": false, "/proc/1/cwd": false, "/sys": false, "/dev/shm": false, "/boot": false, "/run/user/1000": false, "/tmp": false,
		"/home/ann/.ssh": false, "/home/ann/.ssh/keys": false, "/home/ann/.config": false, "/bin": false, "/lib64": false,
		"/root/project": true, "/home/ann/project": true, "/home/ann/.config/nvim": true, "/home/ann/.cache/go-build": true,
		"/data/people/bob/x": true, "/data/other": true, "/usr/src/app": true, "/usr/local/src/app": true, "/var/lib/jenkins": true,
		"/tmp/x": true, "/etcetera": true, "/srv/www": true, "/home/ann/.sshx": true, "/work": true,
	} {
		if why := unfit(dir, homes); (why == "") != fit {
			t.Errorf("%s: %q", dir, why)
		}
	}
}

func TestCheckWorkspace(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	must(t, os.Mkdir(dir+"/project", 0o755))
	must(t, os.WriteFile(dir+"/file", nil, 0o644))
	must(t, os.Symlink("project", dir+"/link"))
	must(t, os.Symlink("/etc", dir+"/etc"))
	for name, want := range map[string]string{
		"project": dir + "/project", "project/../project/": dir + "/project", "link": dir + "/project", "etc": "", "file": "", "nothing": "", "": "",
	} {
		got, err := checkWorkspace(dir+"/"+name, []string{dir})
		if got != want || (err == nil) != (want != "") || err != nil && fault.Hint(err) == "" {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
}

func TestIsDotGit(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		".git": true, ".GIT": true, ".Git": true, ".git ": true, ".git.": true, ".git. .": true, "git~1": true, "GIT~1 ": true,
		".git:stream": true, ".git::$INDEX_ALLOCATION": true, `.git\x`: true, ".g\u200cit": true, "\ufeff.git": true,
		".gitignore": false, "git": false, ".git2": false, "git~2": false, "x.git": false, "..git": false, ".github": false,
	} {
		if isDotGit(name) != want {
			t.Errorf("%q: %v", name, !want)
		}
	}
}
