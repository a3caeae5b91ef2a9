// Package qemu tests what needs another kernel than this machine's, in an
// emulated one: Debian's own kernel with nothing but cgroup v2.
package qemu

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/sandbox/sandboxtest"
	"github.com/quavon/quavon/test/need"
)

// outcome is what the scenario tells of one job.
type outcome struct {
	exit   int
	result job.Result
}

var caseLine = regexp.MustCompile(`^case (\w+) (\d+) (\{.*\})$`)

// TestLimitsOnCgroup2 runs the real command as root with real gVisor: every limit
// holds, is told apart from the others and read back, and nothing stays behind.
func TestLimitsOnCgroup2(t *testing.T) {
	cases, left := runScenario(t, "testdata/limits.sh")
	for _, want := range []struct {
		name   string
		exit   int
		reason job.Reason
	}{
		{"plain", 0, job.ReasonNone},
		{"memory", 137, job.ReasonLimitMemory},
		{"pids", 137, job.ReasonLimitPids},
		{"disk", 1, job.ReasonNone}, // dd says "no space left on device" and exits
		{"wall", 124, job.ReasonTimeoutWall},
	} {
		got, ok := cases[want.name]
		if !ok || got.exit != want.exit || got.result.Reason != want.reason {
			t.Errorf("%s: exit %d, reason %q (run: %v, %s); want %d, %q",
				want.name, got.exit, got.result.Reason, ok, got.result.Message, want.exit, want.reason)
		}
	}
	if l := cases["plain"].result.Sandbox.Limits; l.Memory != 300<<20 || l.Pids != 50 || l.CPUs != 1 {
		t.Errorf("limits read back: %+v", l)
	}
	if hit := cases["disk"].result.LimitsHit; len(hit) != 1 || hit[0] != string(job.ReasonLimitDisk) {
		t.Errorf("a full disk hit %v", hit)
	}
	// The machine's only cgroup besides the root is the one we keep for sandboxes.
	if left != "left 1 0 0" && left != "left 0 0 0" {
		t.Errorf("cgroups, sandboxes and loop devices afterwards: %q", left)
	}
}

// runScenario runs a shell script in the machine and returns its cases and its
// last line.
func runScenario(t *testing.T, script string) (map[string]outcome, string) {
	t.Helper()
	for _, tool := range []string{"qemu-system-x86_64", "busybox", "cpio", "mkfs.ext4"} {
		if _, err := exec.LookPath(tool); err != nil {
			need.Skip(t, "%v: run make setup-test", err)
		}
	}
	bin := filepath.Join(sandboxtest.Module(t), "bin")
	args := []string{"-t", "540", script}
	for _, name := range []string{"quavon", "quavon-guest", "runsc"} {
		path := filepath.Join(bin, name)
		if _, err := os.Stat(path); err != nil {
			need.Skip(t, "%v: run make", err)
		}
		args = append(args, path)
	}
	cmd := exec.CommandContext(t.Context(), "./vm.sh", append(args, "--", "sh", "./"+filepath.Base(script))...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("the machine: %v\n%s\n%s", err, out, stderr.Bytes())
	}
	cases, left := map[string]outcome{}, ""
	for scan := bufio.NewScanner(bytes.NewReader(out)); scan.Scan(); {
		if m := caseLine.FindStringSubmatch(scan.Text()); m != nil {
			var o outcome
			o.exit, _ = strconv.Atoi(m[2])
			if err := json.Unmarshal([]byte(m[3]), &o.result); err != nil {
				t.Errorf("%s: %v", m[1], err)
			}
			cases[m[1]] = o
		}
		if bytes.HasPrefix(scan.Bytes(), []byte("left ")) {
			left = scan.Text()
		}
	}
	return cases, left
}
