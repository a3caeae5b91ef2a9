package toolchain

import (
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/job"
)

// topDirs may be links into /usr or, on hosts that never merged them, real
// directories.
var topDirs = []string{"bin", "sbin", "lib", "lib32", "lib64", "libx32"}

// link is a symbolic link at the tree's top.
type link struct{ name, target string }

// layout is how the host arranges its programs and libraries.
type layout struct {
	links []link
	// binds begin with /usr; real top directories follow.
	binds []job.Mount
}

func readLayout(host string) (layout, error) {
	l := layout{binds: []job.Mount{bind(host, "usr")}}
	for _, name := range topDirs {
		p := filepath.Join(host, name)
		info, err := os.Lstat(p)
		switch {
		case err != nil:
			continue
		case info.IsDir():
			l.binds = append(l.binds, bind(host, name))
		case info.Mode()&os.ModeSymlink != 0:
			target, err := os.Readlink(p)
			if err != nil {
				return layout{}, fault.Wrap(err, "can't read the host's layout", "check "+p)
			}
			if !strings.HasPrefix(path.Join("/", target), "/usr/") {
				return layout{}, foreign(p + " points to " + target)
			}
			l.links = append(l.links, link{name, target})
		}
	}
	if _, err := os.Stat(filepath.Join(host, "usr", "bin", "env")); err != nil {
		return layout{}, foreign("there is no /usr/bin/env")
	}
	return l, nil
}

func foreign(why string) error {
	return fault.New("this host's toolchain can't be shown to a job: "+why,
		"use an image instead: only hosts with their tools under /usr, /bin and /lib are supported")
}

func bind(host, name string) job.Mount {
	return job.Mount{Source: filepath.Join(host, name), Target: "/" + name, Mode: job.MountReadOnly}
}
