package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/quavon/quavon/doctor"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/queue"
	"github.com/quavon/quavon/runner/queue/envelope"
)

// aliveTime is how long a runner may take to say what it is, on a busy host too.
const aliveTime = 30 * time.Second

// contact is a runner's first word of this run: what it is.
type contact struct {
	once  sync.Once
	found doctor.Finding
	facts Facts
	// ok says that it answered. One that doesn't is asked nothing else.
	ok bool
}

// alive shows that runners are there now, and what they say they are.
func (f *Fleet) alive(ctx context.Context) doctor.Finding {
	parts, err := f.each(ctx, f.identity)
	if err != nil {
		return doctor.Finding{State: doctor.Fail, Message: err.Error(), Fix: fault.Hint(err), Err: err}
	}
	for _, r := range f.records {
		if r.Err != nil {
			parts = append(parts, doctor.Part{Subject: r.Runner, Finding: stranger(r.Err)})
		}
	}
	if len(parts) == 0 {
		return doctor.Failed(fmt.Sprintf("no runner of the queue %q is alive", f.Name),
			"start one: `quavon runner --valkey-url-file FILE --signing-key-file FILE`, "+
				"or `docker compose --profile sandbox up -d sandbox-runner`")
	}
	return doctor.Together(noun, parts)
}

// Fixes of several checks.
const (
	muteFix = "look at its log, and start it again: `docker compose logs sandbox-runner`, `docker compose restart sandbox-runner`"
	keyFix  = "give the runner and this command the same sandbox_signing_key, and start the runner again"
)

// stranger is a record that isn't genuine.
func stranger(err error) doctor.Finding {
	fix := "look at who else can write to Valkey"
	if envelope.CauseOf(err) == envelope.WrongKey {
		fix = keyFix
	}
	if envelope.CauseOf(err) == envelope.Expired || envelope.CauseOf(err) == envelope.TooEarly {
		fix = "set both hosts' clocks: see QD905"
	}
	return doctor.Failed("its record is not believed: "+err.Error(), fix)
}

var errMute = errors.New("the runner says nothing")

// contact asks a runner what it is, once.
func (f *Fleet) contact(ctx context.Context, h queue.Health) *contact {
	c := f.contacts[h.Runner]
	c.once.Do(func() {
		ctx, cancel := context.WithTimeoutCause(ctx, cmp.Or(f.aliveTime, aliveTime), errMute)
		defer cancel()
		c.found, c.facts, c.ok = f.ask(ctx, h.Runner, "QD951")
	})
	return c
}

func (f *Fleet) identity(ctx context.Context, h queue.Health) doctor.Finding {
	c := f.contact(ctx, h)
	got := c.found
	switch {
	case !c.ok:
		return doctor.Failed("it has a record, but does not answer: "+got.Message, muteFix)
	case !same(c.facts, h):
		return twoOfAName(c.facts, h)
	}
	got.Message += ", host " + h.Host
	got.Details = append(got.Details, fmt.Sprintf("state %s%s, %d of %d slots busy, quavon %s", h.State, because(h.Why), h.Busy, h.Slots,
		c.facts.Version))
	if h.State != queue.StateHealthy && got.State == doctor.Pass {
		got.State, got.Fix = doctor.Warn, "see QD957: jobs are given to healthy runners only"
	}
	return got
}

func because(why string) string {
	if why == "" {
		return ""
	}
	return " (" + strings.ReplaceAll(why, "\n", " ") + ")"
}

// same says whether an answer is of the runner that a record is of.
func same(facts Facts, h queue.Health) bool { return facts.Host == h.Host && facts.Boot == h.Boot }

func twoOfAName(facts Facts, h queue.Health) doctor.Finding {
	return doctor.Failed(
		fmt.Sprintf("two runners have this id: one on host %s wrote the record, one on host %s answers", h.Host, facts.Host),
		"give each an id of its own: `quavon runner --id NAME`")
}
