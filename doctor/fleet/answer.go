package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/quavon/quavon/doctor"
	"github.com/quavon/quavon/runner/queue"
)

// said is what a runner answers to a challenge.
type said struct {
	Version int          `json:"version"`
	Facts   Facts        `json:"facts"`
	State   doctor.State `json:"state"`
	Message string       `json:"message"`
	Details []string     `json:"details,omitempty"`
	Fix     string       `json:"fix,omitempty"`
	Took    float64      `json:"took_s"`
}

// Facts are what a runner says of itself with every answer.
type Facts struct {
	Host    string `json:"host"`
	Boot    string `json:"boot,omitempty"`
	Version string `json:"version"`
	// Key names the signing key that it seals with; it is no part of the key.
	Key string `json:"key"`
}

// answerVersion is of said's form.
const answerVersion = 1

// Bounds of what is taken from an answer.
const (
	maxDetails = 300
	maxText    = 2000
)

// Answerer makes checks for challenges, in the runner.
type Answerer struct {
	Facts Facts
	// Checks are what may be asked for, by code. They are made alone, whatever they
	// need; those that weigh on the host one at a time.
	Checks []*doctor.Check
	// Heavy are the codes of those.
	Heavy []string
	// Full makes a check in its long form, where that differs; nil has none.
	Full func(code string) *doctor.Check

	once sync.Once
	one  chan struct{}
}

// alone waits until no other heavy check is made here.
func (a *Answerer) alone(ctx context.Context) (leave func(), err error) {
	a.once.Do(func() { a.one = make(chan struct{}, 1) })
	select {
	case a.one <- struct{}{}:
		return func() { <-a.one }, nil
	case <-ctx.Done():
		return nil, errors.New("other checks of this runner took all of the time that it was asked for")
	}
}

// Answer makes the check that is asked for.
func (a *Answerer) Answer(ctx context.Context, c queue.Challenge) []byte {
	f, took := a.make(ctx, c)
	s := said{
		Version: answerVersion, Facts: a.Facts, State: f.State, Message: f.Message, Details: f.Details, Fix: f.Fix, Took: took.Seconds(),
	}
	s.bound()
	doc, err := json.Marshal(s)
	if err != nil || len(doc) > queue.MaxAnswer {
		s.State, s.Message, s.Details = doctor.Error, "what was found is too long to be told", nil
		doc, _ = json.Marshal(s) // texts and numbers only
	}
	return doc
}

func (a *Answerer) make(ctx context.Context, c queue.Challenge) (doctor.Finding, time.Duration) {
	i := slices.IndexFunc(a.Checks, func(x *doctor.Check) bool { return x.Code == c.Check })
	if i < 0 {
		return doctor.Unknown(fmt.Errorf("this runner doesn't know the check %.20q", c.Check)), 0
	}
	check := *a.Checks[i]
	if c.Full && a.Full != nil {
		if full := a.Full(c.Check); full != nil {
			check = *full
		}
	}
	check.Needs = nil
	// Who asks hears then what it was that took so long.
	ctx, cancel := early(ctx, errors.New("the check did not end in the time that it was asked for"))
	defer cancel()
	if slices.Contains(a.Heavy, check.Code) {
		leave, err := a.alone(ctx)
		if err != nil {
			return doctor.Unknown(err), 0
		}
		defer leave()
	}
	r := doctor.Run(ctx, []*doctor.Check{&check}, nil).Results[0]
	return r.Finding, r.Took
}

// bound cuts what is too much.
func (s *said) bound() {
	s.Message, s.Fix = cut(s.Message), cut(s.Fix)
	if more := len(s.Details) - maxDetails; more > 0 {
		s.Details = append(slices.Clone(s.Details[:maxDetails]), fmt.Sprintf("and %d more", more))
	}
	for i, d := range s.Details {
		s.Details[i] = cut(d)
	}
}

func cut(s string) string {
	if len(s) > maxText {
		return s[:maxText] + "…"
	}
	return s
}

// read is the finding of an answer.
func read(payload []byte) (f doctor.Finding, facts Facts, err error) {
	var s said
	if err := json.Unmarshal(payload, &s); err != nil {
		return f, facts, errors.New("the runner's answer has another form than ours")
	}
	if s.Version != answerVersion {
		return f, facts, fmt.Errorf("the runner's answer is of version %d, ours of %d: use the same quavon", s.Version, answerVersion)
	}
	s.bound()
	f = doctor.Finding{State: s.State, Message: s.Message, Details: s.Details, Fix: s.Fix}
	switch s.State {
	case doctor.Pass, doctor.Warn, doctor.Fail, doctor.Skip:
	case doctor.Error:
		f.Err = errors.New(s.Message)
	default:
		return f, facts, fmt.Errorf("the runner's answer has the state %.20q", s.State)
	}
	return f, s.Facts, nil
}
