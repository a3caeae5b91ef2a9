package smoke_test

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quavon/quavon/runner"
	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/smoke"
	"github.com/quavon/quavon/test/need"
)

// lateScan starts the sandbox that looks for another one some seconds late, as a busy host
// does.
type lateScan struct{ smoke.Runner }

func (l lateScan) Run(ctx context.Context, s job.Spec, st runner.Streams) (job.Result, error) {
	if strings.HasSuffix(s.ID, "-f1-scan") {
		time.Sleep(4 * time.Second)
	}
	return l.Runner.Run(ctx, s, st)
}

// TestALatePeerIsHeard: the sandbox that listens does so until the other was there.
func TestALatePeerIsHeard(t *testing.T) {
	need.That(t, os.Geteuid() == 0, "root, who alone weakens sandboxes")
	t.Parallel()
	s := weakened(t, "host-network")
	s.Runner = lateScan{s.Runner}
	if broken := brokenIn(t, s, []string{"F1-peer"}); !slices.Equal(broken, []string{"F1-peer"}) {
		t.Errorf("broken %v", broken)
	}
}
