package commands

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"strings"
	"time"

	"github.com/quavon/quavon/runner/client"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/scan"
	"github.com/quavon/quavon/runner/task"
)

// remote lets a runner scan: an ordinary job, whose report comes back as an artefact.
func (o *scanOptions) remote(ctx context.Context, tree *scanTree, so scan.Options) (*scan.Report, string, error) {
	// The report is left in the runner's copy of the directory, by a name that nothing in
	// it can have.
	file := ".quavon-scan-" + strings.ToLower(rand.Text())
	so.Root, so.To, so.Aside = job.WorkspaceDir, job.WorkspaceDir+"/"+file, file+"-aside"
	argv, err := scan.Argv(so)
	if err != nil {
		return nil, "", err
	}
	sub := &submitOptions{program: o.program}
	digest, err := sub.imageDigest(o.Image)
	if err != nil {
		return nil, "", err
	}
	j := client.Job{
		Image: digest, Steps: []client.Step{{Name: "scan", Run: argv}}, Collect: []string{file}, Dir: tree.dir,
		Limits: client.Limits{CPUs: o.CPUs, Memory: client.Size(o.Memory), Disk: client.Size(o.Disk), Time: client.Duration(o.wall())},
	}
	if err := j.Check(); err != nil {
		return nil, digest, err
	}
	c, err := o.settings.client(ctx, o.program)
	if err != nil {
		return nil, digest, err
	}
	defer c.Close()
	said := &lastBytes{most: 4 << 10}
	res, err := c.Run(ctx, j, client.Log{Stderr: said, Note: func(s string) { sub.note(s) }})
	if err == nil {
		err = scanEnded(ctx, res.Result, said.String())
	}
	if err != nil {
		return nil, digest, err
	}
	rep, err := fetchScan(ctx, res, file, so, tree.prefix)
	return rep, digest, err
}

// fetchScan reads the report that the job has left.
func fetchScan(ctx context.Context, res *client.Result, file string, so scan.Options, repoPath string) (*scan.Report, error) {
	if !res.Has(task.FileArtefacts) {
		return nil, fault.New("the runner sent no report", "look at its log").WithCode(string(job.ReasonInternal))
	}
	ctx, cancel := context.WithTimeoutCause(ctx, 10*time.Minute, errors.New("fetching the report takes too long"))
	defer cancel()
	dir, err := os.MkdirTemp("", "quavon-scan-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if _, err := res.Artefacts(ctx, dir); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, err := root.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return scan.Read(f, so, repoPath)
}
