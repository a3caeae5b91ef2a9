package runtime

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/sandbox/sandboxtest"
	"github.com/quavon/quavon/test/need"
)

// TestRegistered covers case DJ-18 and, on a real file, DJ-09, DJ-10 and DJ-14: gVisor is
// added by a reload, while dockerd and its containers go on; the same again changes
// nothing; what runs on it keeps it; taken out again, the file has its bytes.
func TestRegistered(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.source = sandboxtest.Runsc(t)
	r.edit(t, "{\n", "{\n  \"labels\": [\"x=9007199254740993\"],\n")
	before := r.read(t)
	for _, err := range []error{os.Chmod(r.config(), 0o640), os.Chown(r.config(), 0, 7)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	pid := r.pid(t)
	r.mustInstall(t)
	if now := r.pid(t); now != pid {
		t.Errorf("dockerd was restarted: %d is %d", pid, now)
	}
	info, err := os.Stat(r.config())
	if err != nil || info.Mode().Perm() != 0o640 {
		t.Error(info.Mode(), err)
	}
	var st unix.Stat_t
	if err := unix.Stat(r.config(), &st); err != nil || st.Gid != 7 {
		t.Error(st.Gid, err)
	}
	r.run(t, "one")
	if _, err := r.uninstall(t.Context()); err == nil || !strings.Contains(err.Error(), "containers run with runsc: one") ||
		!strings.Contains(fault.Hint(err), "docker stop one") {
		t.Error(err, fault.Hint(err))
	}
	if out := r.docker(t, "exec", "one", "/busybox", "echo", "it can still be reached"); !strings.Contains(out, "still be reached") {
		t.Error(out)
	}
	r.docker(t, "rm", "-f", "one")
	if _, err := r.uninstall(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.clean(t, before)
	if r.registered(t) == nil {
		t.Error("dockerd forgets a runtime by now: docs/install.md and forget need not say otherwise")
	}
	r.mustInstall(t) // dockerd has it still, the file doesn't
	r.mustUninstall(t, before)
	r.end(t, unix.SIGTERM)
	r.again(t)
	if have := r.registered(t); have != nil {
		t.Errorf("after a restart dockerd has %v", have)
	}
}

// run starts a container in gVisor.
func (r *rig) run(t *testing.T, name string) {
	t.Helper()
	_, err := os.Stat("/bin/busybox")
	need.That(t, err == nil, "busybox-static")
	tar := filepath.Join(r.base, "box.tar")
	if out, err := exec.Command("tar", "-C", "/bin", "-cf", tar, "busybox").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	r.docker(t, "import", tar, "box")
	r.docker(t, "run", "-d", "--name", name, "--runtime", Name, "--network", "none", "box", "/busybox", "sleep", "1000")
}

func (r *rig) docker(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command(filepath.Join(sandboxtest.Module(t), "test", "docker", "engine.sh"), "fetch").Output()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(strings.TrimSpace(string(out)), "usr/bin/docker"), args...)
	cmd.Env = append(os.Environ(), "DOCKER_HOST=unix://"+r.socket())
	out, err = cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("docker %s: %v\n%s", args[0], err, out)
	}
	return string(out)
}

// TestReloadRefused covers cases DJ-07 and DJ-13: a dockerd that doesn't take its file
// any more, as somebody has broken it since it started. Nothing stands, dockerd isn't
// restarted into it, and the file is the operator's to correct.
func TestReloadRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.patience = impatient
	good := r.read(t)
	pid := r.pid(t)
	for old, c := range map[string]struct{ now, want string }{
		"{\n":                  {"{\n  \"no-such-key\": 1,\n", "no-such-key"}, // read by us, not by dockerd
		"\"ip6tables\": false": {"\"ip6tables\": \"false\"", "cannot unmarshal string"},
	} {
		r.edit(t, old, c.now)
		bad := r.read(t)
		_, show, err := r.install(t.Context())
		if err == nil || !strings.Contains(err.Error(), "dockerd --validate refuses") || !strings.Contains(err.Error(), c.want) || !show.has("was taken back") {
			t.Fatalf("%s: %v %v", c.now, err, show.lines)
		}
		r.clean(t, bad)
		if r.pid(t) != pid || r.registered(t) != nil {
			t.Errorf("%s: dockerd isn't as it was", c.now)
		}
		r.edit(t, c.now, old)
	}
	r.edit(t, "{", "{,")
	broken := r.read(t)
	if _, _, err := r.install(t.Context()); err == nil || !strings.Contains(err.Error(), "line 1, column 2") {
		t.Error(err)
	}
	r.clean(t, broken)
	r.edit(t, "{,", "{")
	r.patience = patient
	r.mustInstall(t)
	r.mustUninstall(t, good)
}

// TestDiesDuringReload: the file is as it was, what to do is said, and when there is a
// dockerd again the next installation succeeds.
func TestDiesDuringReload(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	before := r.read(t)
	r.hook = r.killOnRename(t)
	_, show, err := r.install(t.Context())
	if err == nil || !strings.Contains(err.Error(), "dockerd") || !show.has("was taken back") || !show.has("there is no dockerd here") {
		t.Fatal(err, show.lines)
	}
	r.clean(t, before)
	if _, _, err := r.install(t.Context()); err == nil || fault.Hint(err) == "" {
		t.Error(err)
	}
	r.again(t)
	r.hook = nil
	r.mustInstall(t)
	r.mustUninstall(t, before)
}

// killOnRename kills dockerd when its file is about to be replaced: by the time of the
// reload it is gone, or on its way.
func (r *rig) killOnRename(t *testing.T) func(string) {
	t.Helper()
	pid := r.pid(t)
	return func(point string) {
		if point == "rename "+r.config() {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
}

// TestManaged covers the same with a manager of services, which starts dockerd again, and
// --accept-risk=restart-docker with one whose reload does nothing. The manager is a
// stand-in, dockerd is not.
func TestManaged(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.patience = impatient // with a dockerd that is killed, as its manager may start it again
	before := r.read(t)
	script := filepath.Join(sandboxtest.Module(t), "test", "docker", "engine.sh")
	service := filepath.Base(r.base) + ".service"
	end := "pid=$(cat " + r.engine() + "/dockerd.pid) && kill $pid && while [ -e /proc/$pid/exe ]; do sleep 0.05; done\n"
	start := script + " again " + r.engine() + " >/dev/null 2>&1\n"
	unit(t, service, "start", start)
	unit(t, service, "reload", "kill -HUP $(cat "+r.engine()+"/dockerd.pid)")
	unit(t, service, "restart", end+start)

	r.managed(t, service)

	kill := r.killOnRename(t)
	r.hook = func(point string) { kill(point) }
	_, show, err := r.install(t.Context())
	if err == nil || !show.has("is started again: systemctl start "+service) {
		t.Fatal(err, show.lines)
	}
	r.clean(t, before)
	r.hook = nil

	unit(t, service, "reload", "exit 0")
	r.managed(t, service)
	_, _, err = r.install(t.Context())
	if err == nil || !strings.Contains(fault.Hint(err), "--accept-risk=restart-docker") {
		t.Error(err, fault.Hint(err))
	}
	r.clean(t, before)

	// A restart that fails: dockerd has ended, and the undoing starts it.
	unit(t, service, "restart", end+"echo 'Job for docker failed.'; exit 1")
	r.accept = true
	_, show, err = r.install(t.Context())
	if err == nil || !strings.Contains(err.Error(), "Job for docker failed.") || !show.has("is started again") {
		t.Error(err, show.lines)
	}
	r.clean(t, before)

	unit(t, service, "restart", end+start)
	r.managed(t, service)
	// The new process isn't in the host's files that this test has made.
	r.host = ""
	r.patience, r.accept = patient, false
	r.mustInstall(t)
	r.mustUninstall(t, before)
}

// managed makes the host one on which systemd has started this dockerd.
func (r *rig) managed(t *testing.T, service string) {
	t.Helper()
	dir := t.TempDir()
	leave(t, filepath.Join(dir, "run/systemd/system/x"), "")
	pid := r.pid(t)
	at := filepath.Join(dir, "proc", strconv.Itoa(pid))
	leave(t, filepath.Join(at, "cgroup"), "0::/system.slice/"+service+"\n")
	for _, name := range []string{"comm", "cmdline", "status", "environ", "exe", "root", "cwd"} {
		to := filepath.Join("/proc", strconv.Itoa(pid), name)
		if name == "exe" {
			to, _ = os.Readlink(to)
		}
		if err := os.Symlink(to, filepath.Join(at, name)); err != nil {
			t.Fatal(err)
		}
	}
	r.host = host(dir)
}

// TestKilled kills installations, upgrades and uninstallations between steps and in the
// middle of writes: the next one succeeds, and nothing is left in the end. Every point of
// the journal is the installer's own test; these are those of this phase, each third with
// a real dockerd, where not all are asked for.
func TestKilled(t *testing.T) {
	t.Parallel()
	stride := 3
	if os.Getenv("QUAVON_HEAVY") != "" {
		stride = 1
	}
	r := newRig(t, "tmpfs") // nothing waits for a disk
	before := r.read(t)
	first := r.source
	second := writeRunsc(t, filepath.Join(r.base, "second"), program(version(split)), "gvisor_sentry")
	points := 0
	each := func(verb string, from int, prepare, check func()) {
		for at := from; ; at += stride {
			prepare()
			ended := r.kill(t, verb, at)
			check()
			if ended {
				points += at
				return
			}
		}
	}
	each("install", 1, func() {}, func() {
		r.mustInstall(t)
		r.mustUninstall(t, before)
	})
	each("install", 2, func() {
		r.source = first
		r.mustInstall(t)
		r.source = second
	}, func() {
		r.mustInstall(t)
		r.mustUninstall(t, before) // of both versions
	})
	each("uninstall", 3, func() { r.mustInstall(t) }, func() { r.mustUninstall(t, before) })
	t.Logf("%d points", points)
	if points < 40 {
		t.Error("too few points to be all")
	}
}
