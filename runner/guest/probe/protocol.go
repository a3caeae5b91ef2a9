package probe

import "time"

// Bounds of what the two sides send. The host's side is strict about them, since
// whatever runs inside is not to be trusted.
const (
	// MaxInput bounds the document, in bytes.
	MaxInput = 64 << 10
	// MaxLine bounds a line, in bytes with its newline; MaxAnswer the answer in it.
	MaxLine   = 4 << 10
	MaxAnswer = 2 << 10
	// MaxResults bounds the results of one run.
	MaxResults = 4 << 10
)

// Input is what the host asks for: the first line of stdin. The run ends after its
// stdin has ended, so that the host can look at it from outside for as long as it
// needs.
type Input struct {
	// Nonce is the run's own, in every line and in every name that is made.
	Nonce string `json:"nonce"`
	// Probes are ids of the registry, in the order to run them in.
	Probes []string `json:"probes"`
	// Params are what probes have to know of the host, such as the addresses of its
	// listeners.
	Params map[string][]string `json:"params,omitempty"`
}

// Kind is what a line says.
type Kind string

// Kinds of line. A run is one start, results and one end.
const (
	KindStart  Kind = "start"
	KindResult Kind = "result"
	KindEnd    Kind = "end"
)

// Line is one line of output.
type Line struct {
	Kind  Kind   `json:"kind"`
	Nonce string `json:"nonce"`
	// Probe and Sub name a result.
	Probe string `json:"probe,omitempty"`
	Sub   string `json:"sub,omitempty"`
	// Errno is "" for an attempt that succeeded, else the error's name, such as
	// "EPERM", or one of the Errno constants.
	Errno string `json:"errno,omitempty"`
	// Answer is what came back, or a fact that was found.
	Answer string `json:"answer,omitempty"`
	// Count is of the probes asked for, in a start, and of results, in an end.
	Count int `json:"count,omitempty"`
}

// What stands for an error number where there is none.
const (
	// ErrnoTimeout: the attempt did not come back.
	ErrnoTimeout = "timeout"
	// ErrnoDied: the process that made the attempt died.
	ErrnoDied = "died"
	// ErrnoFault: the processor refused an instruction of it.
	ErrnoFault = "fault"
	// ErrnoOther: another error, which the answer tells.
	ErrnoOther = "error"
)

// Subs that every probe has.
const (
	SubBefore = "workbench-before"
	SubAfter  = "workbench-after"
)

// Times of a run.
const (
	// attemptTime bounds an attempt that names no time.
	attemptTime = 4 * time.Second
	// probeTime bounds a probe that names no time.
	probeTime = 15 * time.Second
	// holdTime bounds the wait for the end of stdin.
	holdTime = 5 * time.Minute
)
