package queue

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/valkey-io/valkey-go"

	"github.com/quavon/quavon/runner/evidence"
	"github.com/quavon/quavon/runner/queue/envelope"
)

// HealthTTL is how long a record is believed. Runners publish every third of it.
const HealthTTL = 30 * time.Second

// State is what a runner's smoke test has said.
type State string

// States of a runner.
const (
	// StateUnknown: not probed yet, or what was probed has changed since.
	StateUnknown State = "unknown"
	StateHealthy State = "healthy"
	StateFailed  State = "failed"
	// StateDraining: it finishes what it has and takes nothing more.
	StateDraining State = "draining"
)

// Health is what a runner says about itself.
type Health struct {
	Runner string `json:"runner"`
	// Host identifies the machine, so that QD955 can compare it with the API's.
	Host string `json:"host"`
	// Boot identifies the running kernel, so that containers of one host are seen to be.
	Boot     string `json:"boot,omitempty"`
	Version  string `json:"version"`
	Backend  string `json:"backend"`
	Runtime  string `json:"runtime"`
	Platform string `json:"platform,omitempty"`
	State    State  `json:"state"`
	// Why explains a state that isn't healthy.
	Why string `json:"why,omitempty"`
	// Classes are what it takes; Images those offered, by digest.
	Classes []string `json:"classes"`
	Images  []string `json:"images,omitempty"`
	// Policies is the backend's row of the capability matrix, see sandbox.Policies.
	Policies map[string]string `json:"policies,omitempty"`

	Slots   int       `json:"slots"`
	Busy    int       `json:"busy"`
	Started time.Time `json:"started"`
	// At is when the record was made.
	At    time.Time `json:"at"`
	Smoke *Smoke    `json:"smoke,omitempty"`
}

// Smoke is what the escape probes said, and of what.
type Smoke struct {
	Passed bool `json:"passed"`
	// Probes and Failed count; Failed names those that did.
	Probes int       `json:"probes"`
	Failed []string  `json:"failed,omitempty"`
	At     time.Time `json:"at"`
	// Bound is what the probes ran on.
	Bound evidence.Bound `json:"bound"`
	// Why says of each that failed what came back. It stays with the runner: part of it
	// is what a sandbox said.
	Why []string `json:"-"`
}

// SmokeMaxAge is how old a smoke test may be. Runners repeat it every 6 hours.
const SmokeMaxAge = 7 * time.Hour

// ClockSkew is how far clocks of hosts may differ.
const ClockSkew = time.Minute

// Ready says whether the runner may be given jobs of a class: it is healthy, its smoke
// test passed not too long ago, and it offers the class.
func (h Health) Ready(class string, now time.Time) bool {
	return h.State == StateHealthy && slices.Contains(h.Classes, class) &&
		h.Smoke != nil && h.Smoke.Passed && h.Smoke.Fresh(now, SmokeMaxAge)
}

// Fresh says whether the test isn't older than most. One of the future is none: by it a
// clock that was set back, or a forged date, would make a test last for ever.
func (s *Smoke) Fresh(now time.Time, most time.Duration) bool {
	age := now.Sub(s.At)
	return age < most && age >= -ClockSkew
}

func (q *Queue) healthContext(runner string) envelope.Context {
	return envelope.Context{Purpose: envelope.PurposeHealth, Audience: "all/" + q.o.Name, Runner: runner}
}

// PublishHealth publishes the runner's record for HealthTTL, sealed.
func (w *Worker) PublishHealth(ctx context.Context, h Health) error {
	h.Runner, h.At = w.runner, time.Now()
	body, err := json.Marshal(h)
	if err != nil {
		return err
	}
	raw, err := w.q.o.Keys.Seal(envelope.Envelope{
		Context: w.q.healthContext(w.runner), NotBefore: h.At, Expiry: h.At.Add(HealthTTL), Payload: body,
	})
	if err != nil {
		return err
	}
	return w.health(ctx, valkey.BinaryString(raw))
}

// RemoveHealth takes the record back, when the runner stops.
func (w *Worker) RemoveHealth(ctx context.Context) error { return w.health(ctx, "") }

func (w *Worker) health(ctx context.Context, raw string) error {
	_, err := w.q.word(ctx, "publish the health record", healthScript, w.runner, ms(HealthTTL), raw)
	return err
}

// maxHealth bounds a sealed record, in bytes.
const maxHealth = 256 << 10

// Record is what there is of a runner: its health record, or why it isn't genuine.
type Record struct {
	Runner string
	Health Health
	Err    error
}

// Runners lists the records of all runners that are alive, by id. Records that aren't
// genuine are left out and counted.
func (q *Queue) Runners(ctx context.Context) ([]Health, error) {
	records, err := q.Records(ctx)
	if err != nil {
		return nil, err
	}
	var out []Health
	for _, r := range records {
		if r.Err != nil {
			q.log.Warn("health record refused", "runner", r.Runner, "error", r.Err)
			continue
		}
		out = append(out, r.Health)
	}
	return out, nil
}

// Records lists the records of all runners by id, also those that aren't genuine.
func (q *Queue) Records(ctx context.Context) ([]Record, error) {
	m, err := q.run(ctx, "list runners", runnersScript, strconv.Itoa(maxHealth))
	if err != nil {
		return nil, err
	}
	pairs, err := texts(m)
	if err != nil || len(pairs)%2 != 0 {
		return nil, errAnswer
	}
	var out []Record
	for i := 0; i < len(pairs); i += 2 {
		r := Record{Runner: pairs[i]}
		r.Health, r.Err = q.openHealth(pairs[i], pairs[i+1])
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b Record) int { return strings.Compare(a.Runner, b.Runner) })
	return out, nil
}

func (q *Queue) openHealth(runner, raw string) (Health, error) {
	e, err := q.open([]byte(raw), envelope.Expect{Context: q.healthContext(runner)})
	if err != nil {
		return Health{}, err
	}
	var h Health
	if err := json.Unmarshal(e.Payload, &h); err != nil {
		return Health{}, q.counted(envelope.Refuse(envelope.Malformed, "a health record"))
	}
	if h.Runner != runner {
		return Health{}, q.counted(envelope.Refuse(envelope.WrongContext, "a health record of another runner"))
	}
	return h, nil
}
