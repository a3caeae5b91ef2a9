package smoke

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"unicode/utf8"

	"github.com/quavon/quavon/runner/guest/probe"
)

// Reader reads the lines of quavon-guest as they come: it is what the job's stdout is
// written to. Whatever writes them runs in the sandbox: one line that isn't as it must be
// spoils the run, and nothing of it is kept beyond the bounds of package probe.
type Reader struct {
	nonce string
	asked []string

	mu      sync.Mutex
	pending []byte
	lines   []probe.Line
	started chan struct{}
	end     bool
	err     error
}

// NewReader reads a run with this nonce, of the probes that were asked for.
func NewReader(nonce string, asked []string) *Reader {
	return &Reader{nonce: nonce, asked: asked, started: make(chan struct{})}
}

// Write implements io.Writer; it never fails, so that the job goes on.
func (r *Reader) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := len(p)
	for r.err == nil && len(p) > 0 {
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			i = len(p) - 1
		}
		r.pending, p = append(r.pending, p[:i+1]...), p[i+1:]
		if len(r.pending) > probe.MaxLine {
			r.pending, r.err = nil, errors.New("a line is too long")
		} else if r.pending[len(r.pending)-1] == '\n' {
			r.err = r.take(r.pending)
			r.pending = r.pending[:0]
		}
	}
	return n, nil
}

func (r *Reader) take(raw []byte) error {
	var l probe.Line
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	err := d.Decode(&l)
	if _, more := d.Token(); err != nil || !errors.Is(more, io.EOF) {
		return fmt.Errorf("a line is no result: %.100q", raw)
	}
	switch {
	case !utf8.Valid(raw) || l.Nonce != r.nonce:
		return errors.New("a line isn't of this run")
	case r.end:
		return errors.New("a line comes after the end")
	case len(r.lines) == 0 && l.Kind != probe.KindStart:
		return errors.New("there is no start")
	case len(r.lines) > probe.MaxResults:
		return errors.New("there are too many results")
	}
	switch l.Kind {
	case probe.KindStart:
		if len(r.lines) > 0 || l.Count != len(r.asked) {
			return errors.New("the start is another run's")
		}
		close(r.started)
	case probe.KindResult:
		if err := r.fits(l); err != nil {
			return err
		}
	case probe.KindEnd:
		if l.Count != len(r.lines)-1 {
			return fmt.Errorf("the end counts %d results, and %d came", l.Count, len(r.lines)-1)
		}
		r.end = true
	default:
		return fmt.Errorf("a line is of the unknown kind %.20q", l.Kind)
	}
	r.lines = append(r.lines, l)
	return nil
}

// fits refuses results of probes that nobody asked for, and a second one of the same
// attempt.
func (r *Reader) fits(l probe.Line) error {
	const maxName = 64
	if !slices.Contains(r.asked, l.Probe) || l.Sub == "" ||
		len(l.Sub) > maxName || len(l.Errno) > maxName || len(l.Answer) > probe.MaxAnswer {
		return fmt.Errorf("a result of %.40q is out of bounds", l.Probe)
	}
	for _, old := range r.lines {
		if old.Probe == l.Probe && old.Sub == l.Sub {
			return fmt.Errorf("%s says %.40q twice", l.Probe, l.Sub)
		}
	}
	return nil
}

// Whole are the results of a run that came to its end.
func (r *Reader) Whole() ([]probe.Line, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.err != nil:
		return nil, r.spoiled()
	case len(r.lines) == 0:
		return nil, errors.New("nothing came from the sandbox")
	case !r.ended():
		return nil, fmt.Errorf("the probes did not come to their end, after %d results", len(r.lines)-1)
	}
	return r.lines[1 : len(r.lines)-1], nil
}

// Cut are the results of a run that may have been cut at any place, as by the limit that
// its job was to run into; whole says that it was not. A line that has no end is none.
func (r *Reader) Cut() (results []probe.Line, whole bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return nil, false, r.spoiled()
	}
	return r.taken(), r.ended(), nil
}

// SoFar are the results that have come, until the first line that spoils the run.
func (r *Reader) SoFar() []probe.Line {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.taken()
}

func (r *Reader) taken() []probe.Line {
	var out []probe.Line
	for _, l := range r.lines {
		if l.Kind == probe.KindResult {
			out = append(out, l)
		}
	}
	return out
}

func (r *Reader) ended() bool { return r.end && len(r.pending) == 0 }

func (r *Reader) spoiled() error {
	return fmt.Errorf("what came from the sandbox can't be trusted: %w", r.err)
}
