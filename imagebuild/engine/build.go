package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"

	"github.com/docker/docker/api/types/build"

	"github.com/quavon/quavon/runner/fault"
)

// Build is one image to build.
type Build struct {
	// Context is a tar of the directory.
	Context io.Reader
	// Dockerfile is a path in the context.
	Dockerfile string
	// Target is a stage, "" for the last.
	Target string
	Args   map[string]string
	// Platform is os/architecture.
	Platform string
	// Network of the steps: "" or "default", "host", "none".
	Network string
	// Secrets are contents by ID, mounted by steps that ask for them. They need
	// BuildKit and are part of no image.
	Secrets map[string][]byte
	// NoCache runs all steps, whatever the engine has of an earlier build.
	NoCache bool
	// Progress is told what happens, one step at a time; nil for nobody.
	Progress func(Step)
}

// Step is a step of a build as it changes.
type Step struct {
	// Name is what the Dockerfile says.
	Name string
	// Log is one more line of its output, "" when only the state changed.
	Log string
	// Done is set once, when the step has ended; Cached when it wasn't needed.
	Done, Cached bool
}

var imageID = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// Build builds an image, which has no name yet, and returns its ID.
func (e *Engine) Build(ctx context.Context, b *Build) (id string, err error) {
	hide := newRedactor(b.Secrets)
	o := build.ImageBuildOptions{
		Dockerfile: b.Dockerfile, Target: b.Target, BuildArgs: pointers(b.Args), Platform: b.Platform,
		NetworkMode: b.Network, Remove: true, ForceRemove: true, NoCache: b.NoCache, Version: build.BuilderV1,
	}
	body := b.Context
	switch {
	case e.BuildKit:
		s, failed := e.openSession(ctx, b)
		if failed != nil {
			return "", fmt.Errorf("open a BuildKit session: %w", failed)
		}
		defer s.close()
		defer func() { err = s.explain(err) }()
		// Not in the request: engines that keep images in containerd don't find it there.
		body, o.RemoteContext, o.Version, o.SessionID = nil, s.contextURL(), build.BuilderBuildKit, s.id
	case len(b.Secrets) > 0:
		return "", fault.New("this Docker Engine has no BuildKit, which secrets need",
			"use Docker Engine 23 or newer, or leave --secret out")
	}
	resp, err := e.api.ImageBuild(ctx, body, o)
	if err != nil {
		return "", cause(ctx, err)
	}
	r := &reporter{progress: b.Progress, hide: hide, steps: map[string]*step{}}
	id, err = messages(resp.Body, r.message)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return "", cause(ctx, r.explain(err))
	}
	if !imageID.MatchString(id) {
		return "", fmt.Errorf("the engine built no image, or one called %q", id)
	}
	return id, nil
}

// cause prefers why the build was given up to how that looked.
func cause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

func pointers(m map[string]string) map[string]*string {
	out := make(map[string]*string, len(m))
	for k, v := range m {
		out[k] = &v
	}
	return out
}
