package docker_test

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/quavon/quavon/runner"
	"github.com/quavon/quavon/runner/image/imagetest"
	"github.com/quavon/quavon/runner/sandbox/docker"
	"github.com/quavon/quavon/runner/sandbox/docker/dockertest"
	"github.com/quavon/quavon/runner/sandbox/hostlist"
	"github.com/quavon/quavon/test/need"
)

// A privileged job has a disk of its own at /scratch, with the size of its limit, and
// the engine that its image brings; both go with it. Each start is warned of. The
// image's engine here only says how it was started.
func TestPrivileged(t *testing.T) {
	if os.Geteuid() != 0 {
		need.Skip(t, "mounting a disk takes root")
	}
	dir := t.TempDir()
	own, err := dockertest.Start(filepath.Join(dir, "engine"), "host-net")
	dockertest.Require(t, own, err)
	defer own.Stop()
	dockerd := imagetest.File("bin/dockerd", "#!/bin/sh\necho $@ > /scratch/started\n")
	dockerd.Mode = 0o755
	l := own.Add(t, dockertest.Busybox(t, v1.Config{User: "app"}, dockerd))
	b := newBench(t, docker.Privileged, own.Host, l)
	var log bytes.Buffer
	logged := b.Backend.(*docker.Backend).Config
	logged.Log = slog.New(slog.NewTextHandler(&log, nil))
	if b.Backend, err = docker.New(logged); err != nil {
		t.Fatal(err)
	}
	lister := hostlist.New([]string{logged.State.Path("sandboxes")}, nil, []string{logged.State.Path()})
	before := lister.Take()
	s := jobOf(t.TempDir(), l.Images[0].Platforms[0].Config, "", `
		for i in $(seq 300); do test -e /scratch/started && break; sleep 0.2; done
		cat /scratch/started; grep ' /scratch ' /proc/mounts | cut -d' ' -f3; grep CapEff /proc/self/status
		dd if=/dev/zero of=/scratch/x bs=1048576 count=100 2>&1 | grep -o 'No space left on device'`)
	res, err := b.Run(t.Context(), s, runner.Streams{Stdout: &b.out, Stderr: &b.err})
	if err != nil || res.Exit != 0 {
		t.Fatalf("%+v, %v\n%s%s\n%s", res, err, b.out.String(), b.err.String(), log.String())
	}
	for _, want := range []string{"--data-root=/scratch/docker", "\next4\n", "No space left on device", "CapEff:\t0000000000000000"} {
		if !strings.Contains(b.out.String(), want) {
			t.Errorf("%q is not in %s", want, b.out.String())
		}
	}
	if n := strings.Count(log.String(), "equivalent to host root"); n != 2 {
		t.Errorf("%d warnings: %s", n, log.String())
	}
	if d := lister.Settle(t.Context(), before, time.Minute); d != nil {
		t.Errorf("the host is not as it was: %q", d)
	}
}
