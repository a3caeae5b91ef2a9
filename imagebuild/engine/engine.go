// Package engine has the Docker Engine build, load and save images, through its
// API alone: no file of the daemon's host is used, and no docker program.
//
// BuildKit is used where the daemon offers it. Of BuildKit's client only two
// services are needed, which hand out secrets and the context, so this package
// serves them by itself instead of linking BuildKit's session, gRPC and all that
// they bring.
package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/build"
	apiimage "github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/image/source"
)

// Engine is a Docker Engine that answers.
type Engine struct {
	api *client.Client
	// BuildKit says whether the daemon builds with BuildKit.
	BuildKit bool
}

// Connect reaches the engine at host, which is what DOCKER_HOST says, or its
// usual socket, when it is "".
func Connect(ctx context.Context, host string) (*Engine, error) {
	opts := []client.Opt{client.FromEnv, client.WithAPIVersionNegotiation()}
	if host != "" {
		opts = append(opts, client.WithHost(host))
	}
	api, err := client.NewClientWithOpts(opts...)
	if err != nil {
		return nil, unreachable(err, host)
	}
	// The client would look up a name that isn't one.
	if scheme, _, _ := strings.Cut(api.DaemonHost(), "://"); !slices.Contains([]string{"unix", "tcp", "http", "https"}, scheme) {
		return nil, fault.Wrap(errors.Join(fmt.Errorf("it isn't reached by %.20q", scheme), api.Close()),
			"can't use the Docker Engine "+api.DaemonHost(), "write unix:///PATH or tcp://HOST:PORT in --docker-host or DOCKER_HOST")
	}
	ping, err := api.Ping(ctx)
	if err != nil {
		return nil, unreachable(errors.Join(err, api.Close()), api.DaemonHost())
	}
	return &Engine{api, ping.BuilderVersion == build.BuilderBuildKit}, nil
}

func unreachable(err error, host string) error {
	return fault.Wrap(err, "can't reach the Docker Engine",
		"start Docker, or name its address with --docker-host or DOCKER_HOST; tried "+host)
}

// Close ends the connections to the engine.
func (e *Engine) Close() error { return e.api.Close() }

// Platform is what the engine runs without emulation.
func (e *Engine) Platform(ctx context.Context) (v1.Platform, error) {
	v, err := e.api.ServerVersion(ctx)
	return v1.Platform{OS: v.Os, Architecture: v.Arch}, err
}

// Image is what the engine knows of an image.
type Image struct {
	// ID is the digest of the config; of the manifest in engines that keep
	// images in containerd.
	ID string
	// DiffIDs of the layers, bottom first.
	DiffIDs []string
	// Size is in bytes, as the engine counts.
	Size int64
}

// ErrNoImage is an image that the engine doesn't have.
var ErrNoImage = errors.New("the engine has no such image")

// Inspect finds an image by ID or name; the error is ErrNoImage when there is none.
func (e *Engine) Inspect(ctx context.Context, ref string) (*Image, error) {
	i, err := e.api.ImageInspect(ctx, ref)
	switch {
	case errdefs.IsNotFound(err):
		return nil, fmt.Errorf("%w: %s", ErrNoImage, ref)
	case err != nil:
		return nil, err
	}
	return &Image{i.ID, i.RootFS.Layers, i.Size}, nil
}

// Tag names an image.
func (e *Engine) Tag(ctx context.Context, id, name string) error {
	return e.api.ImageTag(ctx, id, name)
}

// Untag takes a name away, and with it an image that has no other.
func (e *Engine) Untag(ctx context.Context, name string) error {
	_, err := e.api.ImageRemove(ctx, name, apiimage.RemoveOptions{PruneChildren: true})
	if errdefs.IsNotFound(err) {
		return nil
	}
	return err
}

// Load has the engine read a docker-archive.
func (e *Engine) Load(ctx context.Context, archive io.Reader) error {
	resp, err := e.api.ImageLoad(ctx, archive, client.ImageLoadWithQuiet(true))
	if err != nil {
		return err
	}
	_, err = messages(resp.Body, func(*message) {})
	return errors.Join(err, resp.Body.Close())
}

// Save gets an image out of the engine. It is kept in a file below scratch until
// it is closed.
func (e *Engine) Save(ctx context.Context, ref string, p v1.Platform, scratch string) (img *source.Image, err error) {
	f, err := os.CreateTemp(scratch, "save-*.tar")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.Remove(f.Name())) }() // the image keeps it open
	defer f.Close()
	body, err := e.api.ImageSave(ctx, []string{ref})
	if err != nil {
		return nil, err
	}
	_, err = io.Copy(f, body)
	if err := errors.Join(err, body.Close()); err != nil {
		return nil, fmt.Errorf("save %s: %w", ref, err)
	}
	sel := source.Select{Platform: p}
	if hex, ok := strings.CutPrefix(ref, "sha256:"); ok {
		sel.Digest = v1.Hash{Algorithm: "sha256", Hex: hex}
	}
	if img, err = source.File(ctx, f.Name(), sel, scratch); err != nil {
		return nil, err
	}
	img.Origin = "docker-daemon:" + ref
	return img, nil
}
