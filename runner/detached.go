package runner

import (
	"context"
	"fmt"

	"github.com/quavon/quavon/runner/agent"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/image"
	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/sandbox"
)

// detachedRoot is an image that the backend has, with a writable layer of the
// job's own.
type detachedRoot struct {
	imageUser
	id string
}

// openDetached finds a job's image where the backend has it.
func openDetached(ctx context.Context, b sandbox.Detached, r job.Root) (root, error) {
	img, err := b.FindImage(ctx, r.Image)
	if err != nil {
		return nil, err
	}
	read := func(path string) ([]byte, error) { return b.ReadImage(ctx, img, path, image.MaxDatabase) }
	as, err := image.ResolveUser(fallback(r.User, img.User), read)
	if err == nil {
		err = checkIDs(as)
	}
	if err != nil {
		return nil, &fault.Error{
			What: fmt.Sprintf("can't run the image %s", r.Image), Err: err, Hint: fault.Hint(err), Code: string(job.ReasonRejected),
		}
	}
	return detachedRoot{newImageUser(as, img.Env, img.WorkDir), img.ID}, nil
}

func fallback(user, of string) string {
	if user == "" {
		return of
	}
	return user
}

func (d detachedRoot) config(c *sandbox.Config) {
	c.Image = d.id
	c.Owner = &sandbox.Owner{UID: d.as.UID, GID: d.as.GID}
}

func (d detachedRoot) setup(s *agent.Setup) { d.imageUser.setup(s) }

func (detachedRoot) Close() error { return nil }
