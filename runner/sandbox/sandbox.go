// Package sandbox is the seam between the runner and what isolates a job: the
// Backend and Sandbox interfaces, the policies a backend can enforce, and the
// guest paths both sides agree on. Backends know nothing of queues or jobs'
// steps; everything that happens inside goes through the agent's byte stream.
package sandbox

import (
	"context"
	"io"
	"os"

	"github.com/quavon/quavon/runner/job"
)

// Paths inside every sandbox. A backend attaches these and nothing else of its
// own; GuestDir is 0700 and belongs to the agent, so a job can't look inside.
const (
	GuestDir = "/.quavon"
	// GuestBinary is quavon-guest, read-only. The backend starts it as
	// "GuestBinary init" with the byte stream on its stdin and stdout. Rootless it
	// starts under the mounts' owner, the one id there is in the user namespace; so the agent's
	// first act is to take AgentUID, keeping the capabilities it was given.
	GuestBinary = GuestDir + "/guest"
	// ScratchDir is the one writable place, sized by Limits.Disk. Everything a
	// job can write lives on it: /tmp, its home, the upper layers.
	ScratchDir = GuestDir + "/scratch"
	// LowerDir holds the mounts' sources: LowerDir/0, LowerDir/1, … read-only,
	// in the order of Config.Mounts. In a Detached backend's sandbox the agent makes
	// them, on scratch, when content is put there before Setup.
	LowerDir = GuestDir + "/lower"
)

// Door is where the agent listens inside the sandbox while a step with a network
// runs: an HTTP and SOCKS5 proxy that decides outside.
const (
	Door     = "127.0.0.1:3128"
	DoorPort = 3128
)

// EnvScratch tells the agent the size of ScratchDir in bytes, where the backend
// can't read it back from the host: the agent leaves at once if it is another.
const EnvScratch = "QUAVON_SCRATCH_BYTES"

// Uids inside every sandbox, the same number for the group. The agent's differs
// from any job's so that the kernel keeps a job away from it.
const (
	AgentUID = 65533
	JobUID   = 60000
)

// Config is what a backend needs to start one sandbox.
type Config struct {
	// ID is the job's id.
	ID string
	// RootDir is a prepared directory tree used read-only as the root.
	RootDir string
	// RootImage is an EROFS image used read-only as the root; RootDir is "".
	RootImage string
	// Image is the root of a Detached backend's sandbox, an Image.ID.
	Image string
	// RootBinds are shown read-only at their Target, an absolute path that exists
	// in the root, such as /usr. Mode and Protect are ignored.
	RootBinds []job.Mount
	// Mounts are attached below LowerDir. Only Source is the backend's business.
	Mounts []job.Mount
	// Owner is who the owner of a mount's source is inside; nil is JobUID.
	Owner  *Owner
	Limits job.Limits
	// Guest is the host path of quavon-guest, checked by CheckGuest.
	Guest string
}

// Owner is a user and a group inside a sandbox.
type Owner struct{ UID, GID uint32 }

// MountOwner is Owner with its default.
func (c Config) MountOwner() Owner {
	if c.Owner == nil {
		return Owner{JobUID, JobUID}
	}
	return *c.Owner
}

// Backend starts sandboxes of one kind. Methods are safe for concurrent use.
type Backend interface {
	// Name is the operator's name for the backend, such as "runsc".
	Name() string
	// Policies says which policies the backend enforces on this host.
	Policies() Policies
	// Check says whether the backend can start a sandbox here at all.
	Check(ctx context.Context) error
	// Start creates a sandbox, starts the agent in it and returns once limits
	// were applied. When it fails nothing is left behind.
	Start(ctx context.Context, c Config) (Sandbox, error)
	// Reap removes what crashed runs left behind: only sandboxes whose lock is
	// free. It returns the ids it removed.
	Reap(ctx context.Context) ([]string, error)
}

// Sandbox is one running sandbox, used for one job and never again.
type Sandbox interface {
	// Conn is the byte stream to the agent. It ends when the sandbox does.
	Conn() io.ReadWriteCloser
	// Info says what runs the sandbox, with the limits as read back from the
	// host after the start; an error means that a limit does not hold.
	Info(ctx context.Context) (job.SandboxInfo, error)
	// Done is closed when the sandbox has ended for whatever cause.
	Done() <-chan struct{}
	// Ended says why the sandbox ended; valid after Done is closed. Reason is
	// "" when the agent left by itself.
	Ended() End
	// Hit reports which limits have been reached so far, as the host counts.
	Hit() []job.Reason
	// Stop ends the sandbox and removes everything it had on the host. It is
	// idempotent and works with a cancelled context.
	Stop(ctx context.Context) error
}

// End is why a sandbox ended.
type End struct {
	Reason job.Reason
	// State is the runtime process's exit, nil when it was never reaped or is no
	// child of this process.
	State *os.ProcessState
	// Log is the bounded tail of what the runtime said on stderr, escaped.
	Log string
}
