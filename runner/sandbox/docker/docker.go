// Package docker is the backend that starts sandboxes through the API of a Docker
// engine, and through nothing else: it works in a container that has only the
// engine's socket, or better the guard's in front of it. No path of this host is
// named to the engine; the job's files travel through the agent, on the
// container's attached standard streams.
package docker

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/docker/docker/client"
	"github.com/google/renameio/v2"

	"github.com/quavon/quavon/runner/evidence"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/image/lock"
	"github.com/quavon/quavon/runner/sandbox"
	"github.com/quavon/quavon/runner/sandbox/docker/object"
	"github.com/quavon/quavon/runner/state"
)

// Names of the backends.
const (
	Runsc      = "docker-runsc"
	Runc       = "docker-runc-insecure"
	Sysbox     = "docker-sysbox"
	Privileged = "docker-privileged"
)

// Names lists the backends, the strongest first.
var Names = []string{Runsc, Sysbox, Privileged, Runc}

// Config is what a backend needs.
type Config struct {
	// Name is one of the backends' names.
	Name string
	// Host is the engine, as Find has it.
	Host Endpoint
	// Runtime is the engine's name for the runtime; "" is the backend's usual one.
	Runtime string
	// Lock pins the images that may be used.
	Lock *lock.File
	// Production refuses a backend that doesn't isolate.
	Production bool
	// DenyPrivileged refuses privileged containers.
	DenyPrivileged bool
	// State keeps the sandboxes' locks.
	State *state.Dir
	// Log gets warnings; nil discards them.
	Log *slog.Logger
}

// Backend starts sandboxes on one engine.
type Backend struct {
	Config
	api      *client.Client
	instance string
	patience time.Duration

	program evidence.File

	mu     sync.Mutex
	engine *engine           // what Check has found
	guests map[string]string // host path to volume, filled and checked
	images map[string]*found // by the digest asked for
	files  map[string]*sandbox.ImageFiles
}

var _ sandbox.Detached = (*Backend)(nil)

// patience is how long the engine may take to end and remove a container.
const patience = 20 * time.Second

// runtimes are the engine's usual names for the backends' runtimes.
var runtimes = map[string]string{Runsc: "runsc", Runc: "runc", Sysbox: "sysbox-runc", Privileged: "runc"}

// New makes a backend; it speaks to no engine yet.
func New(c Config) (*Backend, error) {
	usual, known := runtimes[c.Name]
	if !known {
		return nil, fault.New(fmt.Sprintf("there is no backend %q", c.Name), "use one of "+strings.Join(Names, ", "))
	}
	if c.Runtime == "" {
		c.Runtime = usual
	}
	if err := refuse(c); err != nil {
		return nil, err
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	api, err := client.NewClientWithOpts(client.WithHost(c.Host.URL), client.WithAPIVersionNegotiation())
	if err != nil {
		return nil, fault.Wrap(err, "reach the Docker engine at "+c.Host.URL, "correct "+c.Host.From)
	}
	instance, err := instanceOf(c.State)
	if err != nil {
		return nil, err
	}
	b := &Backend{
		Config: c, api: api, instance: instance, patience: patience,
		guests: map[string]string{}, images: map[string]*found{}, files: map[string]*sandbox.ImageFiles{},
	}
	b.warn("")
	return b, nil
}

// refuse holds what a configuration rules out, whatever the engine is.
func refuse(c Config) error {
	switch {
	case c.Name == Runc && c.Production:
		return fault.New(Runc+" does not isolate: it is for development only, and this is production",
			"use "+Runsc+", or runsc without Docker")
	case c.Name == Privileged && c.DenyPrivileged:
		return fault.New("a privileged container is equivalent to host root, and "+EnvDenyPrivileged+" forbids it",
			"register sysbox-runc with the engine and use "+Sysbox+", or use "+Runsc)
	}
	return nil
}

// EnvDenyPrivileged refuses privileged containers when it is set to 1.
const EnvDenyPrivileged = "QUAVON_SANDBOX_DENY_PRIVILEGED"

// instanceFile holds the name that ties an engine's objects to a state directory.
const instanceFile = "docker-instance"

// instanceOf reads the state directory's name, and makes it first if need be.
func instanceOf(d *state.Dir) (string, error) {
	path := d.Path(instanceFile)
	for range 2 {
		data, err := os.ReadFile(path)
		if name := strings.TrimSpace(string(data)); err == nil && object.ValidInstance(name) {
			return name, nil
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", fault.Wrap(err, "read "+path, "make it readable for you")
		}
		var name [6]byte
		_, _ = rand.Read(name[:]) // never fails
		if err := renameio.WriteFile(path, []byte(hex.EncodeToString(name[:])+"\n"), 0o600); err != nil {
			return "", fault.Wrap(err, "write "+path, "make the state directory writable for you")
		}
	}
	return "", fault.New(path+" holds no instance name", "remove it")
}

// Name implements sandbox.Backend.
func (b *Backend) Name() string { return b.Config.Name }

// gvisor says whether the runtime is gVisor's.
func (b *Backend) gvisor() bool { return b.Config.Name == Runsc }

// nested says whether the job gets an engine of its own.
func (b *Backend) nested() bool { return b.Config.Name == Sysbox || b.Config.Name == Privileged }

// Policies implements sandbox.Backend.
func (b *Backend) Policies() sandbox.Policies {
	return sandbox.Policies{
		sandbox.PolicyMemory:     sandbox.Enforced,
		sandbox.PolicyCPU:        sandbox.Enforced,
		sandbox.PolicyPids:       sandbox.Enforced,
		sandbox.PolicyDisk:       sandbox.Enforced,
		sandbox.PolicyRootHost:   "the engine can't see this host's tools: use an image",
		sandbox.PolicyRootImage:  sandbox.Enforced,
		sandbox.PolicyMounts:     sandbox.Enforced,
		sandbox.PolicyTTY:        sandbox.Enforced,
		sandbox.PolicyRegistries: sandbox.Enforced, // no network at all; the way out is the agent's
	}
}

// labels of an object.
func (b *Backend) labels(role, id string) map[string]string {
	return map[string]string{
		object.LabelSandbox: id, object.LabelInstance: b.instance,
		object.LabelBackend: b.Name(), object.LabelRole: role,
	}
}

// where is the engine's address.
func (b *Backend) where() string { return b.Host.URL }

// inTime bounds one request to the engine.
func (b *Backend) inTime(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, b.patience, fmt.Errorf("the engine did not answer within %v", b.patience))
}
