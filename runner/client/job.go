package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/quavon/quavon/runner/bounded"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/queue"
	"github.com/quavon/quavon/runner/task"
	"github.com/quavon/quavon/runner/workspace"
)

// Job is what is to be run. Its JSON form is the job file, whose schema is
// docs/job.schema.json.
type Job struct {
	// Schema names the schema, for editors.
	Schema string `json:"$schema,omitempty"`
	// Image is the digest of an image to run in; "" is the toolchain of the
	// runner's host.
	Image string `json:"image,omitempty"`
	// User is the image's user to run as: NAME, UID or UID:GID.
	User string `json:"user,omitempty"`
	// Steps run one after the other, in one sandbox, until one fails.
	Steps []Step `json:"steps"`
	// Allow lists the hosts that steps with the network "registries" may reach, as
	// far as the runner's operator allows them.
	Allow  []string `json:"allow,omitempty"`
	Limits Limits   `json:"limits,omitzero"`
	// Collect lists patterns of files to hand back.
	Collect []string `json:"collect,omitempty"`
	// Patch asks for what the job changes in the workspace, as a git patch.
	Patch  bool         `json:"patch,omitempty"`
	Outbox *task.Outbox `json:"outbox,omitempty"`

	// Tenant is whose job it is: tenants take turns. "default".
	Tenant string `json:"tenant,omitempty"`
	// Priority is Batch by default.
	Priority Priority `json:"priority,omitempty"`
	// StartIn is how long the job may wait for a runner: 10 min.
	StartIn Duration `json:"start_in,omitempty"`
	// Attempts is how many runners may be lost with it: 3.
	Attempts int `json:"attempts,omitempty"`

	// Secrets are used by steps with a network, and seen by none. They travel sealed. A
	// job file has none: who knows a value says where it may go.
	Secrets []job.Secret `json:"-"`
	// Dir is the directory to send as the workspace; "" sends none.
	Dir string `json:"-"`
	// Snapshot writes the workspace as a tar stream, instead of Dir.
	Snapshot func(context.Context, io.Writer) error `json:"-"`
	// RepoPath is where the workspace lies in its repository, see task.Task; for a
	// Dir it is found.
	RepoPath string `json:"-"`
}

// Step is one command.
type Step struct {
	Name string `json:"name,omitempty"`
	// Run is a program and its arguments. In a job file it may also be a line for
	// /bin/sh.
	Run Command           `json:"run"`
	Env map[string]string `json:"env,omitempty"`
	// Dir is absolute; "" is the workspace.
	Dir     string   `json:"dir,omitempty"`
	Timeout Duration `json:"timeout,omitempty"`
	// Network is what the step may reach: "none", or "registries" for what Allow
	// lists. Such steps come first.
	Network           job.Network `json:"network,omitempty"`
	ContinueOnFailure bool        `json:"continue_on_failure,omitempty"`
}

// Limits bound the job. Zero leaves a limit to the runner; Time is 1 h.
type Limits struct {
	Memory Size     `json:"memory,omitempty"`
	CPUs   float64  `json:"cpus,omitempty"`
	Pids   int64    `json:"pids,omitempty"`
	Disk   Size     `json:"disk,omitempty"`
	Output Size     `json:"output,omitempty"`
	Time   Duration `json:"time,omitempty"`
}

// Priority says who goes first.
type Priority string

// Priorities. All interactive jobs go before batch jobs.
const (
	Interactive Priority = "interactive"
	Batch       Priority = "batch"
)

func (p Priority) queue() queue.Priority {
	if p == Interactive {
		return queue.Interactive
	}
	return queue.Batch
}

// maxFile bounds a job file, in bytes.
const maxFile = 4 << 20

// ReadFile reads the job file at path, which may be a pipe. Fields that it doesn't know
// are refused.
func ReadFile(path string) (Job, error) {
	text, err := bounded.ReadFile(path, maxFile)
	if err != nil {
		return Job{}, fault.Wrap(err, "read the job file", "name a file as docs/job.schema.json describes it").
			WithCode(string(job.ReasonRejected))
	}
	return Read(bytes.NewReader(text))
}

// Read is ReadFile for a stream.
func Read(r io.Reader) (Job, error) {
	const hint = "compare it with docs/job.schema.json"
	text, err := bounded.ReadAll(r, maxFile)
	var j Job
	if err == nil {
		d := json.NewDecoder(bytes.NewReader(text))
		d.DisallowUnknownFields()
		if err = d.Decode(&j); err == nil && d.More() {
			err = fmt.Errorf("something follows the job")
		}
	}
	if err != nil {
		return Job{}, fault.Wrap(err, "read the job file", hint).WithCode(string(job.ReasonRejected))
	}
	return j, nil
}

// Check refuses a job that no runner would take, without asking any. Submit does so too.
func (j *Job) Check() error {
	t, err := j.task("job-check")
	if err != nil {
		return err
	}
	return j.queued(t, nil).Check()
}

// task is the job as it travels.
func (j *Job) task(id string) (task.Task, error) {
	if !slices.Contains([]Priority{"", Batch, Interactive}, j.Priority) {
		return task.Task{}, fault.New(fmt.Sprintf("the priority %q is unknown", j.Priority), "use batch or interactive").
			WithCode(string(job.ReasonRejected))
	}
	t := task.Task{
		Spec: job.Spec{
			ID: id, Root: job.Root{Kind: job.RootHost}, Steps: j.steps(), Limits: j.Limits.spec(), Collect: j.Collect,
			Allow: j.Allow, Secrets: j.Secrets,
		},
		Workspace: j.Dir != "" || j.Snapshot != nil, RepoPath: j.RepoPath, Outbox: j.Outbox,
	}
	if j.Image != "" {
		t.Spec.Root = job.Root{Kind: job.RootImage, Image: j.Image, User: j.User}
	} else if j.User != "" {
		return task.Task{}, fault.New("a user is named without an image",
			"leave it out: with the host's toolchain a job is always the same user").WithCode(string(job.ReasonRejected))
	}
	if j.Patch {
		t.Spec.Changes = job.ChangesContent
	}
	if j.Dir != "" && j.Snapshot == nil {
		t.RepoPath = workspace.RepoPath(j.Dir)
	}
	return t, t.Validate()
}

func (j *Job) steps() []job.Step {
	steps := make([]job.Step, len(j.Steps))
	for i, s := range j.Steps {
		steps[i] = job.Step{
			Name: s.Name, Argv: s.Run, Dir: s.Dir, Timeout: time.Duration(s.Timeout),
			Network: cmp.Or(s.Network, job.NetworkNone), ContinueOnFailure: s.ContinueOnFailure,
		}
		for _, k := range slices.Sorted(maps.Keys(s.Env)) {
			steps[i].Env = append(steps[i].Env, k+"="+s.Env[k])
		}
	}
	return steps
}

func (l Limits) spec() job.Limits {
	return job.Limits{
		Memory: int64(l.Memory), CPUs: l.CPUs, Pids: l.Pids, Disk: int64(l.Disk), Output: int64(l.Output),
		Wall: cmp.Or(time.Duration(l.Time), time.Hour),
	}
}
