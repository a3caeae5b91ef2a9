package commands

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"

	"github.com/quavon/quavon/runner/client"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/image/source"
	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/workspace"
)

func (o *submitOptions) readJob() (client.Job, error) {
	if o.JobFile == "-" {
		return client.Read(o.IO.In)
	}
	return client.ReadFile(o.JobFile)
}

// imageDigest finds the digest of an image that is named: in the lock, for it is the
// runners that have the images.
func (o *submitOptions) imageDigest(name string) (string, error) {
	if name == "" || strings.HasPrefix(name, "sha256:") {
		return name, nil
	}
	if _, digest, ok := strings.Cut(name, "@"); ok {
		return digest, nil
	}
	l, err := o.readLock()
	if err != nil {
		return "", err
	}
	if l == nil {
		return "", fault.New("the image "+name+" is no digest, and there is no lock to look it up in",
			"name the lock with QUAVON_SANDBOX_IMAGES_FILE, or write sha256:…").WithCode(string(job.ReasonImageUnknown))
	}
	_, pinned := l.Find(name, source.Host())
	if pinned == nil {
		return "", fault.New("the lock has no image "+name+" for this platform", "look into "+o.lockFile()).
			WithCode(string(job.ReasonImageUnknown))
	}
	return pinned.Config, nil
}

// checkOutputs refuses to write where a link in the workspace leads to.
func (o *submitOptions) checkOutputs() error {
	for flag, path := range map[string]string{"--patch": o.Patch, "--out": o.Out, "--json": o.JSON} {
		if path == "" || path == "-" || o.Workspace == "none" {
			continue
		}
		if err := workspace.CheckOutput(path, o.Workspace); err != nil {
			return &fault.Error{What: flag, Err: err, Hint: fault.Hint(err), Code: string(job.ReasonRejected)}
		}
	}
	return cmp.Or(fileFlag("--patch", o.Patch), dirFlag("--out", o.Out), fileFlag("--json", o.JSON))
}

// addWorkspace makes the job send what is asked for.
func (o *submitOptions) addWorkspace(ctx context.Context, j *client.Job) error {
	if o.Workspace == "none" {
		return nil
	}
	dir, err := o.dir()
	if err != nil {
		return err
	}
	if o.Ref == "" {
		j.Dir = dir
		return nil
	}
	commit, err := resolve(ctx, dir, o.Ref)
	if err != nil {
		return err
	}
	j.RepoPath = workspace.RepoPath(dir)
	j.Snapshot = func(ctx context.Context, w io.Writer) error { return archive(ctx, dir, commit, w) }
	return nil
}

// dir is the real path of the workspace.
func (o *submitOptions) dir() (string, error) {
	dir, err := workspace.CheckWorkspace(o.Workspace)
	if err != nil {
		return "", &fault.Error{What: "--workspace " + o.Workspace, Err: err, Hint: fault.Hint(err), Code: string(job.ReasonRejected)}
	}
	return dir, nil
}

// addSecrets reads --secret.
func (o *submitOptions) addSecrets(j *client.Job) (err error) {
	f := secretFlags{texts: o.Secrets, workspace: o.Workspace, lookupEnv: o.LookupEnv}
	if o.Workspace != "none" {
		dir, err := o.dir()
		if err != nil {
			return err
		}
		f.shown = []string{dir}
	}
	j.Secrets, err = f.read()
	return err
}

// git runs git without what a repository's own configuration could make it run.
func git(ctx context.Context, dir string, args ...string) *exec.Cmd {
	safe := []string{"-C", dir, "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "core.pager=cat"}
	cmd := exec.CommandContext(ctx, "git", append(safe, args...)...)
	cmd.Env = append(os.Environ(), "GIT_TERMINAL_PROMPT=0", "GIT_NO_LAZY_FETCH=1")
	return cmd
}

var commitID = regexp.MustCompile(`^[0-9a-f]{40}([0-9a-f]{24})?$`)

// resolve finds the commit behind a ref, so that a branch that moves meanwhile does
// no harm.
func resolve(ctx context.Context, dir, ref string) (string, error) {
	out, err := git(ctx, dir, "rev-parse", "--verify", "--end-of-options", ref+"^{commit}").Output()
	commit := strings.TrimSpace(string(out))
	if err != nil || !commitID.MatchString(commit) {
		return "", fault.Wrap(gitError(err), fmt.Sprintf("find the commit %.100q", ref),
			"name a commit, a branch or a tag of the repository in "+dir).WithCode(string(job.ReasonRejected))
	}
	return commit, nil
}

// archive writes a commit's files below dir as a tar stream.
func archive(ctx context.Context, dir, commit string, w io.Writer) error {
	cmd := git(ctx, dir, "archive", "--format=tar", commit)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = w, &said
	if err := cmd.Run(); err != nil {
		err = errors.Join(err, errors.New(strings.TrimSpace(said.String())))
		return fault.Wrap(err, "read the commit "+commit, "check the repository with git fsck").WithCode(string(job.ReasonRejected))
	}
	return nil
}

func gitError(err error) error {
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return errors.New(strings.TrimSpace(string(exit.Stderr)))
	}
	return err
}
