package conformance

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/quavon/quavon/runner/agent"
	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/sandbox"
)

// Running out of memory ends the sandbox and is told from everything else; a job
// below the limit is left alone.
func testMemory(t *testing.T, s *suite) {
	l := job.Limits{Memory: 256 << 20}
	if !s.enforces(t, sandbox.PolicyMemory, l) {
		return
	}
	b := s.start(t, l)
	if out := b.must(t, probe+" alloc 100"); out != "allocated 100\n" {
		t.Errorf("below the limit: %q", out)
	}
	if total := b.must(t, "sed -n 's/^MemTotal: *\\([0-9]*\\) kB/\\1/p' /proc/meminfo"); strings.TrimSpace(total) != "262144" && !s.f.HostMemory {
		t.Errorf("the job sees %s kB of memory", total)
	}
	r := b.shell(t, probe+" alloc 1000")
	if r.lost == nil && r.Code == 0 {
		t.Fatal("allocated 1000 MiB")
	}
	if hit := b.Hit(); !slices.Contains(hit, job.ReasonLimitMemory) {
		t.Errorf("limits hit: %v", hit)
	}
	if r.lost != nil {
		if end := b.waitDone(t); end.Reason != job.ReasonLimitMemory {
			t.Errorf("ended by %q, log %s", end.Reason, end.Log)
		}
	}
	b.stop(t)
	if hit := b.Hit(); !slices.Contains(hit, job.ReasonLimitMemory) {
		t.Errorf("limits hit, asked after stop: %v", hit)
	}
}

// A job may have as many processes as it asked for; a fork bomb ends.
func testPids(t *testing.T, s *suite) {
	l := job.Limits{Pids: 40}
	if !s.enforces(t, sandbox.PolicyPids, l) {
		return
	}
	b := s.start(t, l)
	c := command(probe, "procs", "30")
	if r := b.exec(t, strings.NewReader(""), c); r.out != "started 30\n" || r.Code != 0 {
		t.Errorf("below the limit: %+v", r)
	}
	if hit := b.Hit(); hit != nil {
		t.Errorf("limits hit below the limit: %v", hit)
	}
	r := b.shell(t, "while :; do sleep 100 & done")
	if r.lost == nil && r.Code == 0 {
		t.Fatal("a fork bomb did nothing")
	}
	if hit := b.Hit(); !slices.Equal(hit, []job.Reason{job.ReasonLimitPids}) {
		t.Errorf("limits hit: %v", hit)
	}
	if r.lost != nil {
		if end := b.waitDone(t); end.Reason != job.ReasonLimitPids {
			t.Errorf("ended by %q, log %s", end.Reason, end.Log)
		}
	}
	b.stop(t)
}

// A quarter of a processor is what the host's processes of the sandbox have, however
// much the job would take. How much it gets done says nothing on a busy host.
func testCPU(t *testing.T, s *suite) {
	const quarter = 0.25
	if !s.enforces(t, sandbox.PolicyCPU, job.Limits{CPUs: quarter}) {
		return
	}
	t.Logf("with a processor of its own it has %.2f", s.spinning(t, 1))
	if had := s.spinning(t, quarter); had > 2*quarter {
		t.Errorf("it has %.2f processors instead of %v", had, quarter)
	}
}

// spinning is the share of a processor that a sandbox with a limit has for some seconds,
// while its job takes all it can.
func (s *suite) spinning(t *testing.T, cpus float64) float64 {
	t.Helper()
	b := s.start(t, job.Limits{CPUs: cpus})
	defer b.stop(t)
	if _, err := b.Exec(t.Context(), command(probe, "spin", "1h"), agent.Stdio{}); err != nil {
		t.Fatal(err)
	}
	idle := processorTime(s.processes())
	for over := time.Now().Add(testTime); processorTime(s.processes()) < idle+300*time.Millisecond; {
		if time.Now().After(over) {
			t.Fatal("it doesn't spin")
		}
	}
	before, begin := processorTime(s.processes()), time.Now()
	time.Sleep(3 * time.Second)
	return float64(processorTime(s.processes())-before) / float64(time.Since(begin))
}

// processorTime is what the host's processes, as "process PID@START", have had.
func processorTime(processes []string) time.Duration {
	const tick = time.Second / 100 // of all that user space is told
	ticks := 0
	for _, p := range processes {
		pid, _, _ := strings.Cut(strings.TrimPrefix(p, "process "), "@")
		stat, _ := os.ReadFile("/proc/" + pid + "/stat") // it may have ended
		_, rest, _ := strings.Cut(string(stat), ") ")
		if f := strings.Fields(rest); len(f) > 12 {
			user, _ := strconv.Atoi(f[11]) // numbers, as the kernel writes them
			system, _ := strconv.Atoi(f[12])
			ticks += user + system
		}
	}
	return time.Duration(ticks) * tick
}

// All writable places share the limit, a full one says what programs know, and
// the sandbox goes on.
func testDisk(t *testing.T, s *suite) {
	l := job.Limits{Disk: 32 << 20}
	if !s.enforces(t, sandbox.PolicyDisk, l) {
		return
	}
	b := s.start(t, l)
	b.must(t, "head -c 10485760 /dev/zero > /tmp/a; head -c 10485760 /dev/zero > a")
	r := b.shell(t, "dd if=/dev/zero of=/dev/shm/a bs=1048576 count=20")
	if r.Code == 0 || !strings.Contains(r.err, "No space left on device") {
		t.Errorf("past the limit: %+v", r)
	}
	if out := b.must(t, "rm /dev/shm/a /tmp/a; head -c 10485760 /dev/zero > /tmp/b && echo ok"); out != "ok\n" {
		t.Errorf("after making room: %q", out)
	}
	if hit := b.Hit(); hit != nil {
		t.Errorf("a full disk counts as %v", hit)
	}
	b.stop(t)
}

// The agent ends what runs too long, with all it started.
func testWall(t *testing.T, s *suite) {
	b := s.start(t, job.Limits{})
	c := command("/bin/sh", "-c", "trap '' TERM; setsid sleep 1001 & sleep 1002 & while :; do sleep 1; done")
	c.Timeout = 300 * time.Millisecond
	begin := time.Now()
	r := b.exec(t, nil, c)
	if !r.TimedOut || r.lost != nil {
		t.Errorf("not ended by the clock: %+v", r)
	}
	if took := time.Since(begin); took < c.Timeout || took > 20*time.Second {
		t.Errorf("took %v", took)
	}
	if out := b.must(t, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '"); strings.Contains(out, "sleep") {
		t.Errorf("still running: %s", out)
	}
	b.stop(t)
}

// A job can't write to the agent's stream, trace it, signal it, or look at it.
func testAgent(t *testing.T, s *suite) {
	b := s.start(t, job.Limits{})
	attacks := []string{
		probe + " poke /proc/1/fd/1",
		probe + " poke /proc/1/fd/0",
		probe + " poke /proc/1/mem",
		probe + " ptrace 1",
		"kill -KILL 1",
		"kill -STOP 1",
		"cat /proc/1/environ",
		"readlink /proc/1/fd/1",
		"cat /proc/1/maps",
		"ls /proc/1/root/",
		"ls " + sandbox.GuestDir,
		sandbox.GuestBinary + " init",
		"for f in /proc/1/task/*/fd/1; do echo > $f || exit 1; done",
	}
	for _, a := range attacks {
		if r := b.shell(t, a); r.lost != nil || r.Code == 0 {
			t.Errorf("%s: %+v", a, r)
		}
		if err := b.Ping(t.Context()); err != nil {
			t.Fatalf("the agent is gone after %s: %v", a, err)
		}
	}
	status := b.must(t, "grep -E '^(Cap|NoNewPrivs)' /proc/self/status")
	for _, line := range strings.Split(strings.TrimSpace(status), "\n") {
		name, value, _ := strings.Cut(line, ":")
		if want := map[bool]string{true: "1", false: "0000000000000000"}[name == "NoNewPrivs"]; strings.TrimSpace(value) != want {
			t.Errorf("the job has %s", line)
		}
	}
	b.stop(t)
}
