package smoke

import (
	"time"

	"github.com/quavon/quavon/runner/evidence"
	"github.com/quavon/quavon/runner/guest/probe"
)

// Version of the JSON forms of Report and Evidence.
const Version = 1

// Report is a whole smoke test.
type Report struct {
	Version int    `json:"version"`
	Nonce   string `json:"nonce"`
	Backend string `json:"backend"`
	Runtime string `json:"runtime,omitempty"`
	Full    bool   `json:"full"`
	// Guest is the sha256 of the binary that made the attempts.
	Guest   string        `json:"guest"`
	Started time.Time     `json:"started"`
	Took    time.Duration `json:"took_ns"`
	// Bound is what was tested.
	Bound   evidence.Bound `json:"bound"`
	Results []Result       `json:"results"`
	// NotRun are the entries that were not asked for, or that need root.
	NotRun []NotRun `json:"not_run,omitempty"`
}

// Result is a probe's.
type Result struct {
	ID      string  `json:"id"`
	Group   Group   `json:"group"`
	Title   string  `json:"title"`
	Verdict Verdict `json:"verdict"`
	Why     string  `json:"why,omitempty"`
	// Tried is what was attempted and what came back.
	Tried []probe.Line `json:"tried,omitempty"`
}

// NotRun is an entry that was left out, and why.
type NotRun struct {
	ID  string `json:"id"`
	Why string `json:"why"`
}

// Passed says whether every probe that was run holds, and any was.
func (r *Report) Passed() bool {
	return r.Count(Held) > 0 && r.Count(Held)+r.Count(NotApplicable) == len(r.Results)
}

// Count counts a verdict.
func (r *Report) Count(v Verdict) int {
	n := 0
	for _, x := range r.Results {
		if x.Verdict == v {
			n++
		}
	}
	return n
}

// Evidence is what is kept of a report: which probes held, of what, and when.
type Evidence struct {
	Version int       `json:"version"`
	Backend string    `json:"backend"`
	Full    bool      `json:"full"`
	At      time.Time `json:"at"`
	Passed  bool      `json:"passed"`
	Held    []string  `json:"held"`
	// NotHeld are those that were broken or could not be run.
	NotHeld       []string       `json:"not_held,omitempty"`
	NotApplicable []string       `json:"not_applicable,omitempty"`
	NotRun        []string       `json:"not_run,omitempty"`
	Bound         evidence.Bound `json:"bound"`
}

// Evidence is the report's short form.
func (r *Report) Evidence() Evidence {
	e := Evidence{
		Version: Version, Backend: r.Backend, Full: r.Full, At: r.Started.Add(r.Took), Passed: r.Passed(), Bound: r.Bound, Held: []string{},
	}
	for _, x := range r.Results {
		switch x.Verdict {
		case Held:
			e.Held = append(e.Held, x.ID)
		case NotApplicable:
			e.NotApplicable = append(e.NotApplicable, x.ID)
		case Broken, CouldNotRun:
			e.NotHeld = append(e.NotHeld, x.ID)
		}
	}
	for _, x := range r.NotRun {
		e.NotRun = append(e.NotRun, x.ID)
	}
	return e
}
