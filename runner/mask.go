package runner

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/job"
)

// maxMasks bounds the files of one workspace that are hidden.
const maxMasks = 1000

// findMasks lists what a job with a network mustn't read of its workspace: the files
// that commonly hold credentials. They stay hidden in its later steps, since what a
// step with a network has brought in runs there too.
func (j *run) findMasks(ctx context.Context) (err error) {
	if !hasNetwork(j.spec.Steps[0]) {
		return nil
	}
	for _, m := range j.spec.Mounts {
		if m.Target != job.WorkspaceDir || m.Mode != job.MountOverlay {
			continue
		}
		if j.masks, err = credentials(ctx, m.Source); err != nil {
			return fault.Wrap(err, "can't look for credentials in the workspace", "check that the directory can be read").
				WithCode(string(job.ReasonRejected))
		}
	}
	return nil
}

// credentials finds .env*, .npmrc and .git/config at any depth below dir, outside of
// node_modules. Of a symbolic link within dir it is the file behind it.
func credentials(ctx context.Context, dir string) (found []string, err error) {
	add := func(path string) {
		if rel, ok := fileBelow(dir, path); ok {
			found = append(found, rel)
		}
	}
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil && path == dir:
			return err
		case err != nil:
			return nil //nolint:nilerr // what can't be read here is not shown to the job either
		case d.IsDir() && d.Name() == "node_modules":
			return fs.SkipDir
		case d.IsDir() && d.Name() == ".git":
			add(filepath.Join(path, "config"))
			modules, _ := os.ReadDir(filepath.Join(path, "modules")) // most have none
			for _, m := range modules {
				add(filepath.Join(path, "modules", m.Name(), "config"))
			}
			return fs.SkipDir
		case !d.IsDir() && (strings.HasPrefix(d.Name(), ".env") || d.Name() == ".npmrc"):
			add(path)
		}
		if len(found) > maxMasks {
			return fmt.Errorf("there are more than %d files such as .env", maxMasks)
		}
		return nil
	})
	return found, err
}

// fileBelow is the path of a regular file relative to dir, links followed.
func fileBelow(dir, path string) (string, bool) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", false
	}
	fi, err := os.Lstat(real)
	if err != nil || !fi.Mode().IsRegular() {
		return "", false
	}
	rel, err := filepath.Rel(dir, real)
	return rel, err == nil && filepath.IsLocal(rel)
}
