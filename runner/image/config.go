package image

import (
	"fmt"
	"path"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/image/flatten"
)

const (
	maxEnv  = 1 << 10
	maxArgs = 1 << 10
)

// runOf takes from a config what running the image needs.
func runOf(c *v1.ConfigFile) (Run, error) {
	r := Run{
		User: c.Config.User, Env: c.Config.Env, WorkDir: c.Config.WorkingDir,
		Entrypoint: c.Config.Entrypoint, Cmd: c.Config.Cmd,
	}
	if len(r.Env) > maxEnv || len(r.Entrypoint)+len(r.Cmd) > maxArgs {
		return r, fmt.Errorf("the config has more than %d variables or arguments", maxEnv)
	}
	for _, s := range append(append(append([]string{r.User, r.WorkDir}, r.Env...), r.Entrypoint...), r.Cmd...) {
		if strings.IndexByte(s, 0) >= 0 {
			return r, fmt.Errorf("the config has a NUL byte in %q", s)
		}
	}
	for _, e := range r.Env {
		if name, _, ok := strings.Cut(e, "="); !ok || name == "" {
			return r, fmt.Errorf("the config's variable %q is not NAME=value", e)
		}
	}
	return r, nil
}

// checkPaths refuses a working directory or a program below /proc or /dev/fd,
// directly or through the image's symbolic links: that is how a container gets
// hold of what its runtime left open (CVE-2024-21626).
func (r *Run) checkPaths(t *flatten.Tree) error {
	named := []struct{ what, path string }{{"WorkingDir", r.WorkDir}}
	if len(r.Entrypoint) > 0 {
		named = append(named, struct{ what, path string }{"Entrypoint", r.Entrypoint[0]})
	} else if len(r.Cmd) > 0 {
		named = append(named, struct{ what, path string }{"Cmd", r.Cmd[0]})
	}
	for _, n := range named {
		if n.path == "" {
			continue
		}
		if n.what != "WorkingDir" && !strings.Contains(n.path, "/") {
			continue // looked up in PATH
		}
		real := t.Resolve(path.Join("/", n.path))
		for _, p := range []string{path.Join("/", n.path), real} {
			if within(p, "/proc") || within(p, "/dev/fd") {
				return fault.New(fmt.Sprintf("the image's %s %q leads to %s", n.what, n.path, p),
					"build the image without it: no program needs to start there")
			}
		}
	}
	return nil
}

// workDir is the working directory when the image doesn't have it, as Docker
// makes it too.
func (r *Run) workDir(t *flatten.Tree) []flatten.Point {
	if r.WorkDir == "" {
		return nil
	}
	p := t.Resolve(path.Join("/", r.WorkDir))
	above := p
	for t.Lookup(above) == nil {
		above = path.Dir(above)
	}
	if above == p || !t.Lookup(above).IsDir() {
		return nil
	}
	return []flatten.Point{dir(p, 0o755)}
}

func within(p, dir string) bool { return p == dir || strings.HasPrefix(p, dir+"/") }
