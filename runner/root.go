package runner

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/quavon/quavon/runner/agent"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/image"
	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/sandbox"
	"github.com/quavon/quavon/runner/toolchain"
)

// root is what the job sees as its file system, and what follows from it for
// the job's processes. It is kept from being removed until Close.
type root interface {
	// config completes what the backend needs to know.
	config(c *sandbox.Config)
	// setup completes what the agent has to arrange.
	setup(s *agent.Setup)
	// user is who the job's processes run as.
	user() image.User
	// env is the environment of a step that asks for nothing, "KEY=value".
	env() []string
	// dir is where a step starts that has no workspace.
	dir() string
	Close() error
}

// hostRoot is the host's own toolchain.
type hostRoot struct{ *toolchain.Tree }

func openHost(store string, mountpoints []string) (root, error) {
	tree, err := toolchain.Prepare(toolchain.Config{Store: store, Mountpoints: mountpoints})
	if err != nil {
		return nil, &fault.Error{
			What: "can't prepare the job's root", Err: err, Hint: fault.Hint(err),
			Code: string(job.ReasonSandboxUnavailable),
		}
	}
	return hostRoot{tree}, nil
}

func (h hostRoot) config(c *sandbox.Config) { c.RootDir, c.RootBinds = h.Dir, h.Binds }

func (hostRoot) setup(s *agent.Setup) { s.Dirs = writableDirs }

func (hostRoot) user() image.User {
	return image.User{UID: sandbox.JobUID, GID: sandbox.JobUID, Name: toolchain.User, Home: toolchain.Home}
}

func (hostRoot) env() []string {
	return []string{
		"HOME=" + toolchain.Home, "USER=" + toolchain.User, "LOGNAME=" + toolchain.User,
		"SHELL=/bin/sh", "LANG=C.UTF-8", "PATH=" + toolchain.Path("", nil),
	}
}

func (hostRoot) dir() string { return toolchain.Home }

// imageRoot is an image of the store, with a writable layer of the job's own.
type imageRoot struct {
	*image.Root
	imageUser
}

// imageUser is who a job in an image runs as, and what its environment is.
type imageUser struct {
	as      image.User
	environ []string
	workDir string
}

func newImageUser(as image.User, env []string, workDir string) imageUser {
	if as.Name == "" {
		as.Home = toolchain.Home
	}
	return imageUser{as, env, workDir}
}

func openImage(ctx context.Context, store *image.Store, r job.Root) (root, error) {
	if store == nil {
		return nil, fault.New("there is no image store", "leave the image out to use the host's toolchain").
			WithCode(string(job.ReasonImageUnknown))
	}
	img, err := store.Open(ctx, r.Image)
	if err != nil {
		return nil, err
	}
	as, err := img.User(r.User)
	if err == nil {
		err = checkIDs(as)
	}
	if err != nil {
		_ = img.Close() // a lock, nothing to flush
		return nil, &fault.Error{What: "can't run the image", Err: err, Hint: fault.Hint(err), Code: string(job.ReasonRejected)}
	}
	return imageRoot{img, newImageUser(as, img.Run.Env, img.Run.WorkDir)}, nil
}

// checkIDs refuses the ids that keep jobs away from the agent.
func checkIDs(u image.User) error {
	for _, id := range append([]uint32{u.UID, u.GID}, u.Groups...) {
		if id == sandbox.AgentUID {
			return fault.New(fmt.Sprintf("the image's user has the id %d, which is the sandbox's own", id),
				"choose another with --user UID:GID")
		}
	}
	return nil
}

func (i imageRoot) config(c *sandbox.Config) {
	c.RootImage = i.Path
	c.Owner = &sandbox.Owner{UID: i.as.UID, GID: i.as.GID}
}

func (i imageUser) setup(s *agent.Setup) {
	s.WritableRoot = true
	s.Dirs = []agent.Dir{{Path: "/dev/shm", Mode: fs.ModeSticky | 0o777}}
	if i.as.Name == "" {
		s.Dirs = append(s.Dirs, agent.Dir{Path: i.as.Home, Mode: 0o700, UID: i.as.UID, GID: i.as.GID})
	}
}

func (i imageUser) user() image.User { return i.as }

func (i imageUser) env() []string {
	base := []string{"HOME=" + i.as.Home, "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	return append(base, i.environ...)
}

func (i imageUser) dir() string { return cmp.Or(i.workDir, "/") }

// environ joins environments; the last entry of a name counts.
func environ(lists ...[]string) []string {
	env := map[string]string{}
	for _, list := range lists {
		for _, e := range list {
			k, v, _ := strings.Cut(e, "=")
			env[k] = v
		}
	}
	out := make([]string, 0, len(env))
	for _, k := range slices.Sorted(maps.Keys(env)) {
		out = append(out, k+"="+env[k])
	}
	return out
}
