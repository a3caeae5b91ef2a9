package commands

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/queue"
)

// checkTime bounds a service's check of itself.
const checkTime = 10 * time.Second

// checkRunner says whether the runner of these settings takes jobs, by the record that
// it has published; one that drains is well.
func checkRunner(ctx context.Context, o *runnerOptions) error {
	ctx, cancel := context.WithTimeoutCause(ctx, checkTime, errors.New("Valkey does not answer")) //nolint:staticcheck // a name
	defer cancel()
	id, err := o.settings.runnerID()
	if err != nil {
		return err
	}
	c, err := o.settings.client(ctx, o.program)
	if err != nil {
		return err
	}
	defer c.Close()
	runners, err := c.Runners(ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(runners, func(h queue.Health) bool { return h.Runner == id })
	if i < 0 {
		return fault.New("the runner "+id+" has published nothing in "+queue.HealthTTL.String(), "look at its log")
	}
	h := runners[i]
	if h.State != queue.StateHealthy && h.State != queue.StateDraining {
		return fault.New(fmt.Sprintf("%s is %s: %s", id, h.State, cmp.Or(h.Why, "not tested yet")),
			"look at its log, and run `quavon doctor --sandbox-smoke`")
	}
	_, err = fmt.Fprintf(o.IO.Out, "%s is %s, %d of %d slots busy\n", id, h.State, h.Busy, h.Slots)
	return err
}

// checkGuard says whether the engine answers through the guard's socket.
func checkGuard(ctx context.Context, socket string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, checkTime, errors.New("the guard does not answer"))
	defer cancel()
	t := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}
	defer t.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://docker/_ping", nil)
	if err != nil {
		return err
	}
	const hint = "look at the log of the guard, and at the Docker engine"
	resp, err := t.RoundTrip(req)
	if err != nil {
		return fault.Wrap(err, "the guard can't be reached", hint)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fault.New("the engine behind the guard doesn't answer: "+resp.Status, hint)
	}
	return nil
}
