package runner

import (
	"cmp"
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
	files, err := b.ReadImage(ctx, img, image.MaxDatabase, image.PasswdFile, image.GroupFile)
	if err != nil {
		return nil, err
	}
	as, err := image.ResolveUser(cmp.Or(r.User, img.User), func(path string) ([]byte, error) { return files[path], nil })
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

func (d detachedRoot) config(c *sandbox.Config) {
	c.Image = d.id
	c.Owner = &sandbox.Owner{UID: d.as.UID, GID: d.as.GID}
}

func (d detachedRoot) setup(s *agent.Setup) { d.imageUser.setup(s) }

func (detachedRoot) Close() error { return nil }
