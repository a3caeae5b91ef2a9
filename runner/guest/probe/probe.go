// Package probe is what quavon-guest does to find out from within whether a sandbox
// holds: it attempts what must not succeed, with valid arguments, and says what came
// back. It runs as a job does and judges nothing: the host's side knows what it
// expects, and looks from outside. Each probe is a process of its own, and each
// attempt has its own deadline.
package probe

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"
)

// Probe is a set of attempts that belong together.
type Probe struct {
	// ID is unique, such as "B1-masks".
	ID string
	// Timeout bounds all its attempts; 0 is 15 seconds.
	Timeout time.Duration
	// Run makes the attempts.
	Run func(*Context)
	// Held probes can tell, by Context.letGo, when the host has seen enough.
	Held bool
	// Sub is what the probe's own children do, see Context.Child; nil has none.
	Sub func(c *Context, args []string) (answer string, err error)
}

// All lists the probes, a group a file.
func All() []Probe {
	return slices.Concat(identity, privilege, filesystem, device, network, doorway, crossing, limits, control, timing)
}

// Find returns the probe of an id, nil when there is none.
func Find(id string) *Probe {
	all := All()
	i := slices.IndexFunc(all, func(p Probe) bool { return p.ID == id })
	if i < 0 {
		return nil
	}
	return &all[i]
}

// Commands of quavon-guest.
const (
	// Command runs what the document on stdin asks for.
	Command = "probe"
	// SubCommand runs one probe, or with more arguments a part of it.
	SubCommand = "probe-sub"
)

// Main runs Command or SubCommand.
func Main(args []string, in io.Reader, out io.Writer) error {
	r := bufio.NewReaderSize(in, MaxInput)
	input, err := read(r)
	if err != nil {
		return err
	}
	w := &writer{w: out, nonce: input.Nonce}
	if args[0] == Command {
		w.held, _ = in.(*os.File)
		return w.run(input, r)
	}
	if len(args) < 2 || Find(args[1]) == nil {
		return errors.New("there is no such probe")
	}
	c := &Context{Input: input, probe: Find(args[1]), out: w}
	if len(args) > 2 {
		return c.child(args[2:])
	}
	c.Try(SubBefore, c.workbench)
	c.probe.Run(c)
	c.Try(SubAfter, c.workbench)
	return w.err
}

func read(r *bufio.Reader) (Input, error) {
	var in Input
	line, err := r.ReadSlice('\n')
	if err != nil && (!errors.Is(err, io.EOF) || len(line) == 0) {
		return in, fmt.Errorf("read the input: %w", err)
	}
	if err := json.Unmarshal(line, &in); err != nil {
		return in, fmt.Errorf("read the input: %w", err)
	}
	if in.Nonce == "" {
		return in, errors.New("the input has no nonce")
	}
	return in, nil
}

// run makes the probes one after the other, then waits for the end of stdin.
func (w *writer) run(input Input, in io.Reader) error {
	w.line(Line{Kind: KindStart, Count: len(input.Probes)})
	for _, id := range input.Probes {
		p := Find(id)
		if p == nil {
			w.result(id, SubBefore, ErrnoOther, "this agent has no such probe")
			continue
		}
		w.process(input, p)
	}
	released := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, in)
		close(released)
	}()
	select {
	case <-released:
	case <-time.After(holdTime):
	}
	w.line(Line{Kind: KindEnd, Count: w.results})
	return w.err
}
