package runner_test

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/test/need"
)

// TestToolsFailAtOnceWithoutNetwork: package managers don't wait for a network that
// can't come, nor ask again. How long one takes to start by itself is measured beside it.
func TestToolsFailAtOnceWithoutNetwork(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ program, idle, fetch string }{
		{"npm", "npm --version", "npm install --no-audit --no-fund left-pad"},
		{"npx", "npm --version", "npx -y left-pad"},
		{"python3", "python3 -m pip --version", "python3 -m pip install --target /tmp/x idna"},
		{"go", "go version", "go mod download github.com/google/go-cmp@v0.7.0"},
	} {
		t.Run(c.program, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(c.program); err != nil {
				need.Skip(t, "%v", err)
			}
			b := newBench(t)
			s := b.spec(c.idle, c.fetch)
			s.Limits.Wall = 5 * time.Minute
			for i := range s.Steps {
				s.Steps[i].Env = []string{"PATH=/usr/local/go/bin:/usr/local/bin:/usr/bin:/bin", "GOTOOLCHAIN=local", "GOFLAGS=-mod=mod"}
			}
			res, err := b.run(t.Context(), s)
			if err != nil || len(res.Steps) != 2 || res.Steps[0].Exit != 0 || res.Steps[1].Exit == 0 || res.Reason != job.ReasonNone {
				t.Fatalf("%+v, %v: %s", res, err, b.stderr.String())
			}
			start, failed := res.Steps[0].Wall, res.Steps[1].Wall
			// npm would wait for more than a minute; pip says that it asks again.
			if most := 40*time.Second + 2*start; failed > most || strings.Contains(b.stderr.String(), "Retrying") {
				t.Errorf("it failed after %v, of at most %v: %s", failed, most, b.stderr.String())
			}
			t.Logf("starts in %v, failed after %v", start.Round(time.Millisecond), failed.Round(time.Millisecond))
		})
	}
}

// TestRetriesAreTheJobsToSet: what the image or the job says of retries counts more
// than what a step without a network is told.
func TestRetriesAreTheJobsToSet(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.addImage(t, v1.Config{Env: []string{"PIP_RETRIES=3", "YARN_HTTP_RETRY=4"}})
	s := b.spec("echo $npm_config_fetch_retries $PIP_RETRIES $YARN_HTTP_RETRY")
	s.Root, s.Mounts = job.Root{Kind: job.RootImage, Image: id}, nil
	s.Steps[0].Env = []string{"YARN_HTTP_RETRY=5"}
	res, err := b.run(t.Context(), s)
	if err != nil || res.Exit != 0 || b.stdout.String() != "0 3 5\n" {
		t.Errorf("%+v, %v: %q", res, err, b.stdout.String())
	}
}
