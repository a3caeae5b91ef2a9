package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/quavon/quavon/doctor"
	"github.com/quavon/quavon/runner/fault"
)

func (c Config) storage() []*doctor.Check {
	return []*doctor.Check{
		{
			Code: "QD940", Name: "state-directory", Title: "nobody else can change the state directory", Group: groupStorage,
			Severity: doctor.Failure, DefaultFix: "set QUAVON_STATE_DIR to a directory of your own", Run: c.stateDirectory,
		},
		{
			Code: "QD941", Name: "disk", Title: "there is room for jobs", Group: groupStorage, Needs: []string{"QD940"},
			Severity: doctor.Failure, Run: c.disk,
			DefaultFix: "make room: `quavon images gc` removes what no lock needs, `quavon images ls` shows the rest",
		},
		{
			Code: "QD942", Name: "path-length", Title: "the state directory's path leaves room for sockets", Group: groupStorage,
			Needs: []string{"QD940"}, Severity: doctor.Failure, DefaultFix: "set QUAVON_STATE_DIR to a shorter path", Run: c.pathLength,
		},
		{
			Code: "QD943", Name: "secrets", Title: "nobody else can read the secrets", Group: groupStorage,
			Severity: doctor.Failure, DefaultFix: "run `chmod 600` on what is listed", Run: c.secrets,
		},
		{
			Code: "QD944", Name: "same-filesystem", Title: "images can be linked to where sandboxes are", Group: groupStorage,
			Needs: []string{"QD940"}, Severity: doctor.Warning,
			DefaultFix: "keep all of the state directory on one file system, without mounts inside", Run: c.sameFileSystem,
		},
		{
			Code: "QD945", Name: "job-users", Title: "no user of the host has a job's number", Group: groupStorage,
			Needs: []string{"QD901"}, Severity: doctor.Warning,
			DefaultFix: "give that user another number: `usermod -u`, `groupmod -g`, or edit /etc/subuid and /etc/subgid", Run: c.jobUsers,
		},
	}
}

func (c Config) stateDirectory(context.Context) doctor.Finding {
	dir, err := c.StateDir()
	if err != nil {
		return doctor.Unknown(err)
	}
	if err := c.CheckState(dir); err != nil {
		return doctor.Failed(err.Error(), fault.Hint(err))
	}
	return doctor.Passed(dir)
}

// Room below which jobs fail, and below which they will.
const (
	leastRoom  = 1 << 30
	enoughRoom = 10 << 30
)

func (c Config) disk(context.Context) doctor.Finding {
	dir, err := c.StateDir()
	if err != nil {
		return doctor.Unknown(err)
	}
	at := dir
	f, err := c.Host.FileSystem(at)
	for errors.Is(err, fs.ErrNotExist) && at != "/" {
		at = path.Dir(at)
		f, err = c.Host.FileSystem(at)
	}
	if err != nil {
		return doctor.Unknown(err)
	}
	text := fmt.Sprintf("%.1f GiB free at %s", float64(f.Free)/(1<<30), dir)
	inodes := 100.0
	if f.Inodes > 0 {
		inodes = 100 * float64(f.FreeInodes) / float64(f.Inodes)
		text += fmt.Sprintf(", %.0f %% of the inodes", inodes)
	}
	switch {
	case f.Free < leastRoom || inodes < 1:
		return doctor.Failed(text, "")
	case f.Free < enoughRoom || inodes < 5:
		return doctor.Warned(text, "")
	}
	return doctor.Passed(text)
}

// A Unix socket's path has 107 bytes, of which this many are kept for what is below
// the state directory.
const (
	socketPath = 107
	belowState = 60
)

func (c Config) pathLength(context.Context) doctor.Finding {
	dir, err := c.StateDir()
	if err != nil {
		return doctor.Unknown(err)
	}
	for _, key := range []string{"VALKEY_HOST", "DOCKER_HOST"} {
		name := strings.TrimPrefix(c.Host.Env(key), "unix://")
		if strings.HasPrefix(name, "/") && len(name) > socketPath {
			return doctor.Failed(fmt.Sprintf("%s names a socket whose path has %d bytes, %d are possible", key, len(name), socketPath),
				"move the socket to a shorter path, as below /run")
		}
	}
	text := fmt.Sprintf("%s has %d bytes, %d are possible", dir, len(dir), socketPath-belowState)
	if len(dir) > socketPath-belowState {
		return doctor.Failed(text,
			fmt.Sprintf("set QUAVON_STATE_DIR to a path of %d bytes at most, as /var/lib/quavon", socketPath-belowState))
	}
	return doctor.Passed(text)
}

// sameFileSystem really links a file, which neither device numbers nor mount points
// stand for: a bind mount of the same file system can't be linked across either.
func (c Config) sameFileSystem(context.Context) doctor.Finding {
	dir, err := c.StateDir()
	if err != nil {
		return doctor.Unknown(err)
	}
	images, sandboxes := path.Join(dir, "images"), path.Join(dir, "sandboxes")
	for _, d := range []string{images, sandboxes} {
		if _, err := c.Host.Stat(d); errors.Is(err, fs.ErrNotExist) {
			return doctor.Skipped("there is no " + d + " yet")
		}
	}
	switch err := c.Host.HardLink(images, sandboxes); {
	case err == nil:
		return doctor.Passed("a file of " + images + " was linked into " + sandboxes)
	case errors.Is(err, unix.EXDEV):
		return doctor.Failed(fmt.Sprintf("%s and %s are on two file systems or mounts: images would be copied for each machine", images,
			sandboxes), c.unmount(dir))
	default:
		return doctor.Unknown(err)
	}
}

// unmount takes away what is mounted inside the state directory; "" where it isn't known.
func (c Config) unmount(dir string) string {
	var words []string
	for _, m := range c.mounts() {
		if strings.HasPrefix(m, dir+"/") {
			words = append(words, m)
		}
	}
	if words == nil {
		return ""
	}
	return "stop the runner, run " + fault.Command(append([]string{"umount"}, words...)...) + ", and mount it at " + dir +
		" itself, or not at all"
}

// secretFiles are the settings that name a file with a secret.
var secretFiles = []string{"VALKEY_URL_FILE", "VALKEY_PASSWORD_FILE", "VALKEY_TLS_KEY_FILE", "QUAVON_SANDBOX_SIGNING_KEY_FILE"}

func (c Config) secrets(context.Context) doctor.Finding {
	var open, paths, seen []string
	for _, key := range secretFiles {
		file := c.Host.Env(key)
		if file == "" {
			continue
		}
		info, err := c.Host.Stat(file)
		if errors.Is(err, fs.ErrNotExist) {
			return doctor.Failed(fmt.Sprintf("%s names %s, which isn't there", key, file), "correct "+key)
		}
		if err != nil {
			return doctor.Unknown(err)
		}
		seen = append(seen, file)
		if info.Mode.Perm()&0o077 != 0 {
			open, paths = append(open, fmt.Sprintf("%s (%s) has mode %04o", file, key, info.Mode.Perm())), append(paths, file)
		}
	}
	switch {
	case len(open) > 0:
		return doctor.Failed("secrets can be read by others",
			"run "+fault.Command(append([]string{"chmod", "600"}, paths...)...)+", and change the secrets", open...)
	case len(seen) == 0:
		return doctor.Skipped("no setting names a file with a secret")
	}
	return doctor.Passed("only the owner reads " + strings.Join(seen, ", "))
}
