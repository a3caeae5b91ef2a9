package runtime

import (
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/aymanbagabas/go-udiff"

	"github.com/quavon/quavon/installer/phase"
)

// changes are the lines of a plan.
func (p *plan) changes(r *Runtime) (all []phase.Change) {
	add := func(a phase.Action, target, summary, diff string) {
		all = append(all, phase.Change{Action: a, Target: target, Summary: summary, Diff: diff})
	}
	made := func(before bool) phase.Action {
		if before {
			return phase.Edit
		}
		return phase.Create
	}
	if p.found != nil {
		add(phase.Check, Name, "is registered as "+p.found.String()+", and used as it is", "")
		return all
	}
	if p.use {
		add(phase.Create, user{Dir: r.Target.Dir}.file(r.lib()), "note that this installation uses what is there", "")
	}
	if p.unpack {
		add(phase.Create, filepath.Join(r.lib(), p.version), "gVisor from "+p.source.shown(), "")
	}
	if p.link {
		add(made(p.was != ""), r.link(), "point it at "+p.version, "")
	}
	if p.after != nil {
		add(made(p.before != nil), p.path, "register the runtime "+Name+p.note,
			udiff.Unified("before", "after", masked(p.before), masked(p.after)))
	} else if p.want.Path != "" && !p.want.same(registered{Path: r.entry().Path, Args: r.entry().Args}) {
		add(phase.Check, Name, "is registered as "+p.want.String()+", which stays as somebody has changed it", "")
	}
	if p.reload {
		add(phase.Run, "dockerd", "read "+p.path+" again; containers go on running", "")
	}
	return all
}

// Passwords are in URLs, as of proxies, and secrets in settings of logging drivers.
var (
	inURL  = regexp.MustCompile(`(:\\?/\\?/)[^/"\s]+@`)
	byName = regexp.MustCompile(`(?i)("[^"]*(?:token|passw|secret|credential)[^"]*"\s*:\s*)"(?:[^"\\]|\\.)*"`)
)

// masked is a text without them.
func masked(text []byte) string {
	return byName.ReplaceAllString(inURL.ReplaceAllString(string(text), "$1…@"), `$1"…"`)
}

// offer says what virtual machines would still need where the kernel makes them, and
// why it makes none where it should.
func (r *Runtime) offer() []phase.Change {
	if r.KVM == nil {
		return nil
	}
	step, err := r.KVM()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	c := phase.Change{Action: phase.Check, Target: "/dev/kvm"}
	if err != nil {
		c.Summary = fmt.Sprintf("makes no virtual machines (%s: %v): `quavon doctor` says why; gVisor needs none", step, err)
		return []phase.Change{c}
	}
	needs := []string{"a guest kernel", "a root file system of each image"}
	for _, program := range []string{"jailer", "firecracker"} {
		if _, err := exec.LookPath(program); err != nil {
			needs = append([]string{program}, needs...)
		}
	}
	c.Summary = "makes virtual machines: the backend firecracker could be used here, outside Docker. It still needs " +
		strings.Join(needs, ", ") + " (docs/install.md)"
	return []phase.Change{c}
}
