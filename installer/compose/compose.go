// Package compose is the part of an installation that runs in containers: its images,
// the compose file and what goes into it, the services, the wait for them, and the
// test of what came up. Files are rendered here and judged by compose's own loader
// together with the operator's; starting is left to `docker compose`.
package compose

import (
	"context"
	"time"

	"github.com/quavon/quavon/installer/phase"
	"github.com/quavon/quavon/runner/image/lock"
)

// Project is the name of the compose project, which begins the names of its networks
// and volumes.
const Project = "quavon"

// Services of the compose file.
const (
	Valkey = "valkey"
	Guard  = "docker-guard"
	Runner = "sandbox-runner"
	Egress = "sandbox-egress"
)

// Images of the lock that services run on.
const (
	ImageValkey = "valkey"
	ImageQuavon = "quavon"
)

// DefaultTimeout is how long services have to become healthy.
const DefaultTimeout = 10 * time.Minute

// Options say what to install and with whose help.
type Options struct {
	Target *phase.Target
	// Images makes the images and their lock, Smoke tests the sandboxes of the running
	// stack. They belong to packages that the installer doesn't know.
	Images Builder
	Smoke  func(ctx context.Context, show phase.Reporter) error
	// Forget removes an image, by its config's digest, from where Images has put it besides
	// the engine; nil where that is nowhere.
	Forget func(ctx context.Context, config string) error
	// Timeout bounds the wait for services; zero is DefaultTimeout.
	Timeout time.Duration
}

// Builder makes the images that an installation needs.
type Builder interface {
	// Stale says why the lock isn't what Build would make, one line each, nil when it
	// is. It builds nothing and asks no network.
	Stale(ctx context.Context) ([]string, error)
	// Build makes what is missing and replaces the lock at its path in one step, or
	// leaves it alone. The one before is kept beside it. What the engine has then besides
	// the lock's images is named.
	Build(ctx context.Context, show phase.Reporter) (besides []string, err error)
}

// Phases are images, compose, wait and smoke, which share one connection to the
// engine. The connection is made when it is first needed.
func Phases(o Options) []phase.Phase {
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	s := &stack{Options: o}
	return []phase.Phase{&images{s}, &services{s}, &wait{s}, &smoke{s}}
}

// stack is what the phases share.
type stack struct {
	Options
	api *engine
}

// engine connects once.
func (s *stack) engine(ctx context.Context) (*engine, error) {
	if s.api == nil {
		e, err := connect(ctx, s.Target.Socket)
		if err != nil {
			return nil, err
		}
		s.api = e
	}
	return s.api, nil
}

// lock reads the lock of images.
func (s *stack) lock() (*lock.File, error) { return lock.Read(s.Target.Lock()) }
