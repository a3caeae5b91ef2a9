package scan

import (
	_ "embed"
	"encoding/json"
	"slices"
	"time"

	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/job"
)

// driver is what runs the scanners: inside, since all are one job.
//
//go:embed driver.py
var driver string

// Options say how to scan.
type Options struct {
	// Root is where what is scanned is shown to the job. Gitleaks heeds a .gitleaksignore
	// in it unless its parent holds nothing else, or the file is moved aside.
	Root string
	// Aside is the name that such a file has during the scan, of which nothing in Root
	// must be; "" leaves it alone.
	Aside string
	// Disable lists scanners to leave out.
	Disable []string
	// Timeout is each scanner's.
	Timeout time.Duration
	// To is the file that the job writes; "" is its stdout.
	To string
}

// Bounds of what is taken from a sandbox, in bytes: of one scanner's output, and of
// all runs together.
const (
	maxOutput = 64 << 20
	maxStream = 512 << 20
)

// MaxStream is how much a scan's job may print.
const MaxStream = maxStream

// plan is what the driver is told.
type plan struct {
	Root    string            `json:"root"`
	Tmp     string            `json:"tmp"`
	To      string            `json:"to"`
	Aside   string            `json:"aside,omitempty"`
	Most    int               `json:"most"`
	Timeout float64           `json:"timeout"`
	Files   map[string]string `json:"files"`
	Tools   []plannedTool     `json:"tools"`
}

type plannedTool struct {
	Name   string            `json:"name"`
	Argv   []string          `json:"argv"`
	Marker string            `json:"marker,omitempty"`
	Only   []string          `json:"only,omitempty"`
	Env    map[string]string `json:"env,omitempty"`
}

// Argv is the command of a scan, to be run in the scanners image.
func Argv(o Options) ([]string, error) {
	p := plan{
		Root: o.Root, Tmp: "/tmp/quavon-scan", To: "-", Aside: o.Aside, Most: maxOutput,
		Timeout: o.Timeout.Seconds(), Files: files,
	}
	if o.To != "" {
		p.To = o.To
	}
	for _, t := range tools {
		if !slices.Contains(o.Disable, t.Name) {
			p.Tools = append(p.Tools, plannedTool{t.Name, t.argv(o.Root), t.Marker, t.Only, t.Env})
		}
	}
	if len(p.Tools) == 0 {
		return nil, fault.New("every scanner is disabled", "leave one: "+Names()[0]).WithCode(string(job.ReasonRejected))
	}
	text, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	return []string{"python3", "-I", "-c", driver, string(text)}, nil
}
