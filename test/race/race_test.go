//go:build race

package race

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// recorder is a test that would fail.
type recorder struct {
	testing.TB
	ends []func()
	said string
}

func (r *recorder) Cleanup(f func()) { r.ends = append(r.ends, f) }

func (r *recorder) Errorf(format string, args ...any) { r.said += fmt.Sprintf(format, args...) }

// TestKilled has a program killed after it had a race, and one that had none.
func TestKilled(t *testing.T) {
	const child = "QUAVON_TEST_RACE"
	switch os.Getenv(child) {
	case "race":
		n, done := 0, make(chan struct{})
		go func() { n++; close(done) }()
		n++
		<-done
		fallthrough
	case "none":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	t.Parallel()
	for _, had := range []string{"race", "none"} {
		r := &recorder{TB: t}
		cmd := exec.Command(os.Args[0], "-test.run=^TestKilled$")
		cmd.Env = append(os.Environ(), child+"="+had, Env(r))
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != -1 {
			t.Fatalf("%v\n%s", err, out)
		}
		for _, end := range r.ends {
			end()
		}
		if told := strings.Contains(r.said, "DATA RACE"); told != (had == "race") {
			t.Errorf("%s: the test says %q", had, r.said)
		}
	}
}
