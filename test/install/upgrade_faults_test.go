//go:build faults

package install_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestFaultsOfLife: an installation that is killed is taken back by the next one, which
// succeeds; an upgrade whose sandboxes don't hold leaves all that was there before it,
// gVisor too, and jobs run as before.
func TestFaultsOfLife(t *testing.T) {
	l := newLife(t)
	defer func() { t.Log("time for each step:\n" + strings.Join(l.took, "\n")) }()
	for _, phase := range []string{"images", "compose", "wait"} {
		l.step("the first is killed in "+phase, func() { l.kill(phase) })
	}
	l.step("the next succeeds", func() {
		l.says(l.changes("install", "--sandbox", "--network", "none"), "interrupted in phase wait: taking that back", "QD957 pass")
		l.replaces(func() {})
		l.lock = l.read("images.lock.json")
	})
	before := l.gvisor()
	l.step("an upgrade to sandboxes that don't hold is killed in wait", func() {
		l.spoil()
		l.quavon, l.next = l.next, l.quavon
		l.kill("wait")
	})
	l.step("another try of it fails, and leaves all as before", func() {
		out, err := l.try(l.quavon, "install", "--network", "none", "--yes", "--lib", l.lib)
		l.t.Log(out)
		if err == nil {
			l.t.Error("it succeeds")
		}
		l.says(out, "interrupted in phase wait: taking that back", "was taken back, with runtime, images, compose")
		l.quavon, l.next = l.next, l.quavon
		l.asBefore(before)
	})
	l.step("purge leaves nothing", func() {
		l.says(l.changes("uninstall", "--purge"), "uninstalled from "+l.dir)
		if d := l.left("+ file " + filepath.Join(l.dir, ".env")); len(d) > 0 {
			l.t.Errorf("the host is other than before:\n%s", strings.Join(d, "\n"))
		}
	})
}

// kill ends an installation without a word when a phase has begun.
func (l *life) kill(phase string) {
	l.t.Helper()
	cmd := exec.Command(l.quavon, "install", "--sandbox", "--network", "none", "--yes", "--lib", l.lib)
	cmd.Dir, cmd.Env = l.dir, l.env
	before := map[string]string{"images": "env ", "compose": "images ", "wait": "compose "}[phase]
	out := &waiting{text: "\n" + before, do: func() { _ = cmd.Process.Kill() }}
	cmd.Stdout, cmd.Stderr = out, out
	err := cmd.Run()
	l.t.Logf("%v\n%s", err, out.out.String())
	if out.do != nil || err == nil {
		l.t.Errorf("it came to its end: %v", err)
	}
}

// spoil makes the jobs' image one of root's, which fails the probes, and gives the next
// quavon another gVisor: the same program, a byte longer.
func (l *life) spoil() {
	l.t.Helper()
	path := filepath.Join(l.dir, "sources/box/Dockerfile")
	l.write("sources/box/Dockerfile", strings.Replace(l.read(path), "USER 60000:60000", "USER 0:0", 1))
	runsc := filepath.Join(filepath.Dir(l.next), "runsc")
	raw, err := os.ReadFile(runsc)
	if err == nil {
		err = os.Remove(runsc)
	}
	if err == nil {
		err = os.WriteFile(runsc, append(raw, 0), 0o755)
	}
	if err != nil {
		l.t.Fatal(err)
	}
}

// gvisor is the version that Docker runs.
func (l *life) gvisor() string {
	l.t.Helper()
	version, err := os.Readlink(filepath.Join(l.lib, "runsc"))
	if err != nil {
		l.t.Fatal(err)
	}
	return version
}

// asBefore looks whether the first installation is there again, and works.
func (l *life) asBefore(gvisor string) {
	l.t.Helper()
	if l.read("images.lock.json") != l.lock {
		l.t.Error("the lock isn't the first one")
	}
	if now := l.gvisor(); now != gvisor {
		l.t.Errorf("gVisor is %s, was %s", now, gvisor)
	}
	all, unwell := l.services()
	for end := time.Now().Add(2 * time.Minute); (len(unwell) > 0 || len(all) < len(allServices)) && time.Now().Before(end); all, unwell = l.services() {
		time.Sleep(time.Second)
	}
	if len(unwell) > 0 || len(all) != len(allServices) {
		l.t.Errorf("services %v, not healthy: %v", all, unwell)
	}
	l.says(l.send(l.mark()), "first\n")
}

// mark is a job that prints the mark of its image.
func (l *life) mark() string { return `{"image": "box", "steps": [{"run": "cat /mark"}]}` }
