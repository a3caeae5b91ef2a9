package service

import (
	"cmp"
	"fmt"
	"time"

	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/job"
)

// Bounds are what a job may have of this host. Zero values take the defaults.
type Bounds struct {
	// Default are the limits of jobs that ask for none.
	Default job.Limits
	// Max are the most that a job may ask for; zero is no bound.
	Max job.Limits
	// Snapshot, Patch and Artefacts are in bytes: 4 GiB, 64 MiB, 1 GiB.
	Snapshot, Patch, Artefacts int64
}

// DefaultLimits are those of jobs that ask for none.
var DefaultLimits = job.Limits{Memory: 4 << 30, Pids: 1024, Disk: 10 << 30, Output: 64 << 20, Wall: time.Hour}

func (b Bounds) snapshot() int64  { return cmp.Or(b.Snapshot, 4<<30) }
func (b Bounds) patch() int64     { return cmp.Or(b.Patch, 64<<20) }
func (b Bounds) artefacts() int64 { return cmp.Or(b.Artefacts, 1<<30) }

// apply completes a job's limits, and refuses those that are too high.
func (b Bounds) apply(l *job.Limits) error {
	for _, x := range []struct {
		name      string
		have      *int64
		def, most int64
	}{
		{"memory", &l.Memory, b.Default.Memory, b.Max.Memory},
		{"pids", &l.Pids, b.Default.Pids, b.Max.Pids},
		{"disk", &l.Disk, b.Default.Disk, b.Max.Disk},
		{"output", &l.Output, b.Default.Output, b.Max.Output},
		{"wall", (*int64)(&l.Wall), int64(b.Default.Wall), int64(b.Max.Wall)},
	} {
		if *x.have == 0 {
			*x.have = x.def
			if x.most > 0 {
				*x.have = min(cmp.Or(x.def, x.most), x.most)
			}
		}
		if x.most > 0 && *x.have > x.most {
			return tooHigh(x.name)
		}
	}
	l.CPUs = cmp.Or(l.CPUs, b.Default.CPUs, b.Max.CPUs)
	if b.Max.CPUs > 0 && l.CPUs > b.Max.CPUs {
		return tooHigh("cpus")
	}
	return nil
}

func tooHigh(name string) error {
	return fault.New(fmt.Sprintf("the job's limit of %s is higher than this runner allows", name),
		"ask for less, or let the runner's operator raise the bound").WithCode(string(job.ReasonRejected))
}
