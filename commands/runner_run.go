package commands

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/quavon/quavon/runner"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/image"
	"github.com/quavon/quavon/runner/image/lock"
	"github.com/quavon/quavon/runner/image/signature"
	"github.com/quavon/quavon/runner/image/source"
	"github.com/quavon/quavon/runner/queue"
	"github.com/quavon/quavon/runner/sandbox"
	"github.com/quavon/quavon/runner/service"
	"github.com/quavon/quavon/runner/service/telemetry"
	"github.com/quavon/quavon/runner/state"
)

// runRunner runs the service until it is told to stop.
func runRunner(ctx context.Context, o *runnerOptions) (err error) {
	release, err := state.LockHostAt(o.settings.get(state.EnvLockFile))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	st, err := o.openState()
	if err != nil {
		return err
	}
	h, err := o.host(st)
	if err != nil {
		return err
	}
	so, err := o.serviceOptions(h, st)
	if err != nil {
		return err
	}
	qo, err := o.queueOptions()
	if err != nil {
		return err
	}
	if err := h.Backend.Check(ctx); err != nil {
		return unavailable("the backend "+h.Backend.Name()+" can't be used here", err, fault.Hint(err))
	}
	// What is wrong here is told by now: from here on others are waited for.
	closeDoor, err := o.openDoor(ctx, h)
	if err != nil {
		return err
	}
	defer closeDoor()
	so.Network = h.Door != nil
	test := o.smokeTest(h, &so)
	so.Probe = test.probe
	inspector, err := o.inspector(h, test)
	if err != nil {
		return err
	}
	so.Inspect = inspector.Answer
	if so.Queue, err = o.openQueue(ctx, qo); err != nil {
		return err
	}
	defer so.Queue.Close()
	t, err := telemetry.New(ctx, o.env, so.Version, o.Log)
	if err != nil {
		return err
	}
	if t != nil {
		so.Observe = t.Observe
		defer t.Close(ctx)
	}
	n := newNotifier(o.program)
	defer n.say("STOPPING=1")
	s := service.New(so)
	test.service = s
	go n.watchdog(ctx, s.Alive)
	context.AfterFunc(ctx, func() { n.say("STOPPING=1\nSTATUS=waiting for jobs to end") })
	return s.Run(ctx, func() {
		o.Log.Info("the runner is ready", "id", so.ID, "backend", h.Backend.Name(), "slots", so.Slots)
		n.say("READY=1\nSTATUS=taking jobs from the queue " + o.settings.get(envQueue))
	})
}

func (o *runnerOptions) openState() (*state.Dir, error) {
	dir := o.settings.get(state.EnvDir)
	if dir == "" {
		var err error
		if dir, err = state.Default(); err != nil {
			return nil, err
		}
	}
	return state.Open(dir)
}

// host finds everything on this host that jobs need.
func (o *runnerOptions) host(st *state.Dir) (*runner.Runner, error) {
	// The names are those of quavon run, whose helpers look in the environment.
	lookup := o.LookupEnv
	o.LookupEnv = func(key string) (string, bool) {
		if x := o.settings.find(key); x != nil && x.value != "" {
			return x.value, true
		}
		return lookup(key)
	}
	guest, err := o.findGuest()
	if err != nil {
		return nil, err
	}
	if err := checkBackend(o.settings.get(envBackend)); err != nil {
		return nil, err
	}
	backend, err := o.openBackend(o.settings.get(envBackend), "", st)
	if err != nil {
		return nil, err
	}
	images, err := image.OpenStore(st.Path("images"))
	if err != nil {
		return nil, err
	}
	return &runner.Runner{
		Backend: backend, Guest: guest, Store: st.Path("toolchain"), Images: images, Spool: st.Path(), Log: o.Log,
	}, nil
}

func (o *runnerOptions) serviceOptions(r *runner.Runner, st *state.Dir) (so service.Options, err error) {
	if so.Slots, err = o.settings.positive(envConcurrency); err != nil {
		return so, err
	}
	if so.Drain, err = o.settings.duration(envDrain); err != nil {
		return so, err
	}
	if so.Bounds, err = o.bounds(r.Backend.Policies()); err != nil {
		return so, err
	}
	so.Runner, so.Backend, so.Log, so.Hurry, so.Version = r, r.Backend, o.Log, o.Hurry, ownVersion()
	if so.ID, err = o.settings.runnerID(); err != nil {
		return so, err
	}
	so.Dir = st.Path("runner", so.ID)
	so.Images = func(ctx context.Context) ([]string, error) { return o.offered(ctx, r) }
	subject := service.Subject{Backend: r.Backend, Guest: r.Guest, Lock: o.lockFile(), Bounds: so.Bounds}
	so.Identify = subject.Identify
	return so, nil
}

// bounds are what jobs may ask for. Defaults that can't be enforced are left out, as
// a limit that doesn't hold is worse than none.
func (o *runnerOptions) bounds(have sandbox.Policies) (b service.Bounds, err error) {
	b.Default = service.DefaultLimits
	var wall time.Duration
	var err1, err2 error
	b.Max.Memory, err1 = o.settings.size(envMaxMemory)
	b.Max.Disk, err2 = o.settings.size(envMaxDisk)
	wall, err = o.settings.duration(envMaxTime)
	b.Max.Wall = wall
	if err := cmp.Or(err1, err2, err); err != nil {
		return b, err
	}
	for _, x := range []struct {
		policy    sandbox.Policy
		def, most *int64
	}{
		{sandbox.PolicyMemory, &b.Default.Memory, &b.Max.Memory},
		{sandbox.PolicyDisk, &b.Default.Disk, &b.Max.Disk},
		{sandbox.PolicyPids, &b.Default.Pids, &b.Max.Pids},
	} {
		why, ok := have[x.policy]
		switch {
		case ok && why == sandbox.Enforced:
		case *x.most > 0:
			return b, fault.New(fmt.Sprintf("the backend can't enforce %s: %s", x.policy, why),
				"leave the bound out, or choose another backend")
		default:
			o.Log.Info("default limit left out", "limit", x.policy, "why", why)
			*x.def = 0
		}
	}
	return b, nil
}

// offered lists the digests of images that jobs may use: all of the store, or those
// that the lock has too.
func (o *runnerOptions) offered(ctx context.Context, r *runner.Runner) ([]string, error) {
	l, err := o.readLock()
	if err != nil {
		return nil, err
	}
	if d := sandbox.AsDetached(r.Backend); d != nil {
		return offeredDetached(ctx, d, l), nil
	}
	r.Images.Require(l, filepath.Join(filepath.Dir(o.lockFile()), signature.Dir))
	records, err := r.Images.List()
	if err != nil {
		return nil, err
	}
	var digests []string
	for _, rec := range records {
		if l != nil && !slices.Contains(pinned(l), rec.Config.String()) {
			continue
		}
		digests = append(digests, rec.Config.String())
		for _, origin := range rec.Origins {
			digests = append(digests, origin.Index, origin.Manifest)
		}
	}
	slices.Sort(digests)
	return slices.DeleteFunc(slices.Compact(digests), func(d string) bool { return d == "" }), nil
}

// offeredDetached lists the lock's images that the backend has.
func offeredDetached(ctx context.Context, d sandbox.Detached, l *lock.File) []string {
	if l == nil {
		return nil
	}
	return slices.DeleteFunc(pinned(l), func(digest string) bool {
		_, err := d.FindImage(ctx, digest)
		return err != nil
	})
}

// pinned lists the configs of the lock's images for this platform.
func pinned(l *lock.File) []string {
	var digests []string
	for _, p := range l.On(source.Host()) {
		digests = append(digests, p.Config)
	}
	return digests
}

// queueOptions say which queue, and how.
func (o *runnerOptions) queueOptions() (queue.Options, error) {
	qo, err := o.settings.queueOptions()
	if err != nil {
		return qo, err
	}
	qo.Log = o.Log
	qo.Lease, err = o.settings.duration(envLease)
	return qo, err
}

// openQueue connects to the queue.
func (o *runnerOptions) openQueue(ctx context.Context, qo queue.Options) (q *queue.Queue, err error) {
	err = o.awaitValkey(ctx, func() error {
		q, err = queue.Open(ctx, qo)
		return err
	})
	return q, err
}
