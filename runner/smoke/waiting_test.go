package smoke

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quavon/quavon/runner/guest/probe"
	"github.com/quavon/quavon/runner/sandbox/sandboxtest"
)

// TestCanariesStay: the process that shows canaries lives as long as the probe, whichever
// program it is, and one that doesn't is told.
func TestCanariesStay(t *testing.T) {
	t.Setenv("QUAVON_SMOKE_TEST", Secret())
	file := filepath.Join(t.TempDir(), "pid")
	for name, c := range map[string]struct {
		argv  []string
		stays bool
	}{
		"a shell":             {[]string{shell, "-c", "read x", Secret()}, true},
		"the agent's program": {[]string{sandboxtest.Guest(t), probe.SubCommand, Secret()}, true},
		"one that ends":       {[]string{shell, "-c", `echo $$ >"$1"; sleep 0.1`, Secret(), file}, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := &Bench{Suite: &Suite{}}
			err := plantWaiting(b, c.argv...)
			time.Sleep(200 * time.Millisecond)
			for over := time.Now().Add(time.Minute); !c.stays && !ended(file) && time.Now().Before(over); {
				time.Sleep(20 * time.Millisecond)
			}
			for _, end := range b.cleanup {
				err = errors.Join(err, end())
			}
			if (err == nil) != c.stays {
				t.Error(err)
			}
		})
	}
}

// ended says whether the process whose number is in a file has: nobody has waited for it,
// so it is there, without its arguments.
func ended(file string) bool {
	pid, _ := os.ReadFile(file) // it may not be there yet
	args, err := os.ReadFile("/proc/" + strings.TrimSpace(string(pid)) + "/cmdline")
	return len(pid) > 0 && err == nil && len(args) == 0
}
