package docker_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/pkg/stdcopy"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/quavon/quavon/runner/image/lock"
	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/sandbox/docker"
	"github.com/quavon/quavon/runner/sandbox/docker/dockertest"
	"github.com/quavon/quavon/runner/sandbox/sandboxtest"
	"github.com/quavon/quavon/test/need"
)

// program is one that make builds.
func program(t *testing.T, name string) string {
	t.Helper()
	p := filepath.Join(sandboxtest.Module(t), "bin", name)
	if _, err := os.Stat(p); err != nil {
		need.Skip(t, "run make: %v", err)
	}
	return p
}

// guardGroup is the group of the guard's socket.
const guardGroup = "4711"

// startGuard runs `quavon docker-guard` in front of the engine.
func startGuard(t *testing.T, dir string, l *lock.File) {
	t.Helper()
	data, err := l.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, lock.DefaultName), data, 0o644); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "docker.sock")
	cmd := exec.Command(program(t, "quavon"), "docker-guard", "--listen", socket, "--upstream", engine.Host,
		"--images", filepath.Join(dir, lock.DefaultName), "--group", guardGroup)
	var log bytes.Buffer
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
		t.Logf("the guard: %s", log.String())
	})
	for over := time.Now().Add(time.Minute); time.Now().Before(over); time.Sleep(20 * time.Millisecond) {
		if fi, err := os.Stat(socket); err == nil && fi.Mode().Perm() == 0o660 {
			return
		}
	}
	t.Fatalf("the guard does not listen: %s", log.String())
}

// A runner in a container of its own has the guard's socket, the socket's group and
// nothing else: no capability, no network, no path of the host that the engine would
// know.
func TestInsideAContainer(t *testing.T) {
	dockertest.Require(t, engine, engineErr)
	l := engine.Add(t, dockertest.Busybox(t, v1.Config{}))
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	startGuard(t, dir, l)
	script := `set -e
		cd /w; echo given > given
		quavon run --backend docker-runsc --image test --memory 256MiB --disk 32MiB --json=/w/result --patch /w/patch -- sh -c 'cat given; echo new > new; id -u'
		cat /w/patch; cat /w/result
		quavon run --backend docker-runsc --image busybox -- true 2>&1 || echo refused $?
		quavon run --backend docker-runc-insecure --image test -- true 2>&1 || echo refused $?`
	img, err := newBench(t, docker.Runsc, engine.Host, l).Backend.(*docker.Backend).FindImage(t.Context(), l.Images[0].Platforms[0].Config)
	if err != nil {
		t.Fatal(err)
	}
	out := runInContainer(t, img.ID, dir, script)
	begin := strings.Index(out, "{\n")
	if !strings.HasPrefix(out, "given\n0\n") || !strings.Contains(out, "+new\n") || begin < 0 {
		t.Fatalf("got %s", out)
	}
	var res job.Result
	if err := json.NewDecoder(strings.NewReader(out[begin:])).Decode(&res); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	if res.Sandbox.Backend != "docker-runsc" || res.Sandbox.Limits.Memory != 256<<20 || res.Sandbox.Limits.Disk != 32<<20 {
		t.Errorf("sandbox %+v", res.Sandbox)
	}
	if strings.Count(out, "refused") != 2 || !strings.Contains(out, `no runtime "runc"`) || !strings.Contains(out, "the lock has no such image") {
		t.Errorf("got %s", out)
	}
}

// runInContainer runs a script in a container that could be a runner's.
func runInContainer(t *testing.T, image, dir, script string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	bind := func(source, target string) mount.Mount {
		return mount.Mount{Type: mount.TypeBind, Source: source, Target: target, ReadOnly: true}
	}
	own := "uid=12345,gid=12345,mode=0700"
	made, err := engine.API.ContainerCreate(ctx, &container.Config{
		Image: image, User: "12345:12345", Cmd: []string{"sh", "-c", script},
		Env: []string{"PATH=/q:/bin", "HOME=/none", "DOCKER_HOST=unix:///run/guard/docker.sock", "QUAVON_STATE_DIR=/state", lock.EnvFile + "=/run/guard/" + lock.DefaultName},
	}, &container.HostConfig{
		NetworkMode: "none", CapDrop: []string{"ALL"}, SecurityOpt: []string{"no-new-privileges"}, ReadonlyRootfs: true, GroupAdd: []string{guardGroup},
		Tmpfs:  map[string]string{"/state": own, "/w": own},
		Mounts: []mount.Mount{bind(program(t, "quavon"), "/q/quavon"), bind(program(t, "quavon-guest"), "/q/quavon-guest"), bind(dir, "/run/guard")},
	}, nil, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = engine.API.ContainerRemove(context.WithoutCancel(ctx), made.ID, container.RemoveOptions{Force: true})
	}()
	at, err := engine.API.ContainerAttach(ctx, made.ID, container.AttachOptions{Stream: true, Stdout: true, Stderr: true})
	if err != nil {
		t.Fatal(err)
	}
	defer at.Close()
	if err := engine.API.ContainerStart(ctx, made.ID, container.StartOptions{}); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if _, err := stdcopy.StdCopy(&out, &out, at.Reader); err != nil {
		t.Fatal(err)
	}
	return out.String()
}
