package smoke

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/quavon/quavon/runner/guest/probe"
)

func crossingEntries() []Entry {
	return []Entry{
		{
			ID: "F1-peer", Group: GroupCrossing, Title: "a sandbox can't reach what listens in another",
			Control: "the other reaches its own listener, before and after",
			Weak:    []string{"host-network", "runc-host-network"}, Alone: scanPeer,
		},
		{
			ID: "F2-shared", Group: GroupCrossing, Title: "a sandbox finds nothing that another one leaves, in files or in shared memory",
			Control: "another process of the first sandbox finds each mark",
			Weak:    []string{"shared-dir", "host-root-rw", "runc-host-ipc"}, Alone: lookForMarks,
		},
		{
			ID: "F3-residue", Group: GroupCrossing, Root: true,
			Title:   "of a sandbox that has ended there are no processes, control groups or mounts",
			Control: "processes and control groups are seen while it lives", Weak: []string{"no-cleanup"}, Alone: residue,
		},
	}
}

// scanPeer lets one sandbox listen and another try to reach it.
func scanPeer(ctx context.Context, b *Bench) Outcome {
	const port = "4711"
	var scan []probe.Line
	var scanErr error
	targets := []Target{
		{"peer-loopback", "tcp", "127.0.0.1:" + port, nobody},
		{"peer-any", "tcp", "0.0.0.0:" + port, []string{"ECONNREFUSED", "ENETUNREACH"}},
		{"peer-other", "tcp", "10.99.0.2:" + port, []string{"ENETUNREACH", "ECONNREFUSED"}},
	}
	var params []string
	for _, t := range targets {
		params = append(params, t.param())
	}
	lines, _, err := b.Run(ctx, Session{
		Name: "f1-listen", Inside: []string{"F1-listen"}, Params: map[string][]string{probe.ParamPeerPort: {port}},
		Watch: func(ctx context.Context, live *Live) error {
			ready := func() bool {
				return slices.ContainsFunc(live.Lines(), func(l probe.Line) bool { return l.Sub == "ready" })
			}
			if !waitFor(ctx, watchTime, ready) {
				return errors.New("the other sandbox doesn't listen")
			}
			scan, _, scanErr = b.Run(ctx, Session{
				Name: "f1-scan", Inside: []string{"F1-scan"}, Params: map[string][]string{"F1-scan": params},
			})
			if (&Case{Lines: live.Lines()}).Find("F1-listen", "heard") != nil {
				return errors.New("the other sandbox didn't listen until the end")
			}
			return nil
		},
	})
	all := &Case{Bench: b, Lines: append(lines, scan...)}
	var expect []Expect
	for _, t := range targets {
		expect = append(expect, Expect{Probe: "F1-scan", Sub: t.Sub, Held: t.Held})
	}
	o := all.attempts(expect)
	heard := all.Find("F1-listen", "heard")
	switch {
	case heard != nil && strings.Contains(heard.Answer, b.Nonce+"-inside-peer"):
		return Outcome{Broken, "the other sandbox heard " + heard.Answer}
	case o.Verdict == Broken:
		return o
	case errors.Join(err, scanErr) != nil:
		return Outcome{CouldNotRun, errors.Join(err, scanErr).Error()}
	}
	for _, sub := range []string{"listening", "control-before", "control-after"} {
		if l := all.Find("F1-listen", sub); l == nil || l.Errno != "" {
			return Outcome{CouldNotRun, fmt.Sprintf("%s: the listener doesn't work: %v", sub, l)}
		}
	}
	return o
}

// lookForMarks lets one sandbox leave marks and another look for them.
func lookForMarks(ctx context.Context, b *Bench) Outcome {
	var look []probe.Line
	var lookErr error
	var places []string
	b.Cleanup(func() error { return removeMarks(b.Nonce) })
	lines, _, err := b.Run(ctx, Session{
		Name: "f2-mark", Inside: []string{"F2-mark"},
		Watch: func(ctx context.Context, live *Live) error {
			marked := func() bool {
				return slices.ContainsFunc(live.Lines(), func(l probe.Line) bool { return l.Sub == probe.SubAfter })
			}
			if !waitFor(ctx, watchTime, marked) {
				return errors.New("the marks are not there")
			}
			for _, l := range live.Lines() {
				if strings.HasPrefix(l.Sub, "place-") {
					places = append(places, l.Answer)
				}
			}
			look, _, lookErr = b.Run(ctx, Session{
				Name: "f2-look", Inside: []string{"F2-look"}, Params: map[string][]string{probe.ParamPlaces: places},
			})
			return nil
		},
	})
	c := &Case{Bench: b, Lines: append(lines, look...)}
	var expect []Expect
	for _, p := range places {
		sub, _, _ := strings.Cut(p, " ")
		if l := c.Find("F2-mark", "control-"+sub); l == nil || l.Errno != "" {
			continue // not even the sandbox itself finds it there
		}
		expect = append(expect, Expect{Probe: "F2-look", Sub: sub, Held: []string{"ENOENT", "ENOTDIR"}})
	}
	o := c.attempts(expect)
	switch {
	case o.Verdict == Broken:
		return o
	case len(expect) < 3:
		return Outcome{CouldNotRun, fmt.Sprintf("marks could be left in no more than %d places: %v", len(expect), err)}
	case errors.Join(err, lookErr) != nil:
		return Outcome{CouldNotRun, errors.Join(err, lookErr).Error()}
	}
	return Outcome{o.Verdict, o.Why}
}

// removeMarks takes away what a broken sandbox has left on the host.
func removeMarks(nonce string) error {
	var errs []error
	for _, dir := range []string{"/tmp", "/var/tmp", "/dev/shm"} {
		if err := os.Remove(filepath.Join(dir, "quavon-mark-"+nonce)); !os.IsNotExist(err) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// residue compares the host while a sandbox is there and after.
func residue(ctx context.Context, b *Bench) Outcome {
	var live *group
	var during []string
	var id string
	_, _, err := b.Run(ctx, Session{
		Name: "f3-residue", Inside: []string{"A2-kernel"},
		Watch: func(ctx context.Context, l *Live) (err error) {
			id = l.Job
			if live, err = b.group(ctx, id); err == nil {
				during = append(live.left(), live.members()...)
			}
			return err
		},
	})
	switch {
	case err != nil:
		return Outcome{CouldNotRun, err.Error()}
	case len(during) == 0:
		return Outcome{CouldNotRun, "nothing of the live sandbox was seen, so nothing would be missed"}
	}
	left := live.stillThere(ctx)
	left = append(left, traces(id)...)
	if left != nil {
		return Outcome{Broken, join(left)}
	}
	return Outcome{Verdict: Held}
}

// settleTime is how long the kernel may take to take things down.
const settleTime = 6 * time.Second

// stillThere lists what is left of a group after its end.
func (g *group) stillThere(ctx context.Context) []string {
	var left []string
	waitFor(ctx, settleTime, func() bool {
		left = append(g.left(), g.members()...)
		return left == nil
	})
	return left
}

// traces are processes and mounts of the host that name a sandbox.
func traces(id string) []string {
	var found []string
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline") // the pattern is right
	for _, f := range append(files, "/proc/self/mountinfo") {
		data, err := os.ReadFile(f)
		if err == nil && strings.Contains(string(data), id) {
			found = append(found, f+" names it")
		}
	}
	return found
}
