package docker

import (
	"archive/tar"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"strings"

	"github.com/docker/docker/api/types/container"

	"github.com/quavon/quavon/runner/sandbox/docker/object"
)

// helperPrefix begins the ids of helpers, which have slots like sandboxes: what a
// crash leaves of them is found in the same way.
const helperPrefix = "helper-"

// withHelper makes a container that is never started, so that files can be read from
// its image or written to its volumes, and removes it after use.
func (b *Backend) withHelper(
	ctx context.Context, image string, host *container.HostConfig, use func(ctx context.Context, id string) error,
) error {
	ctx, cancel := b.inTime(ctx)
	defer cancel()
	slot, err := b.State.Create(ctx, b.Name(), helperPrefix+strings.ToLower(rand.Text()[:12]))
	if err != nil {
		return err
	}
	if host == nil {
		host = &container.HostConfig{}
	}
	b.harden(host)
	c := &container.Config{
		Image: image, Entrypoint: []string{object.GuestPath}, User: "0:0", WorkingDir: "/",
		Healthcheck: noHealthcheck, Labels: b.labels(object.RoleHelper, slot.ID),
	}
	r, err := b.api.ContainerCreate(ctx, c, host, nil, nil, object.Container(b.instance, slot.ID))
	if err == nil {
		err = use(ctx, r.ID)
	}
	return errors.Join(err, b.dispose(ctx, slot))
}

// readFile reads a regular file of a container, no more than max bytes of it; a
// link is not followed.
func (b *Backend) readFile(ctx context.Context, id, path string, max int64) ([]byte, error) {
	r, _, err := b.api.CopyFromContainer(ctx, id, path)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	tr := tar.NewReader(r)
	h, err := tr.Next()
	if err != nil {
		return nil, err
	}
	if h.Typeflag != tar.TypeReg {
		return nil, nil
	}
	return io.ReadAll(io.LimitReader(tr, max))
}
