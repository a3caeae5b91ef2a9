package runner

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"path"
	"slices"

	"golang.org/x/sys/unix"

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
	id     string
	points []agent.Point
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
	as, err := image.ResolveUser(cmp.Or(r.User, img.User), func(path string) ([]byte, error) { return files.Content[path], nil })
	if err == nil {
		err = checkIDs(as)
	}
	if err != nil {
		return nil, &fault.Error{
			What: fmt.Sprintf("can't run the image %s", r.Image), Err: err, Hint: fault.Hint(err), Code: string(job.ReasonRejected),
		}
	}
	return detachedRoot{newImageUser(as, img.Env, img.WorkDir), img.ID, pointsIn(img.WorkDir, files.Made)}, nil
}

// pointsIn are what the agent makes in the image's root, as the store does in its own.
// What the backend has made has its owner and mode from nobody; an empty /etc/hosts is
// taken for its, too, since an engine makes one in the root of every container.
func pointsIn(workDir string, made []string) []agent.Point {
	var points []agent.Point
	if workDir != "" {
		points = append(points, agent.Point{Path: path.Join("/", workDir), Mode: 0o755, Follow: true})
	}
	for _, p := range image.Points() {
		mode := fs.FileMode(p.Mode) & fs.ModePerm
		if p.Mode&unix.S_ISVTX != 0 {
			mode |= fs.ModeSticky
		}
		points = append(points, agent.Point{
			Path: p.Path, Mode: mode, UID: p.UID, GID: p.GID, Body: p.Body, Renew: p.Body != "" || slices.Contains(made, p.Path),
		})
	}
	return points
}

func (d detachedRoot) config(c *sandbox.Config) {
	c.Image = d.id
	c.Owner = &sandbox.Owner{UID: d.as.UID, GID: d.as.GID}
}

func (d detachedRoot) setup(s *agent.Setup) {
	d.imageUser.setup(s)
	s.Points = d.points
}

func (detachedRoot) Close() error { return nil }
