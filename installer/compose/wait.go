package compose

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quavon/quavon/installer/phase"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/pause"
)

// wait is the phase that ends when all services are healthy.
type wait struct{ *stack }

var _ phase.Phase = (*wait)(nil)

// Name implements phase.Phase.
func (*wait) Name() string { return phase.Wait }

// Plan implements phase.Phase.
func (w *wait) Plan(context.Context) ([]phase.Change, error) {
	return []phase.Change{{
		Action: phase.Check, Target: "services",
		Summary: "wait until all are healthy, at most " + w.Timeout.String(),
	}}, nil
}

// Apply implements phase.Phase.
func (w *wait) Apply(ctx context.Context, _ phase.Tx, show phase.Reporter) error {
	e, err := w.engine(ctx)
	if err != nil {
		return err
	}
	return e.await(ctx, nil, w.Timeout, show)
}

// Undo implements phase.Phase.
func (*wait) Undo(context.Context, phase.Act, phase.How, phase.Reporter) error { return nil }

const (
	// lookEvery is between two looks at the containers.
	lookEvery = 500 * time.Millisecond
	// patience is how often a service may be started again before it counts as broken.
	patience = 3
)

// await waits until services are healthy, all of the project's when none is named.
// It shows what each is waiting for, and in the end why one didn't come up.
func (e *engine) await(ctx context.Context, names []string, most time.Duration, show phase.Reporter) error {
	start := time.Now()
	ready := map[string]bool{}
	for {
		units, err := e.units(ctx)
		if err != nil {
			return err
		}
		units = slices.DeleteFunc(units, func(u unit) bool { return names != nil && !slices.Contains(names, u.service) })
		if len(units) == 0 || len(units) < len(names) {
			return fault.New("a service has no container: "+strings.Join(names, ", "), "run `quavon install --from-phase compose`")
		}
		var going []string
		for _, u := range units {
			done, broken := u.verdict()
			switch {
			case broken:
				return e.broken(ctx, u)
			case !done:
				going = append(going, fmt.Sprintf("%s: %s (%s)", u.service, u.doing(), time.Since(start).Round(time.Second)))
			case !ready[u.service]:
				ready[u.service] = true
				show.Line(fmt.Sprintf("%s: %s after %s", u.service, u.doing(), time.Since(start).Round(100*time.Millisecond)))
			}
		}
		if len(going) == 0 {
			show.Status()
			return nil
		}
		show.Status(going...)
		if time.Since(start) > most {
			return e.late(ctx, units, most)
		}
		if err := pause.For(ctx, lookEvery); err != nil {
			return err
		}
	}
}

// verdict says whether a service is up, or won't come up.
func (u unit) verdict() (done, broken bool) {
	switch u.state {
	case "running":
		return u.health == "" || u.health == "healthy", u.health == "unhealthy" || u.restarts > patience && u.health != "healthy"
	case "restarting":
		return false, u.restarts > patience
	case "exited", "dead", "removing":
		return false, true
	}
	return false, false
}

// doing says what a service is doing, with the last words of its health check.
func (u unit) doing() string {
	text := u.state
	if u.health != "" {
		text = u.health
	}
	if u.state == "exited" || u.state == "restarting" {
		text = fmt.Sprintf("%s with code %d", u.state, u.exit)
	}
	if u.restarts > 0 {
		text += fmt.Sprintf(", started %d times", u.restarts+1)
	}
	if u.said != "" && u.health != "healthy" {
		text += ": " + strings.Join(strings.Fields(u.said), " ")
	}
	return text
}

func (e *engine) broken(ctx context.Context, u unit) error {
	return fault.Wrap(errors.New(e.story(ctx, u)), "the service "+u.service+" does not come up",
		"see all of it: `docker logs "+u.id[:12]+"`")
}

func (e *engine) late(ctx context.Context, units []unit, most time.Duration) error {
	var stories []string
	for _, u := range units {
		if done, _ := u.verdict(); !done {
			stories = append(stories, e.story(ctx, u))
		}
	}
	return fault.Wrap(errors.New(strings.Join(stories, "\n")), "services aren't healthy after "+most.String(),
		"see `docker ps` and `docker logs`; then run `quavon install --from-phase compose`")
}

// story is what a service does and the end of its log.
func (e *engine) story(ctx context.Context, u unit) string {
	lines := []string{u.service + " is " + u.doing()}
	for _, l := range e.lastLines(ctx, u.id) {
		lines = append(lines, "  | "+l)
	}
	return strings.Join(lines, "\n")
}
