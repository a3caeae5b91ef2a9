package smoke

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"unicode/utf8"

	"github.com/quavon/quavon/runner/guest/probe"
)

// stream reads the lines of quavon-guest as they come. Whatever writes them runs in
// the sandbox: one line that isn't as it must be spoils the run.
type stream struct {
	nonce string
	asked []string

	mu      sync.Mutex
	pending []byte
	lines   []probe.Line
	started chan struct{}
	end     bool
	err     error
}

func newStream(nonce string, asked []string) *stream {
	return &stream{nonce: nonce, asked: asked, started: make(chan struct{})}
}

// Write implements io.Writer; it never fails, so that the job goes on.
func (s *stream) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(p)
	for s.err == nil && len(p) > 0 {
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			i = len(p) - 1
		}
		s.pending, p = append(s.pending, p[:i+1]...), p[i+1:]
		if len(s.pending) > probe.MaxLine {
			s.err = errors.New("a line is too long")
		} else if s.pending[len(s.pending)-1] == '\n' {
			s.err = s.take(s.pending)
			s.pending = s.pending[:0]
		}
	}
	return n, nil
}

func (s *stream) take(raw []byte) error {
	var l probe.Line
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	err := d.Decode(&l)
	if _, more := d.Token(); err != nil || !errors.Is(more, io.EOF) {
		return fmt.Errorf("a line is no result: %.100q", raw)
	}
	switch {
	case !utf8.Valid(raw) || l.Nonce != s.nonce:
		return errors.New("a line isn't of this run")
	case s.end:
		return errors.New("a line comes after the end")
	case len(s.lines) == 0 && l.Kind != probe.KindStart:
		return errors.New("there is no start")
	case len(s.lines) > probe.MaxResults:
		return errors.New("there are too many results")
	}
	switch l.Kind {
	case probe.KindStart:
		if len(s.lines) > 0 || l.Count != len(s.asked) {
			return errors.New("the start is another run's")
		}
		close(s.started)
	case probe.KindResult:
		if err := s.fits(l); err != nil {
			return err
		}
	case probe.KindEnd:
		if l.Count != len(s.lines)-1 {
			return fmt.Errorf("the end counts %d results, and %d came", l.Count, len(s.lines)-1)
		}
		s.end = true
	default:
		return fmt.Errorf("a line is of the unknown kind %.20q", l.Kind)
	}
	s.lines = append(s.lines, l)
	return nil
}

// fits refuses results of probes that nobody asked for, and a second one of the same
// attempt.
func (s *stream) fits(l probe.Line) error {
	const maxName = 64
	known := false
	for _, id := range s.asked {
		known = known || id == l.Probe
	}
	if !known || l.Sub == "" || len(l.Sub) > maxName || len(l.Errno) > maxName || len(l.Answer) > probe.MaxAnswer {
		return fmt.Errorf("a result of %.40q is out of bounds", l.Probe)
	}
	for _, old := range s.lines {
		if old.Probe == l.Probe && old.Sub == l.Sub {
			return fmt.Errorf("%s says %.40q twice", l.Probe, l.Sub)
		}
	}
	return nil
}

// results are the lines of a run that is whole.
func (s *stream) results() ([]probe.Line, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.err != nil:
		return nil, fmt.Errorf("what came from the sandbox can't be trusted: %w", s.err)
	case len(s.lines) == 0:
		return nil, errors.New("nothing came from the sandbox")
	case !s.end || len(s.pending) > 0:
		return nil, fmt.Errorf("the probes did not come to their end, after %d results", len(s.lines)-1)
	}
	return s.lines[1 : len(s.lines)-1], nil
}
