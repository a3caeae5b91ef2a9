// Package job is what a job may do and what became of it: pure data, validated
// once at a front door. Nothing downstream of a Spec reads flags or environment.
package job

import "time"

// Spec is everything a job may do.
type Spec struct {
	// ID names the job and its sandbox: 1 to 64 characters of [a-z0-9-].
	ID string `json:"id"`
	// Root is what the job sees as its root file system.
	Root Root `json:"root"`
	// Mounts are the directories the job sees besides Root.
	Mounts []Mount `json:"mounts,omitempty"`
	// Steps run one after the other in the same sandbox; at least one.
	Steps []Step `json:"steps"`
	// Allow lists what the steps with a network may reach, at most: rules as
	// runner/egress/policy reads them. What the operator allows counts besides.
	Allow []string `json:"allow,omitempty"`
	// Secrets are used by the steps with a network, and seen by none.
	Secrets []Secret `json:"secrets,omitempty"`
	// Limits bound the whole job.
	Limits Limits `json:"limits"`
	// Collect lists glob patterns of files to hand back, relative to the
	// workspace.
	Collect []string `json:"collect,omitempty"`
	// Changes asks for the workspace's changes: none, their list, or also
	// their content.
	Changes ChangeMode `json:"changes,omitempty"`
}

// RootKind tells where the job's root file system comes from.
type RootKind string

// Kinds of root file system.
const (
	// RootHost is the host's own toolchain, read-only.
	RootHost RootKind = "host"
	// RootImage is an image of the store, by digest.
	RootImage RootKind = "image"
)

// Root is the job's root file system.
type Root struct {
	Kind RootKind `json:"kind"`
	// Image is "sha256:<hex>" of the image's config, or of a manifest or index that
	// it was imported by; RootImage only.
	Image string `json:"image,omitempty"`
	// User is a name or id of the image's, ":group" may follow; "" is the user in
	// the image's config. RootImage only.
	User string `json:"user,omitempty"`
}

// MountMode is how a host directory appears in the sandbox.
type MountMode string

// Mount modes. No mode lets a sandbox write to a host directory: what is to be
// kept is copied back by the host after the job has ended.
const (
	// MountReadOnly shows the directory as it is.
	MountReadOnly MountMode = "ro"
	// MountOverlay shows the directory with a writable layer of the job's own.
	MountOverlay MountMode = "overlay"
)

// Mount shows a host directory to the job.
type Mount struct {
	Source string    `json:"source"`
	Target string    `json:"target"`
	Mode   MountMode `json:"mode"`
	// Protect lists paths below Target that stay read-only, such as ".git".
	Protect []string `json:"protect,omitempty"`
}

// Network is what a step may reach.
type Network string

// Network policies.
const (
	// NetworkNone leaves only loopback.
	NetworkNone Network = "none"
	// NetworkRegistries opens the door to the egress proxy for one step.
	NetworkRegistries Network = "registries"
)

// Step is one command of a job.
type Step struct {
	Name string   `json:"name,omitempty"`
	Argv []string `json:"argv"`
	// Env holds "KEY=value" entries added to the sandbox's base environment.
	Env []string `json:"env,omitempty"`
	// Dir is absolute; "" is the workspace.
	Dir string `json:"dir,omitempty"`
	TTY bool   `json:"tty,omitempty"`
	// Timeout bounds this step; zero leaves only the job's wall clock.
	Timeout time.Duration `json:"timeout_ns,omitempty"`
	// Network may be open for the first steps only: nothing that a step without one
	// has started may find the door.
	Network           Network `json:"network,omitempty"`
	ContinueOnFailure bool    `json:"continue_on_failure,omitempty"`
}

// Limits bound a job. Zero means "no limit asked for".
type Limits struct {
	// Memory in bytes, sandbox and job together, no swap.
	Memory int64 `json:"memory_bytes,omitempty"`
	// CPUs is a share of processor time, 1.5 = one and a half processors.
	CPUs float64 `json:"cpus,omitempty"`
	// Pids counts the job's own processes and threads.
	Pids int64 `json:"pids,omitempty"`
	// Disk in bytes, over everything the job can write.
	Disk int64 `json:"disk_bytes,omitempty"`
	// Output in bytes, stdout and stderr of all steps together.
	Output int64 `json:"output_bytes,omitempty"`
	// Wall is the job's time from its first step's start.
	Wall time.Duration `json:"wall_ns,omitempty"`
}

// ChangeMode is how much of the workspace's changes a job hands back.
type ChangeMode string

// Change modes.
const (
	ChangesNone    ChangeMode = ""
	ChangesList    ChangeMode = "list"
	ChangesContent ChangeMode = "content"
)
