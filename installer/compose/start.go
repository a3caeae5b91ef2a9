package compose

import (
	"context"
	"slices"

	"github.com/quavon/quavon/installer/phase"
)

// start brings the services in line: first what others need, and when that is healthy
// the others. A running runner is stopped before, which drains it: what it has begun
// it ends or hands back while all that it needs is there.
func (s *services) start(ctx context.Context, p *project, todo map[string]string, show phase.Reporter) error {
	e, err := s.engine(ctx)
	if err != nil {
		return err
	}
	if len(todo) == 0 {
		return nil
	}
	c := cli{target: s.Target}
	if err := e.makeVolumes(ctx, p, s.Target.Dir); err != nil {
		return err
	}
	if err := s.drain(ctx, e, todo, show); err != nil {
		return err
	}
	for _, group := range [][]string{{Valkey, Guard}, {Egress, Runner}} {
		group = slices.DeleteFunc(group, func(n string) bool { return todo[n] == "" || todo[n] == "remove" })
		if len(group) == 0 {
			continue
		}
		if err := c.run(ctx, show, append([]string{"up", "--detach", "--no-build"}, group...)...); err != nil {
			return err
		}
		for _, name := range group {
			show.Line(name + ": " + past[todo[name]])
		}
		if group[0] == Egress || group[0] == Runner { // the next phase waits for these
			continue
		}
		if err := e.await(ctx, group, s.Timeout, show); err != nil {
			return err
		}
	}
	return c.run(ctx, show, "up", "--detach", "--no-build", "--remove-orphans")
}

var past = map[string]string{"start": "started", "replace": "replaced"}

func (s *services) drain(ctx context.Context, e *engine, todo map[string]string, show phase.Reporter) error {
	units, err := e.units(ctx)
	if err != nil {
		return err
	}
	for _, u := range units {
		if u.service == Runner && u.state == "running" && slices.ContainsFunc(ours, func(n string) bool { return todo[n] != "" }) {
			show.Line("draining " + Runner)
			if err := e.stop(ctx, u); err != nil {
				return err
			}
			if todo[Runner] == "" {
				todo[Runner] = "start"
			}
		}
		if todo[u.service] == "remove" {
			if err := e.remove(ctx, u); err != nil {
				return err
			}
			show.Line(u.service + ": removed")
		}
	}
	return nil
}
