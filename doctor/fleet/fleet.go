// Package fleet makes the checks QD951 to QD958 of every live runner of a queue. It
// challenges each; the runner makes the check by itself and answers sealed. What a
// runner says is shown as its word; what can be seen from here is looked at here.
package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/quavon/quavon/doctor"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/queue"
)

// Queue is what the checks need of one.
type Queue interface {
	Records(ctx context.Context) ([]queue.Record, error)
	Ask(ctx context.Context, runner string, c queue.Challenge) (queue.Answer, error)
	APIHost(ctx context.Context) (*queue.HostRecord, error)
}

var _ Queue = (*queue.Queue)(nil)

// Fleet is the runners of a queue.
type Fleet struct {
	// Open connects to the queue; it is called once.
	Open func(ctx context.Context) (Queue, error)
	// Name is the queue's.
	Name string
	// Facts are those of the process that asks.
	Facts Facts
	// Enterprise makes a runner on the API's host a failure.
	Enterprise bool
	// Full asks for long forms.
	Full bool
	// Heavy are the codes that a runner makes one at a time, see Answerer.
	Heavy []string
	// Keys looks at what this host and Valkey have to do with QD954.
	Keys func(ctx context.Context) []doctor.Part

	// aliveTime is how long a runner may take to say what it is: 30 s.
	aliveTime time.Duration

	// essential are the codes that a runner may not leave out.
	essential map[string]bool

	once     sync.Once
	queue    Queue
	records  []queue.Record
	contacts map[string]*contact
	err      error
}

const noun = "runner"

// Bind gives the checks of a backend, which are called as here, their form for runners.
func (f *Fleet) Bind(checks []*doctor.Check) {
	run := map[string]func(context.Context) doctor.Finding{
		"QD951": f.alive, "QD954": f.keys, "QD955": f.separation,
	}
	f.essential = map[string]bool{}
	var heavy time.Duration // each may have to wait for all of the others
	for _, c := range checks {
		if slices.Contains(f.Heavy, c.Code) {
			heavy += c.Timeout
		}
	}
	for _, c := range checks {
		f.essential[c.Code] = c.Essential
		c.Needs = nil // another runner's failure is none of this one's
		if slices.Contains(f.Heavy, c.Code) {
			c.Timeout = heavy
		}
		if c.Run = run[c.Code]; c.Run == nil {
			c.Run = func(ctx context.Context) doctor.Finding { return f.relay(ctx, c.Code) }
		}
	}
}

// look lists the runners, once.
func (f *Fleet) look(ctx context.Context) error {
	f.once.Do(func() {
		if f.queue, f.err = f.Open(ctx); f.err == nil {
			f.records, f.err = f.queue.Records(ctx)
		}
		f.contacts = map[string]*contact{}
		for _, r := range f.records {
			f.contacts[r.Runner] = &contact{}
		}
	})
	return f.err
}

// each looks at every runner whose record is genuine, at the same time.
func (f *Fleet) each(ctx context.Context, look func(context.Context, queue.Health) doctor.Finding) ([]doctor.Part, error) {
	if err := f.look(ctx); err != nil {
		return nil, err
	}
	ctx, cancel := early(ctx, errors.New("the runner did not answer in time"))
	defer cancel()
	var parts []doctor.Part
	var wg sync.WaitGroup
	for _, r := range f.records {
		if r.Err == nil {
			parts = append(parts, doctor.Part{Subject: r.Runner})
		}
	}
	for i := range parts {
		j := slices.IndexFunc(f.records, func(r queue.Record) bool { return r.Runner == parts[i].Subject })
		wg.Go(func() { parts[i].Finding = look(ctx, f.records[j].Health) })
	}
	wg.Wait()
	return parts, nil
}

// early ends a little before the check is given up, so that what the others said is told.
func early(ctx context.Context, why error) (context.Context, context.CancelFunc) {
	end, ok := ctx.Deadline()
	if !ok {
		return ctx, func() {}
	}
	return context.WithDeadlineCause(ctx, end.Add(-time.Until(end)/10), why)
}

// relay asks every runner to make a check.
func (f *Fleet) relay(ctx context.Context, code string) doctor.Finding {
	parts, err := f.each(ctx, func(ctx context.Context, h queue.Health) doctor.Finding {
		return f.answer(ctx, h, code)
	})
	switch {
	case err != nil:
		return doctor.Unknown(err)
	case len(parts) == 0:
		return doctor.Skipped("no runner is there to ask: see QD951")
	}
	return doctor.Together(noun, parts)
}

// answer is what the runner that a record is of finds. Another one's word, or the word that
// an essential check was left out, is none.
func (f *Fleet) answer(ctx context.Context, h queue.Health, code string) doctor.Finding {
	if !f.contact(ctx, h).ok {
		return doctor.Unknown(fault.New("it does not answer: see QD951", muteFix))
	}
	got, facts, ok := f.ask(ctx, h.Runner, code)
	switch {
	case ok && !same(facts, h):
		return twoOfAName(facts, h)
	case ok && f.essential[code] && (got.State == doctor.Skip || got.State == doctor.Warn):
		return doctor.Unknown(fmt.Errorf("the runner says neither yes nor no, but %s: %s", got.State, got.Message))
	}
	return got
}

// ask asks one runner; ok says that it answered.
func (f *Fleet) ask(ctx context.Context, runner, code string) (got doctor.Finding, facts Facts, ok bool) {
	a, err := f.queue.Ask(ctx, runner, queue.Challenge{Check: code, Full: f.Full})
	if err == nil {
		got, facts, err = read(a.Payload)
	}
	if err != nil {
		return doctor.Unknown(err), facts, false
	}
	return got, facts, true
}

// keys looks at this side's keys and rights, and asks runners for theirs.
func (f *Fleet) keys(ctx context.Context) doctor.Finding {
	var parts []doctor.Part
	if f.Keys != nil {
		parts = f.Keys(ctx)
	}
	runners, err := f.each(ctx, f.sameKey)
	if err != nil {
		runners = []doctor.Part{{Subject: "the queue", Finding: doctor.Unknown(err)}}
	}
	for _, r := range f.records {
		if r.Err != nil {
			runners = append(runners, doctor.Part{Subject: r.Runner, Finding: stranger(r.Err)})
		}
	}
	return doctor.Together("part", append(parts, runners...))
}

// sameKey challenges a runner. It could read the challenge and seal the answer: it has
// one of our keys. Which of them seals shows whether a rotation stands half way.
func (f *Fleet) sameKey(ctx context.Context, h queue.Health) doctor.Finding {
	if c := f.contact(ctx, h); !c.ok {
		return doctor.Failed("it did not meet the challenge: "+c.found.Message, keyFix)
	}
	got, facts, ok := f.ask(ctx, h.Runner, "QD954")
	switch {
	case !ok:
		return doctor.Failed("it did not meet the challenge: "+got.Message, keyFix)
	case !same(facts, h):
		return twoOfAName(facts, h)
	case facts.Key != f.Facts.Key && got.State == doctor.Pass:
		return doctor.Warned(fmt.Sprintf("it has our key, but seals with another (%s, we with %s): a rotation stands half way", facts.Key,
			f.Facts.Key), "make the new key the first line everywhere, then start runners again", got.Details...)
	}
	got.Message = "it met the challenge with key " + facts.Key + "; " + got.Message
	return got
}

// separation compares runners' hosts with the API's.
func (f *Fleet) separation(ctx context.Context) doctor.Finding {
	if err := f.look(ctx); err != nil {
		return doctor.Unknown(err)
	}
	api, err := f.queue.APIHost(ctx)
	if err != nil {
		return doctor.Unknown(fmt.Errorf("the API's host under %s: %w", queue.HostKey, err))
	}
	source := "nobody has published the API's host: compared with this one, where the doctor runs"
	if api != nil {
		source = fmt.Sprintf("the API's host was published by %s at %s", api.By, api.At.UTC().Format(time.RFC3339))
	} else {
		api = &queue.HostRecord{Host: f.Facts.Host, Boot: f.Facts.Boot}
	}
	parts, err := f.each(ctx, func(_ context.Context, h queue.Health) doctor.Finding { return f.compare(h, api) })
	switch {
	case err != nil:
		return doctor.Unknown(err)
	case len(parts) == 0:
		return doctor.Skipped("no runner is there to compare: see QD951")
	}
	found := doctor.Together(noun, parts)
	found.Details = append(found.Details, source)
	return found
}

// compare takes two for one host by its name, or by its running kernel, which the
// containers of a host share though their names differ.
func (f *Fleet) compare(h queue.Health, api *queue.HostRecord) doctor.Finding {
	if h.Host != api.Host && (h.Boot == "" || h.Boot != api.Boot) {
		return doctor.Passed(fmt.Sprintf("host %s, the API's is %s", h.Host, api.Host))
	}
	found := doctor.Warned("it shares the API's host "+api.Host+": who gets out of a sandbox is on the API's host",
		"run `quavon runner` on a host of its own, with nothing but Valkey's address and the signing key")
	if f.Enterprise {
		found.State = doctor.Fail
	}
	return found
}
