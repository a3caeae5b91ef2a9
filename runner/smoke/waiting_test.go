package smoke

import (
	"errors"
	"testing"
	"time"

	"github.com/quavon/quavon/runner/guest/probe"
	"github.com/quavon/quavon/runner/sandbox/sandboxtest"
)

// TestCanariesStay: the process that shows canaries lives as long as the probe, whichever
// program it is, and one that doesn't is told.
func TestCanariesStay(t *testing.T) {
	t.Setenv("QUAVON_SMOKE_TEST", Secret())
	for name, c := range map[string]struct {
		argv  []string
		stays bool
	}{
		"a shell":             {[]string{shell, "-c", "read x", Secret()}, true},
		"the agent's program": {[]string{sandboxtest.Guest(t), probe.SubCommand, Secret()}, true},
		"one that ends":       {[]string{shell, "-c", "sleep 0.1", Secret()}, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := &Bench{Suite: &Suite{}}
			err := plantWaiting(b, c.argv...)
			time.Sleep(200 * time.Millisecond)
			for _, end := range b.cleanup {
				err = errors.Join(err, end())
			}
			if (err == nil) != c.stays {
				t.Error(err)
			}
		})
	}
}
