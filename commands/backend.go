package commands

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/image"
	"github.com/quavon/quavon/runner/image/lock"
	"github.com/quavon/quavon/runner/image/source"
	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/sandbox"
	"github.com/quavon/quavon/runner/sandbox/docker"
	"github.com/quavon/quavon/runner/sandbox/runsc"
	"github.com/quavon/quavon/runner/state"
)

// Environment variables that say where quavon runs. Backends that don't isolate are
// refused in the production environment and in the enterprise edition.
const (
	envEnvironment = "QUAVON_ENV"
	envEdition     = "QUAVON_EDITION"
	envRuntime     = "QUAVON_SANDBOX_DOCKER_RUNTIME"
)

// backendNames lists what --backend may be.
var backendNames = append([]string{runsc.Name}, docker.Names...)

func checkBackend(name string) error {
	if !slices.Contains(backendNames, name) {
		return fault.New(fmt.Sprintf("--backend %q is unknown", name), "use one of "+strings.Join(backendNames, ", "))
	}
	return nil
}

// openBackend makes the named backend with its state in st. runscFlag is where the
// backend runsc's runtime was said to be.
func (p *program) openBackend(name, runscFlag string, st *state.Dir) (sandbox.Backend, error) {
	if name == runsc.Name {
		path, err := p.findRunsc(runscFlag)
		if err != nil {
			return nil, err
		}
		return runsc.New(path, st), nil
	}
	host, err := p.findEngine()
	if err != nil {
		return nil, unavailable("no Docker engine", err, fault.Hint(err))
	}
	l, err := p.readLock()
	if err != nil {
		return nil, err
	}
	p.Log.Info("Docker engine", "host", host.URL, "from", host.From)
	b, err := docker.New(docker.Config{
		Name: name, Host: host, Runtime: p.env(envRuntime), Lock: l, State: st,
		Production:     p.env(envEnvironment) == "production" || p.env(envEdition) == "enterprise",
		DenyPrivileged: p.env(docker.EnvDenyPrivileged) == "1",
		Log:            p.Log,
	})
	if err != nil {
		return nil, unavailable("the backend "+name, err, fault.Hint(err))
	}
	return b, nil
}

func (p *program) findEngine() (docker.Endpoint, error) {
	home, _ := os.UserHomeDir() // without one there is no client configuration
	return docker.Find(docker.Surroundings{Env: p.env, Home: home})
}

// detachedImage looks an image up where a detached backend has it: by the lock's
// name for it, or by a digest.
func (p *program) detachedImage(ctx context.Context, d sandbox.Detached, name string) (*image.Record, error) {
	l, err := p.readLock()
	if err != nil {
		return nil, err
	}
	digest := name
	if l == nil {
		return nil, fault.New("the backend "+d.Name()+" runs images of a lock only, and there is none",
			"run `quavon build images`, or name the file in "+lock.EnvFile).WithCode(string(job.ReasonImageUnknown))
	}
	if _, pinned := l.Find(name, source.Host()); pinned != nil {
		digest = pinned.Config
	}
	img, err := d.FindImage(ctx, digest)
	if err != nil {
		return nil, err
	}
	config, err := v1.NewHash(img.Config)
	if err != nil {
		return nil, err
	}
	return &image.Record{Config: config, Run: image.Run{
		User: img.User, Env: img.Env, WorkDir: img.WorkDir, Entrypoint: img.Entrypoint, Cmd: img.Cmd,
	}}, nil
}
