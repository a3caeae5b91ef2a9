package sandbox

import "context"

// Detached is a backend whose sandboxes see nothing of this host's files. Its
// images come from where it runs them: Config.Image names one, and RootDir,
// RootImage and RootBinds mean nothing to it. It attaches no mounts: whoever starts
// a sandbox puts their content below LowerDir through the agent, before Setup.
type Detached interface {
	Backend
	// FindImage looks up an image by the digest of its config, its manifest or its
	// index. The error has the code image_unknown when it isn't there or isn't one
	// that may be used.
	FindImage(ctx context.Context, digest string) (*Image, error)
	// ReadImage reads regular files of an image, by their paths, no more than max bytes
	// of each; one that isn't there is empty.
	ReadImage(ctx context.Context, img *Image, max int64, paths ...string) (*ImageFiles, error)
}

// ImageFiles is what was read of an image.
type ImageFiles struct {
	// Content is that of the files asked for, by path.
	Content map[string][]byte
	// Made are directories that the image doesn't have and each of its sandboxes does,
	// with whatever owner and mode: the backend mounts something there.
	Made []string
}

// Image is an image of a detached backend.
type Image struct {
	// ID is what Config.Image takes.
	ID string
	// Config is the digest of the image's config, the same wherever it is stored.
	Config string
	// User, Env, WorkDir, Entrypoint and Cmd are what its config says.
	User            string
	Env             []string
	WorkDir         string
	Entrypoint, Cmd []string
}

// AsDetached returns the detached backend that b is or wraps, nil when there is
// none.
func AsDetached(b Backend) Detached {
	for {
		if d, ok := b.(Detached); ok {
			return d
		}
		w, ok := b.(interface{ Unwrap() Backend })
		if !ok {
			return nil
		}
		b = w.Unwrap()
	}
}
