package smoke

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"
)

// Target is something that a sandbox must not reach.
type Target struct {
	// Sub names the attempt, in small letters, digits and dashes.
	Sub string
	// Net is "tcp", "udp" or "unix".
	Net string
	// Addr is an address with its port, or a name like "@abstract".
	Addr string
	// Held are the errors of an attempt that got nowhere.
	Held []string
}

// param is what quavon-guest has to know of a target.
func (t Target) param() string { return t.Sub + " " + t.Net + " " + t.Addr }

// Errors that say that there is no way.
var (
	noRoute = []string{"ENETUNREACH"}
	// nobody is the answer of a sandbox's own loopback.
	nobody = []string{"ECONNREFUSED"}
)

func tcp(sub, addr string) Target { return Target{sub, "tcp", addr, noRoute} }
func udp(sub, addr string) Target { return Target{sub, "udp", addr, noRoute} }

// heldAt is noRoute or, for loopback, nobody.
func heldAt(a netip.Addr) []string {
	if a.IsLoopback() {
		return nobody
	}
	return noRoute
}

// control reaches a target as the sandbox would, from outside of it, and waits for
// the listener to see it. here says that the target is on this host's network, and
// not only in the world's.
func (w *World) control(ctx context.Context, nonce string, t Target, here bool) error {
	places := map[string]func(func() error) error{}
	if here {
		places["this host's network"] = func(f func() error) error { return f() }
	}
	if w.ns != nil {
		places["the world's network"] = w.Inside
	}
	if len(places) == 0 {
		return fmt.Errorf("the control %s needs root", t.Sub)
	}
	for name, in := range places {
		said := token(nonce, tokenControl, t.Sub)
		before := w.count(said)
		if err := in(func() error { return say(ctx, t, said) }); err != nil {
			return fmt.Errorf("the control %s can't reach %s in %s: %w", t.Sub, t.Addr, name, err)
		}
		if !waitFor(ctx, controlTime, func() bool { return w.count(said) > before }) {
			return fmt.Errorf("the listener didn't see the control %s in %s", t.Sub, name)
		}
	}
	return nil
}

// controlTime is how long a listener may take to see a control.
const controlTime = 10 * time.Second

func say(ctx context.Context, t Target, text string) error {
	d := net.Dialer{Timeout: controlTime}
	c, err := d.DialContext(ctx, t.Net, t.Addr)
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.Write([]byte(text + "\n"))
	return err
}

// reach is an entry whose attempts are connections that must not come about.
type reach struct {
	Entry
	targets func(*World) []Target
	// here says that the targets are on this host's network too.
	here bool
}

const liveListener = "a live listener sees the same connection from outside, before and after, and none from the sandbox"

func (r reach) entry() Entry {
	e := r.Entry
	e.Group, e.Control, e.Inside = GroupNetwork, liveListener, []string{e.ID}
	if strings.HasPrefix(e.ID, "H") {
		e.Group = GroupControl
	}
	e.Root = !r.here
	e.Plant = func(ctx context.Context, b *Bench) error {
		w, err := b.World()
		if err != nil {
			return err
		}
		var params []string
		for _, t := range r.targets(w) {
			params = append(params, t.param())
		}
		b.Set(e.ID, params...)
		return r.controls(ctx, b)
	}
	e.Judge = r.judge
	return e
}

func (r reach) controls(ctx context.Context, b *Bench) error {
	w, err := b.World()
	if err != nil {
		return err
	}
	for _, t := range r.targets(w) {
		if err := w.control(ctx, b.Nonce, t, r.here); err != nil {
			return err
		}
	}
	return nil
}

func (r reach) judge(c *Case) Outcome {
	w, err := c.Bench.World()
	if err != nil {
		return Outcome{CouldNotRun, err.Error()}
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), watchTime, os.ErrDeadlineExceeded) //nolint:forbidigo // judges have none
	defer cancel()
	if err := r.controls(ctx, c.Bench); err != nil {
		return Outcome{CouldNotRun, "after the sandbox: " + err.Error()}
	}
	var expect []Expect
	var broken []string
	for _, t := range r.targets(w) {
		expect = append(expect, Expect{Probe: r.ID, Sub: t.Sub, Held: t.Held})
		if w.count(token(c.Bench.Nonce, tokenInside, t.Sub)) > 0 {
			broken = append(broken, t.Sub+": the listener at "+t.Addr+" saw the sandbox")
		}
	}
	o := c.attempts(expect)
	if len(broken) > 0 {
		return verdict(append(broken, o.Why), nil)
	}
	return o
}
