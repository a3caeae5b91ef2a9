package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/docker/docker/api/types/system"
	"github.com/docker/docker/api/types/versions"

	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/job"
)

// Versions of the API: the oldest is that of Engine 24, the newest the client's.
const (
	oldestAPI = "1.43"
	newestAPI = "1.51"
)

// engine is what is known of the engine behind the socket.
type engine struct {
	version string
	selinux bool
	// runtime is the program and its arguments, as far as the engine tells.
	runtime []string
}

// Check implements sandbox.Backend.
func (b *Backend) Check(ctx context.Context) error {
	_, err := b.checked(ctx)
	return err
}

// checked looks at the engine once.
func (b *Backend) checked(ctx context.Context) (*engine, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.engine != nil {
		return b.engine, nil
	}
	ctx, cancel := b.inTime(ctx)
	defer cancel()
	e, err := b.look(ctx)
	if err != nil {
		return nil, &fault.Error{What: b.Name(), Err: err, Hint: fault.Hint(err), Code: string(job.ReasonSandboxUnavailable)}
	}
	b.engine = e
	return e, nil
}

func (b *Backend) look(ctx context.Context) (*engine, error) {
	v, err := b.api.ServerVersion(ctx)
	if err != nil {
		return nil, b.unreachable(err)
	}
	if podman, err := b.isPodman(ctx); err != nil {
		return nil, b.unreachable(err)
	} else if podman {
		return nil, fault.New("what answers at "+b.where()+" is Podman, not a Docker engine: its runtimes come from containers.conf",
			"use a Docker engine (24 or newer), or the backend runsc, which needs none")
	}
	if err := checkVersions(v.APIVersion, v.MinAPIVersion, v.Version); err != nil {
		return nil, err
	}
	b.api.NegotiateAPIVersion(ctx)
	info, err := b.api.Info(ctx)
	if err != nil {
		return nil, b.unreachable(err)
	}
	if err := b.checkInfo(info); err != nil {
		return nil, err
	}
	e := &engine{version: v.Version, selinux: hasOption(info, "selinux")}
	if r, ok := info.Runtimes[b.Config.Runtime]; ok {
		e.runtime = append([]string{r.Path}, r.Args...)
	}
	return e, nil
}

// unreachable says why an engine doesn't answer.
func (b *Backend) unreachable(err error) error {
	what := fmt.Sprintf("the Docker engine at %s (%s) does not answer", b.where(), b.Host.From)
	hint := "start it, or name its socket: DOCKER_HOST=unix:///PATH"
	if errors.Is(err, os.ErrPermission) || errors.Is(err, syscall.EACCES) {
		hint = "let this process have the socket's group: `stat -c %g " + b.Host.Path() + "` shows it"
	}
	return fault.Wrap(err, what, hint)
}

// isPodman asks for what only Podman has.
func (b *Backend) isPodman(ctx context.Context) (bool, error) {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", b.Host.Path())
	}
	c := &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://docker/v1/libpod/_ping", nil)
	if err != nil {
		return false, err
	}
	resp, err := c.Do(req)
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<10))
	return resp.StatusCode == http.StatusOK, err
}

// checkVersions compares the ranges of the API that both sides speak.
func checkVersions(newest, oldest, product string) error {
	if oldest == "" {
		oldest = newest
	}
	switch {
	case newest == "" || versions.LessThan(newest, oldestAPI):
		return fault.New(fmt.Sprintf("Docker %s speaks API %s to %s, quavon %s to %s", product, oldest, newest, oldestAPI, newestAPI),
			"install Docker Engine 24 or newer")
	case versions.GreaterThan(oldest, newestAPI):
		return fault.New(fmt.Sprintf("Docker %s speaks API %s to %s, quavon %s to %s", product, oldest, newest, oldestAPI, newestAPI),
			"use a newer quavon, or lower min-api-version in the engine's daemon.json")
	}
	return nil
}

func hasOption(info system.Info, name string) bool {
	return slices.ContainsFunc(info.SecurityOptions, func(o string) bool {
		return o == "name="+name || strings.HasPrefix(o, "name="+name+",")
	})
}

// checkInfo refuses engines on which the backend's promises don't hold.
func (b *Backend) checkInfo(info system.Info) error {
	desktop := info.OperatingSystem == "Docker Desktop"
	switch {
	case info.OSType != "linux":
		return fault.New("the engine runs "+info.OSType+" containers", "use an engine on Linux")
	case hasOption(info, "rootless"):
		return fault.New("the engine is rootless: it has neither limits nor networks that isolate a job",
			"use a rootful engine, or the backend runsc")
	case desktop && b.Config.Name != Runc:
		return fault.New("the engine is Docker Desktop's, in a virtual machine of its own: this host's runtimes and devices aren't there",
			"use an engine on this host; for development, "+Runc)
	case b.gvisor() && strings.HasPrefix(info.DockerRootDir, "/var/snap/docker/"):
		return fault.New("the engine is the snap's, which can't run a runtime of the host's", "install docker-ce or docker.io instead")
	case !info.MemoryLimit || !info.PidsLimit || !info.CPUCfsQuota:
		return fault.New("the engine's kernel can't limit memory, processes or processors", "enable these control groups")
	}
	r, registered := info.Runtimes[b.Config.Runtime]
	if !registered {
		what := fmt.Sprintf("the engine has no runtime %q, only %s", b.Config.Runtime, strings.Join(runtimeNames(info), ", "))
		return fault.New(what, b.register())
	}
	if b.gvisor() {
		return weakened(b.Config.Runtime, r.Args)
	}
	return nil
}

func (b *Backend) register() string {
	if b.gvisor() {
		return "type: sudo runsc install --runtime=" + b.Config.Runtime + " -- --platform=systrap && sudo systemctl reload docker"
	}
	return "install the runtime and register it in the engine's daemon.json"
}

func runtimeNames(info system.Info) []string {
	var names []string
	for name := range info.Runtimes {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// weakened refuses a runtime that was registered with flags that open the sandbox, or
// switch limits off.
func weakened(runtime string, args []string) error {
	weak, _ := JudgeArgs(args)
	if len(weak) == 0 {
		return nil
	}
	return fault.New(fmt.Sprintf("the runtime %q is registered with %s, which weakens it", runtime, strings.Join(weak, ", ")),
		"register it without that flag, under this name or another")
}

// platform is gVisor's, as registered.
func (e *engine) platform() string {
	for _, a := range e.runtime {
		if p, ok := strings.CutPrefix("--"+strings.TrimLeft(a, "-"), "--platform="); ok {
			return p
		}
	}
	return "systrap"
}
