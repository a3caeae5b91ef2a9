package job

import (
	"cmp"
	"slices"
	"time"
)

// Result is what became of a job. Its JSON form is the output of `quavon run
// --json` and, signed, what a runner hands back.
type Result struct {
	ID string `json:"id"`
	// Reason is "" when the last step ended by itself.
	Reason Reason `json:"reason,omitempty"`
	// Message and Hint explain Reason to a person.
	Message string `json:"message,omitempty"`
	Hint    string `json:"hint,omitempty"`
	// Exit is the exit code of the step that decided the job, -1 when none ran.
	Exit int `json:"exit"`
	// Signal names the signal that ended that step, such as "SIGSEGV".
	Signal string       `json:"signal,omitempty"`
	Steps  []StepResult `json:"steps,omitempty"`
	Phases []Phase      `json:"phases,omitempty"`
	Usage  Usage        `json:"usage"`
	// LimitsHit names every limit that was reached, in the order of their names.
	LimitsHit []string `json:"limits_hit,omitempty"`
	// Output counts what was delivered and what was cut.
	Output  OutputCount `json:"output"`
	Sandbox SandboxInfo `json:"sandbox"`
	// Egress is what the steps with a network reached, nil when there were none.
	Egress *Egress `json:"egress,omitempty"`
	// Changes lists what the job changed in the workspace, sorted by path.
	Changes []Change `json:"changes,omitempty"`
}

// StepResult is what became of one step.
type StepResult struct {
	Name   string        `json:"name,omitempty"`
	Exit   int           `json:"exit"`
	Signal string        `json:"signal,omitempty"`
	Reason Reason        `json:"reason,omitempty"`
	Wall   time.Duration `json:"wall_ns"`
	Usage  Usage         `json:"usage"`
}

// Phase is a named part of a job's wall-clock time.
type Phase struct {
	Name string        `json:"name"`
	Took time.Duration `json:"took_ns"`
}

// Usage is what the step's processes used, as the sandbox kernel counted it.
type Usage struct {
	User time.Duration `json:"user_ns"`
	Sys  time.Duration `json:"sys_ns"`
	// MaxRSS in bytes.
	MaxRSS int64 `json:"max_rss_bytes"`
}

// OutputCount is in bytes, stdout and stderr together.
type OutputCount struct {
	Delivered int64 `json:"delivered_bytes"`
	Truncated bool  `json:"truncated"`
}

// Egress counts what steps with a network reached and what was refused them.
type Egress struct {
	Connections int64 `json:"connections"`
	Sent        int64 `json:"sent_bytes"`
	Received    int64 `json:"received_bytes"`
	Refused     int64 `json:"refused"`
	// Refusals tells them apart, at most 64 kinds, the most frequent first.
	Refusals []Refusal `json:"refusals,omitempty"`
}

// Refusal is one kind of refused connections.
type Refusal struct {
	// Host and Port are what was asked for, "" and 0 where that can't be read.
	Host string `json:"host,omitempty"`
	Port uint16 `json:"port,omitempty"`
	// Reason is stable; docs/egress.md explains each.
	Reason string `json:"reason"`
	Count  int64  `json:"count"`
}

// Add counts another step's.
func (e *Egress) Add(o Egress) {
	e.Connections += o.Connections
	e.Sent += o.Sent
	e.Received += o.Received
	e.Refused += o.Refused
	for _, r := range o.Refusals {
		e.add(r)
	}
	slices.SortStableFunc(e.Refusals, func(a, b Refusal) int { return cmp.Compare(b.Count, a.Count) })
}

// maxRefusals bounds the kinds of refusals: their names are the job's choice.
const maxRefusals = 64

func (e *Egress) add(r Refusal) {
	for i := range e.Refusals {
		have := &e.Refusals[i]
		if have.Host == r.Host && have.Port == r.Port && have.Reason == r.Reason {
			have.Count += r.Count
			return
		}
	}
	if len(e.Refusals) < maxRefusals {
		e.Refusals = append(e.Refusals, r)
	}
}

// SandboxInfo says what ran the job and under which limits, as read back from
// the host, not as asked for.
type SandboxInfo struct {
	Backend  string `json:"backend"`
	Runtime  string `json:"runtime"`
	Platform string `json:"platform,omitempty"`
	Rootless bool   `json:"rootless,omitempty"`
	Limits   Limits `json:"limits"`
}

// ChangeKind says how a path differs from what the job was given.
type ChangeKind string

// Kinds of change.
const (
	Added    ChangeKind = "added"
	Modified ChangeKind = "modified"
	Deleted  ChangeKind = "deleted"
)

// Change is one path of the workspace that differs from what the job was given.
type Change struct {
	Path string     `json:"path"`
	Kind ChangeKind `json:"kind"`
}
