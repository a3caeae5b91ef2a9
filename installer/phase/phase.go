// Package phase is the contract between the installer and its phases. A phase is a
// value that can say what it would change, change it, and take it back; the
// installer orders phases, keeps the journal, asks, and shows what happens.
package phase

import (
	"context"
	"io/fs"
)

// Names of the phases.
const (
	Preflight = "preflight"
	Runtime   = "runtime"
	Secrets   = "secrets"
	Env       = "env"
	Images    = "images"
	Compose   = "compose"
	Wait      = "wait"
	Smoke     = "smoke"
)

// Names are all phases in their order.
var Names = []string{Preflight, Runtime, Secrets, Env, Images, Compose, Wait, Smoke}

// Phase is one part of an installation.
type Phase interface {
	// Name is one of Names.
	Name() string
	// Plan says what Apply would do, and reads only. Before a dry run the phases in
	// front may not have been applied: what depends on them is planned as if they had
	// been. An error means that Apply can't succeed; it has the command to type.
	Plan(ctx context.Context) ([]Change, error)
	// Apply does what Plan says, and nothing when all is as it should be. It writes
	// through tx only, which notes each step on disk before it is made. When Apply
	// fails or its process is killed, the installer takes back what tx has noted.
	Apply(ctx context.Context, tx Tx, show Reporter) error
	// Undo takes back an act noted by tx.Act, often in another process. The act may
	// have been made, half made, not made, or taken back already: all of these
	// succeed. A phase without acts returns nil.
	Undo(ctx context.Context, act Act, how How, show Reporter) error
}

// Keeper is a phase some of whose files make a generation: they are copied away
// after each installation that succeeded, and put back by a rollback.
type Keeper interface {
	// Files are absolute paths, none of a secret; one that isn't there is left out.
	Files() []string
}

// Watcher is a phase on which files of the operator's bear that are no part of a generation:
// it is noted what they were, and a rollback tells when they differ by then.
type Watcher interface {
	// Watched are absolute paths, none of a secret; none need be there.
	Watched() []string
}

// Restorer is a phase that brings the host in line with files of an earlier
// generation that are in place again, as `docker compose up` does, without making
// these files anew.
type Restorer interface {
	Restore(ctx context.Context, tx Tx, show Reporter) error
}

// Action is what happens to a change's target.
type Action string

// Actions. A Check changes nothing: a plan of checks alone is "nothing to change".
const (
	Create Action = "create"
	Edit   Action = "edit"
	Remove Action = "remove"
	Run    Action = "run"
	Check  Action = "check"
)

// Change is one line of a plan.
type Change struct {
	Action Action `json:"action"`
	// Target is a path, or the name of what isn't a file.
	Target string `json:"target"`
	// Summary is the line shown, without a secret and without the target.
	Summary string `json:"summary"`
	// Diff is unified, secrets left out; "" where there is nothing to show.
	Diff string `json:"diff,omitempty"`
	// Risk names what --accept-risk must hold for this change, "" for most.
	Risk string `json:"risk,omitempty"`
	// RiskWhy says what may be lost, as the containers that would stop.
	RiskWhy string `json:"riskWhy,omitempty"`
}

// RestartDocker is the risk of stopping containers by restarting the engine.
const RestartDocker = "restart-docker"

// Act is something done that isn't a file.
type Act struct {
	// Name says what was done. Acts of the same phase, Name and Key are the same
	// thing done again: uninstall undoes only the last.
	Name string `json:"name"`
	Key  string `json:"key,omitempty"`
	// Data is what Undo needs, never a secret.
	Data map[string]string `json:"data,omitempty"`
	// Last says that a phase that failed is taken back with this act at the end, also after
	// acts that were made before it: it starts again what needs all as it was.
	Last bool `json:"last,omitempty"`
	// Stays says that what was made is left when its phase failed, for the next time, and is
	// from then on what an uninstall leaves.
	Stays bool `json:"stays,omitempty"`
	// Keeps names what an uninstall leaves of it and a purge removes, "" for nothing.
	Keeps string `json:"keeps,omitempty"`
}

// How an act is taken back.
type How int

// Kinds of undoing.
const (
	// Failed takes back a phase that failed or was interrupted: what was there
	// before it should be there again.
	Failed How = iota
	// Uninstall leaves what the operator's data is in, as volumes.
	Uninstall
	// Purge leaves nothing.
	Purge
)

// Tx notes and makes a phase's steps. Everything is on disk (fsync) before the step
// is made. Paths are absolute.
type Tx interface {
	// WriteFile replaces a file in one step. An existing file keeps its mode and
	// owner; mode is for a new one. The same content again is no step.
	WriteFile(path string, data []byte, mode fs.FileMode) error
	// Remove removes a file, which need not be there.
	Remove(path string) error
	// MkdirAll makes a directory and those above it.
	MkdirAll(path string, mode fs.FileMode) error
	// Symlink makes path point at target, in one step also where it pointed elsewhere.
	Symlink(target, path string) error
	// Act notes act, then calls do.
	Act(act Act, do func() error) error
}

// Reporter shows what happens.
type Reporter interface {
	// Line is something to keep: one line on every kind of output. It has no secret;
	// what came from a container or a daemon is made harmless by the reporter.
	Line(text string)
	// Status replaces what is shown as going on, one line each. Without a terminal
	// it isn't shown at all.
	Status(lines ...string)
}
