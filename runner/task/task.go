// Package task is what travels sealed through the queue: what a submitter asks of
// a runner, and the runner's report. It is pure data, read strictly.
package task

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/job"
)

// Names of the files that come with a report.
const (
	FilePatch     = "patch"
	FileArtefacts = "artefacts"
)

// ClassHost is the class of runners that offer the host's toolchain as a root. A
// runner with an image offers a class named by each of its digests.
const ClassHost = "host"

// Task is a job as its submitter wants it.
type Task struct {
	// Spec has no mounts: what of its own a runner shows to jobs isn't for others
	// to say.
	Spec job.Spec `json:"spec"`
	// Workspace says that a snapshot comes with the job, to be shown at
	// job.WorkspaceDir.
	Workspace bool `json:"workspace,omitempty"`
	// RepoPath is where the workspace lies in its repository, "" or with a "/"
	// behind. Paths of the patch begin with it.
	RepoPath string  `json:"repo_path,omitempty"`
	Outbox   *Outbox `json:"outbox,omitempty"`
}

// Outbox is a file of the workspace in which the job leaves lines for its submitter.
type Outbox struct {
	// Path is relative to the workspace.
	Path string `json:"path"`
	// Kinds lists the lines' "kind" that are wanted; none takes all.
	Kinds []string `json:"kinds,omitempty"`
}

// maxKinds bounds Outbox.Kinds.
const maxKinds = 64

var validKind = regexp.MustCompile(`^[a-z][a-z0-9_.-]{0,63}$`)

// Class is what a runner must offer to run the task.
func (t Task) Class() string {
	if t.Spec.Root.Kind == job.RootImage {
		return t.Spec.Root.Image
	}
	return ClassHost
}

// Validate says whether the task can be run as written; the code is "rejected".
func (t Task) Validate() error {
	if len(t.Spec.Mounts) > 0 {
		return reject("the task names mounts", "send a workspace instead")
	}
	if err := t.ForWorkspace("/snapshot").Validate(); err != nil {
		return err
	}
	if (len(t.Spec.Collect) > 0 || t.Outbox != nil) && !t.Workspace {
		return reject("the task wants files back, but has no workspace", "send a workspace")
	}
	if p := t.RepoPath; p != "" && (!strings.HasSuffix(p, "/") || !local(strings.TrimSuffix(p, "/"))) {
		return reject("the workspace's place in its repository is not valid", "use a relative path with a / behind")
	}
	for _, s := range t.Spec.Steps {
		if s.TTY {
			return reject("a step wants a terminal", "leave tty out: nobody sits at a queued job")
		}
	}
	return t.Outbox.validate()
}

// ForWorkspace is the task's spec with the snapshot's directory, if it has one.
func (t Task) ForWorkspace(dir string) job.Spec {
	s := t.Spec
	if t.Workspace {
		s.Mounts = []job.Mount{{Source: dir, Target: job.WorkspaceDir, Mode: job.MountOverlay}}
	}
	return s
}

func (o *Outbox) validate() error {
	if o == nil {
		return nil
	}
	if !local(o.Path) || strings.ContainsAny(o.Path, `*?[]{}\`) {
		return reject("the outbox's path is not valid", "use a relative path of the workspace without * ? [ ] { } and \\")
	}
	if len(o.Kinds) > maxKinds || slices.ContainsFunc(o.Kinds, func(k string) bool { return !validKind.MatchString(k) }) {
		return reject("the outbox's kinds are not valid", "use up to 64 words of a-z, 0-9 and _.-")
	}
	return nil
}

// local says whether a path is relative, clean, and stays where it is.
func local(p string) bool {
	return p != "" && p != "." && len(p) <= 4096 && !strings.ContainsRune(p, 0) && !path.IsAbs(p) && path.Clean(p) == p &&
		p != ".." && !strings.HasPrefix(p, "../")
}

func reject(what, hint string) error {
	return fault.New(what, hint).WithCode(string(job.ReasonRejected))
}

// Encode is the task's payload.
func (t Task) Encode() ([]byte, error) {
	p := payload{Task: t}
	for _, s := range t.Spec.Secrets {
		if p.Values == nil {
			p.Values = map[string]string{}
		}
		p.Values[s.Name] = s.Value.Reveal()
	}
	return json.Marshal(p)
}

// payload is a task as it travels: sealed, it is the one document that has the values
// of secrets, by their names.
type payload struct {
	Task
	Values map[string]string `json:"secret_values,omitempty"`
}

// Decode reads a payload and validates it. A field that it doesn't know may be a
// policy, so it is refused.
func Decode(sealed []byte) (Task, error) {
	var p payload
	if err := strict(sealed, &p); err != nil {
		return Task{}, fault.Wrap(err, "read the task", "give submitter and runner the same version of quavon").
			WithCode(string(job.ReasonRejected))
	}
	for i, s := range p.Spec.Secrets {
		p.Spec.Secrets[i].Value = job.NewValue(p.Values[s.Name])
	}
	return p.Task, p.Validate()
}

// strict reads one JSON document with known fields only.
func strict(b []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("something follows the document")
	}
	return nil
}
