package agent_test

import (
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/quavon/quavon/runner/sandbox"
	"github.com/quavon/quavon/test/need"
)

// memoryGroup makes a memory cgroup and returns its directory and the name of the
// file that has its usage.
func memoryGroup(b *testing.B, name string) (dir, usage string) {
	b.Helper()
	parent, usage := "/sys/fs/cgroup/memory", "memory.usage_in_bytes"
	if _, err := os.Stat(parent); err != nil {
		parent, usage = "/sys/fs/cgroup", "memory.current"
	}
	dir = filepath.Join(parent, "agent-test-"+name+"-"+strconv.Itoa(os.Getpid()))
	if err := os.Mkdir(dir, 0o755); err != nil {
		need.Skip(b, "no memory cgroups: %v", err)
	}
	b.Cleanup(func() {
		for range 100 { // until the kernel has noticed that it is empty
			if os.Remove(dir) == nil {
				return
			}
			time.Sleep(50 * time.Millisecond)
		}
		b.Error("a cgroup is left:", dir)
	})
	return dir, usage
}

// grouped makes the runtime run in a memory cgroup and returns how much memory it
// uses.
func grouped(b *testing.B, box *box, name string) (use func() float64) {
	b.Helper()
	dir, usage := memoryGroup(b, name)
	enter := `echo $$ > "$0"/cgroup.procs && exec "$@"`
	box.cmd.Args = append([]string{"/bin/sh", "-c", enter, dir}, box.cmd.Args...)
	box.cmd.Path = "/bin/sh"
	return func() float64 {
		raw, err := os.ReadFile(filepath.Join(dir, usage))
		must(b, err)
		return float64(atoi(b, strings.TrimSpace(string(raw)))) / mib
	}
}

// BenchmarkIdleMemory compares sandboxes with the idle agent, fresh and after
// some work, and with an idle C program: all that their cgroup is charged for. It
// measures once: memory hardly varies.
func BenchmarkIdleMemory(b *testing.B) {
	idle := bareRuntime(b, "/test/idle")
	idleUse := grouped(b, idle, "idle")
	_, stdout := pipes(b, idle)
	_, err := io.ReadFull(stdout, make([]byte, 1))
	must(b, err)

	box := bareRuntime(b, sandbox.GuestBinary, "init")
	agentUse := grouped(b, box, "agent")
	dial(b, box)
	must(b, box.Setup(b.Context(), standardSetup))
	time.Sleep(time.Second)
	c, fresh := idleUse(), agentUse()
	for range 20 {
		run(b, box.Client, command("echo hi"), nil)
	}
	burst(b, box, 50)
	time.Sleep(time.Second)
	used := agentUse()
	for b.Loop() { // nothing more to measure
	}
	b.ReportMetric(c, "C-MiB")
	b.ReportMetric(fresh-c, "agent-more-MiB")
	b.ReportMetric(used-c, "used-agent-more-MiB")
}
