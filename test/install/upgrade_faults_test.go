//go:build faults

package install_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestFaultsOfLife: without sandboxes nothing of Docker's changes; an installation that is
// killed is taken back by the next one, which succeeds; an upgrade whose services don't come up
// leaves all that was there before it, gVisor too, and jobs run as before.
func TestFaultsOfLife(t *testing.T) {
	l := newLife(t)
	defer func() { t.Log("time for each step:\n" + strings.Join(l.took, "\n")) }()
	l.step("without --sandbox it is Valkey alone", l.valkeyAlone)
	for _, phase := range []string{"images", "compose", "wait"} {
		l.step("the first is killed in "+phase, func() { l.kill(phase) })
	}
	l.step("the next succeeds", func() {
		l.says(l.changes("install", "--sandbox", "--network", "none"), "interrupted in phase wait: taking that back", "QD957 pass")
		l.replaces(func() {})
		l.lock = l.read("images.lock.json")
	})
	before := l.gvisor()
	l.step("an upgrade is killed among its services", func() {
		l.spoil()
		l.quavon, l.next = l.next, l.quavon
		l.kill("compose")
	})
	l.step("another try of it fails, and leaves all as before", func() {
		out, err := l.try(l.quavon, "install", "--network", "none", "--yes", "--lib", l.lib)
		l.t.Log(out)
		if err == nil {
			l.t.Error("it succeeds")
		}
		l.says(out, "interrupted in phase compose: taking that back", "valkey-server", "phase compose was taken back, with runtime, images")
		l.quavon, l.next = l.next, l.quavon
		l.asBefore(before)
	})
	l.step("purge leaves nothing", func() {
		l.says(l.changes("uninstall", "--purge"), "uninstalled from "+l.dir)
		if d := l.left("- file " + filepath.Join(l.dir, "sources/valkey")); len(d) > 0 {
			l.t.Errorf("the host is other than before:\n%s", strings.Join(d, "\n"))
		}
	})
}

// valkeyAlone has all secrets and neither gVisor nor settings.
func (l *life) valkeyAlone() {
	l.says(l.changes("install", "--network", "none"), "installed in "+l.dir)
	if all, unwell := l.services(); len(all) != 1 || all["valkey"] == "" || len(unwell) > 0 {
		l.t.Errorf("services %v, not healthy: %v", all, unwell)
	}
	for _, name := range []string{"sandbox_signing_key", "valkey_sandbox_password", "valkey_sandbox_url", "valkey_egress_password", "valkey_egress_url"} {
		if info, err := os.Stat(filepath.Join(l.dir, "secrets", name)); err != nil || info.Mode().Perm() != 0o600 {
			l.t.Errorf("%s: %v", name, err)
		}
	}
	for _, path := range []string{l.lib, filepath.Join(l.dir, ".env")} {
		if _, err := os.Lstat(path); err == nil {
			l.t.Errorf("there is %s", path)
		}
	}
	if now := l.read(filepath.Join(l.engine, "daemon.json")); now != l.daemon {
		l.t.Errorf("daemon.json is other than before:\n%s", now)
	}
	l.changes("uninstall", "--purge")
	if d := l.left(); len(d) > 0 {
		l.t.Errorf("the host is other than before:\n%s", strings.Join(d, "\n"))
	}
}

// kill ends an installation without a word when a phase has begun; that of the services when
// one has a container.
func (l *life) kill(phase string) {
	l.t.Helper()
	cmd := exec.Command(l.quavon, "install", "--sandbox", "--network", "none", "--yes", "--lib", l.lib)
	cmd.Dir, cmd.Env = l.dir, l.env
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		l.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for l.t.Context().Err() == nil {
		select {
		case err := <-ended:
			l.t.Fatalf("it came to its end before: %v\n%s", err, out.String())
		case <-time.After(10 * time.Millisecond):
		}
		steps, _ := os.ReadFile(filepath.Join(l.dir, ".quavon", "phase.json")) // there only meanwhile
		if strings.Contains(string(steps), `"`+phase+`"`) && (phase != "compose" || l.docker("ps", "--quiet") != "") {
			break
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		l.t.Error(err)
	}
	l.t.Logf("%v\n%s", <-ended, out.String())
}

// spoil makes other images of the next quavon, of which that of Valkey lacks the program, and
// gives it another gVisor: the same, a byte longer.
func (l *life) spoil() {
	l.t.Helper()
	l.box("second")
	if err := os.Remove(filepath.Join(l.dir, "sources/valkey/root/bin/valkey-server")); err != nil {
		l.t.Fatal(err)
	}
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
