package weak_test

import (
	"bytes"
	"crypto/rand"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quavon/quavon/runner"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/sandbox/runsc"
	"github.com/quavon/quavon/runner/sandbox/sandboxtest"
	"github.com/quavon/quavon/runner/smoke/weak"
	"github.com/quavon/quavon/runner/smoke/weak/weaktest"
	"github.com/quavon/quavon/runner/state/statetest"
	"github.com/quavon/quavon/test/need"
)

// symptoms say for each arm what a job sees by which the weakness shows.
var symptoms = []struct {
	arm    string
	script string
	want   string
}{
	{"cap-agent", `grep CapEff /proc/self/status`, `0*[0-9a-f]*2[0-9a-f]{5}\n`},
	{"cap-net-raw", `grep CapEff /proc/self/status`, `[2367abef][0-9a-f]{3}\n`},
	{"caps", `grep CapEff /proc/self/status`, bounding()},
	{"root", `id -u; cat /proc/1/status | grep Uid`, `^0\nUid:\s+0\s+0`},
	{"agent-exposed", `ls -l /proc/1/fd; cat /proc/1/environ`, `PATH=`},
	{"agent-secret", `cat /proc/1/environ`, `SIGNING_KEY=hidden`},
	{"suid", `/mnt/setuid/dash -p -c 'id -u'`, `^0\n`},
	{"host-root-ro", `cat /mnt/host/proc/version /mnt/host/etc/hostname; ls /mnt/host/var/lib/dpkg`, `status`},
	{"host-root-rw", `f=$(mktemp -p /mnt/host/tmp) && rm $f && echo written`, `written`},
	{"device", `python3 -c 'import os; print(os.open("/dev/loop-control", os.O_RDWR))'`, `^\d+\n`},
	{"uds", connect("/mnt/sockets/s"), `greeting`},
	{"docker-socket", connect("/run/docker.sock"), `greeting`},
	{"leaked-fd", `cat /proc/self/fd/9`, `(?m)^root:.*/root:/bin`},
	{"shared-dir", `cat /mnt/shared/given; echo back >/mnt/shared/back && echo written`, `given\nwritten`},
	{"host-network", `python3 -c 'import socket; socket.create_connection(("127.0.0.1", 80), 20); print("connected")'`, `connected`},
	{"nic", `python3 -c 'import socket; socket.create_connection(("10.99.0.1", 80), 20); print("connected")'`, `connected`},
	{"no-memory-limit", `python3 -c 'a = bytearray(300 << 20); print(len(a))'`, `^314572800\n`},
	// Of sleeps, as sixty interpreters come near the limit of memory.
	{"no-pids-limit", `for i in $(seq 60); do sleep 1000 & done; echo all there`, `all there`},
	{"no-disk-limit", `head -c 70000000 /dev/zero > /tmp/f && stat -c %s /tmp/f`, `^70000000\n`},
	// By the kernel's own number: a guest's clock is not to be believed on a busy host.
	{"no-cpu-limit", `sleep 1`, `^no processor quota\n`},
	{"no-wall-clock", untilOver, `still here`},
	{"no-output-limit", `head -c 3000000 /dev/zero | tr '\0' x | wc -c; head -c 3000000 /dev/zero | tr '\0' x; echo end`, `end\n$`},
	{"no-cleanup", `true`, `still there`},
	{"env-secret", `env`, `SIGNING_KEY=hidden`},
	{"open-door", `python3 -c '
import socket
s = socket.create_connection(("127.0.0.1", 3128), 20)
s.send(b"CONNECT 127.0.0.1:PORT HTTP/1.1\r\n\r\n")
print(s.recv(100))'`, `200 OK`},
	{"runc", `uname -r; grep Seccomp: /proc/self/status`, `^` + regexp.QuoteMeta(release()) + `\nSeccomp:\s+2`},
	{"runc-no-seccomp", `uname -r; grep Seccomp: /proc/self/status`, regexp.QuoteMeta(release()) + `\nSeccomp:\s+0`},
	{"runc-caps", `grep CapEff /proc/self/status; uname -r`, bounding() + regexp.QuoteMeta(release())},
	{"runc-root", `id -u; grep CapEff /proc/self/status; uname -r`, `^0\n` + bounding() + regexp.QuoteMeta(release())},
	{"runc-suid", `uname -r; /mnt/setuid/dash -p -c 'id -u'`, regexp.QuoteMeta(release()) + `\n0\n`},
	{"runc-unmasked", `uname -r; cat /proc/interrupts | grep -c .`, regexp.QuoteMeta(release()) + `\n[1-9]\d+\n`},
	{"runc-devices", `ls -l /dev/kmsg /dev/loop0`, `7,\s*0 .*/dev/loop0`},
	{"runc-kernel", `: >>/sys/fs/cgroup/memory/release_agent && echo opened`, `opened`},
	{"runc-host-pid", `ls -d /proc/HOSTPID && cat /proc/HOSTPID/comm`, `weak.test`},
	{"runc-host-ipc", `readlink /proc/self/ns/ipc`, `\[4026531839\]`},
	{"runc-host-network", `python3 -c 'import socket; socket.create_connection(("127.0.0.1", 80), 20); print("connected")'; uname -r`, `connected\n` + regexp.QuoteMeta(release())},
	{"runc-cgroup", `grep -o '/sys/fs/cgroup/memory rw' /proc/self/mountinfo; uname -r`, `memory rw\n` + regexp.QuoteMeta(release())},
	{"runc-leaked-fd", `cat /proc/self/fd/3/etc/dpkg/origins/default`, `Vendor`},
	{"runc-socket", connect("/mnt/sockets/s") + "; uname -r", `greeting.*\n` + regexp.QuoteMeta(release())},
}

// untilOver is a job that lasts longer than its wall clock, which all others are far from.
const (
	wall      = 3 * time.Second
	untilOver = `sleep 4; echo still here`
)

func connect(path string) string {
	return `python3 -c '
import socket
s = socket.socket(socket.AF_UNIX); s.connect("` + path + `"); print(s.recv(20))'`
}

func release() string {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		panic(err)
	}
	return unix.ByteSliceToString(u.Release[:])
}

// The weakness of each arm is there, and it is not in the sandbox as it should be.
func TestSymptoms(t *testing.T) {
	need.That(t, os.Geteuid() == 0, "root, who alone weakens sandboxes") // as the limits and namespaces they lack
	lab := newLab(t)
	t.Cleanup(func() { // after all arms
		if left, _ := filepath.Glob("/sys/fs/cgroup/*/quavon/weak-*"); left != nil {
			t.Errorf("left behind: %v", left)
		}
	})
	seen := map[string]bool{}
	slots := make(chan struct{}, 3)
	for _, s := range symptoms {
		seen[s.arm] = true
		t.Run(s.arm, func(t *testing.T) {
			t.Parallel()
			slots <- struct{}{}
			defer func() { <-slots }()
			a, err := weak.Find(s.arm)
			if err != nil {
				t.Fatal(err)
			}
			script := lab.fill(s.script)
			if out := lab.run(t, &a, script); !regexp.MustCompile(s.want).MatchString(out) {
				t.Errorf("weakened, the job says %q, want %s", out, s.want)
			}
			if out := lab.run(t, nil, script); regexp.MustCompile(s.want).MatchString(out) {
				t.Errorf("as it should be, the job says %q", out)
			}
		})
	}
	for _, a := range weak.Arms {
		if !seen[a.Name] {
			t.Errorf("nothing shows that %s is weak", a.Name)
		}
	}
}

// Neither where nobody has accepted it nor without what it needs is a weakened sandbox
// made.
func TestRefused(t *testing.T) {
	d := statetest.Dir(t)
	a, err := weak.Find("host-root-rw")
	if err != nil {
		t.Fatal(err)
	}
	for _, accept := range []string{"", "restart-docker", "yes"} {
		_, err := a.Runner(weak.Lab{Runsc: "/bin/true", State: d, Accept: accept}, &runner.Runner{})
		if err == nil || !strings.Contains(fault.Hint(err), "--accept-risk=weak-arm") {
			t.Errorf("accepted %q: %v", accept, err)
		}
	}
	r, err := a.Runner(weak.Lab{Runsc: "/bin/true", State: d, Accept: runsc.RiskWeakArm}, &runner.Runner{})
	if err != nil || r.Backend.Name() == runsc.Name {
		t.Errorf("%v; a weakened backend has the name of the real one", err)
	}
	for _, a := range weak.Arms {
		if _, err := a.Runner(weak.Lab{State: d, Accept: runsc.RiskWeakArm}, &runner.Runner{}); a.Needs != nil && err == nil {
			t.Errorf("%s was made without %v", a.Name, a.Needs)
		}
	}
}

// lab is a host for weakened sandboxes.
type lab struct {
	weak.Lab
	guest string
	port  string
}

func newLab(t *testing.T) *lab {
	t.Helper()
	d := statetest.Dir(t)
	l := &lab{guest: sandboxtest.Guest(t), Lab: weak.Lab{
		Accept: runsc.RiskWeakArm, Runsc: sandboxtest.Runsc(t), Runc: weaktest.Runc(t), State: d, Dir: t.TempDir(), Secret: "hidden",
		Shim: weaktest.Shim(t), Setuid: setuidShell(t), Device: weaktest.Device(t), Socket: filepath.Join(t.TempDir(), "s"),
	}}
	l.Netns, l.HostNetns = netns(t)
	if err := os.Chmod(l.Dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(l.Dir, "given"), []byte("given\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	serve(t, "unix", l.Socket)
	if err := os.Chmod(l.Socket, 0o666); err != nil {
		t.Fatal(err)
	}
	_, l.port, _ = net.SplitHostPort(serve(t, "tcp", "127.0.0.1:0").String())
	return l
}

// serve greets whoever comes.
func serve(t *testing.T, network, address string) net.Addr {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, "greeting\n")
			c.Close()
		}
	}()
	return l.Addr()
}

func (l *lab) fill(script string) string {
	return strings.NewReplacer("PORT", l.port, "HOSTPID", itoa(os.Getpid())).Replace(script)
}

// run runs a script as a job, in the arm or, without one, as it should be.
func (l *lab) run(t *testing.T, a *weak.Arm, script string) string {
	t.Helper()
	like := &runner.Runner{
		Backend: runsc.New(l.Runsc, l.State), Guest: l.guest, Store: l.State.Path("toolchain"), Spool: l.State.Path(),
		Grace: 300 * time.Millisecond,
	}
	s := job.Spec{
		ID: "weak-" + strings.ToLower(rand.Text()), Root: job.Root{Kind: job.RootHost},
		Steps:  []job.Step{{Argv: []string{"sh", "-c", script}}},
		Limits: job.Limits{Memory: 256 << 20, CPUs: 1, Pids: 40, Disk: 64 << 20, Output: 2 << 20, Wall: time.Minute},
	}
	if script == untilOver {
		s.Limits.Wall = wall
	}
	run := like.Run
	if a != nil {
		r, err := a.Runner(l.Lab, like)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		run = r.Run
	}
	quota := make(chan string)
	ran := make(chan struct{})
	go func() { quota <- processorQuota(s.ID, ran) }()
	var out, errOut bytes.Buffer
	res, err := run(t.Context(), s, runner.Streams{Stdout: &out, Stderr: &errOut})
	if err != nil {
		t.Errorf("the job did not run: %v", err)
	}
	close(ran)
	if q := <-quota; script == "sleep 1" {
		out.WriteString(q)
	}
	t.Logf("exit %d %s %v; %.300s", res.Exit, res.Reason, res.LimitsHit, errOut.String())
	if groups, _ := filepath.Glob("/sys/fs/cgroup/*/quavon/" + s.ID); groups != nil {
		out.WriteString("still there\n")
	}
	return out.String()
}

// processorQuota is what the kernel holds a job's sandbox to, until it has ended.
func processorQuota(id string, ended <-chan struct{}) string {
	for {
		files, _ := filepath.Glob("/sys/fs/cgroup/*/quavon/" + id + "/cpu.cfs_quota_us")
		unified, _ := filepath.Glob("/sys/fs/cgroup/quavon/" + id + "/cpu.max")
		for _, file := range append(files, unified...) {
			if data, err := os.ReadFile(file); err == nil && len(data) > 0 && data[0] != '-' && data[0] != 'm' { // -1, or max
				return "quota " + string(data)
			}
		}
		select {
		case <-ended:
			return "no processor quota\n"
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// bounding are all capabilities that this host may give, as the kernel prints them
// of a process that has them.
func bounding() string {
	data, err := os.ReadFile("/proc/self/status")
	if err != nil {
		panic(err)
	}
	_, rest, _ := strings.Cut(string(data), "CapBnd:\t")
	set, _, _ := strings.Cut(rest, "\n")
	return `CapEff:\t` + set + `\n`
}
