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
	"github.com/quavon/quavon/runner/queue"
	"github.com/quavon/quavon/runner/queue/conn"
	"github.com/quavon/quavon/runner/sandbox"
	"github.com/quavon/quavon/runner/sandbox/runsc"
	"github.com/quavon/quavon/runner/service"
	"github.com/quavon/quavon/runner/state"
)

// runRunner runs the service until it is told to stop.
func runRunner(ctx context.Context, o *runnerOptions) (err error) {
	if o.settings.get(envRegistries) != "" {
		o.Log.Warn("this version has no egress proxy: steps that ask for registries are refused", "setting", envRegistries)
	}
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
	if err := h.Backend.Check(ctx); err != nil {
		return unavailable("the backend "+h.Backend.Name()+" can't be used here", err, fault.Hint(err))
	}
	so, err := o.serviceOptions(h, st)
	if err != nil {
		return err
	}
	if so.Queue, err = o.openQueue(ctx); err != nil {
		return err
	}
	defer so.Queue.Close()
	n := newNotifier(o.program)
	defer n.say("STOPPING=1")
	s := service.New(so)
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
	backend, err := o.backend(st)
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

// backends makes backends by name. There is no fallback from one to another.
var backends = map[string]func(*runnerOptions, *state.Dir) (sandbox.Backend, error){
	runsc.Name: func(o *runnerOptions, st *state.Dir) (sandbox.Backend, error) {
		path, err := o.findRunsc("")
		if err != nil {
			return nil, err
		}
		return runsc.New(path, st), nil
	},
}

func (o *runnerOptions) backend(st *state.Dir) (sandbox.Backend, error) {
	name := o.settings.get(envBackend)
	if make, ok := backends[name]; ok {
		return make(o, st)
	}
	var names []string
	for n := range backends {
		names = append(names, n)
	}
	slices.Sort(names)
	return nil, fault.New(fmt.Sprintf("the backend %q is unknown", name), fmt.Sprintf("set %s to one of %v", envBackend, names))
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
	so.ID = o.settings.get(envRunnerID)
	so.Dir = st.Path("runner", so.ID)
	so.Images = func(context.Context) ([]string, error) { return o.offered(r.Images) }
	subject := service.Subject{Backend: r.Backend, Guest: r.Guest, Lock: o.lockFile(), Bounds: so.Bounds}
	so.Identify = subject.Identify
	so.Probe = service.Starts{Runner: r, Backend: r.Backend, OwnKernel: true, Image: func() string {
		list, err := o.offered(r.Images)
		if err != nil || len(list) == 0 {
			return ""
		}
		return list[0]
	}}.Probe
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
			return b, fault.New(fmt.Sprintf("the backend can't enforce %s: %s", x.policy, why), "leave the bound out, or choose another backend")
		default:
			o.Log.Info("default limit left out", "limit", x.policy, "why", why)
			*x.def = 0
		}
	}
	return b, nil
}

// offered lists the digests of images that jobs may use: all of the store, or those
// that the lock has too.
func (o *runnerOptions) offered(s *image.Store) ([]string, error) {
	l, err := o.readLock()
	if err != nil {
		return nil, err
	}
	s.Require(l, filepath.Join(filepath.Dir(o.lockFile()), signature.Dir))
	records, err := s.List()
	if err != nil {
		return nil, err
	}
	var digests []string
	for _, r := range records {
		if l != nil && !locked(l, r.Config.String()) {
			continue
		}
		digests = append(digests, r.Config.String())
		for _, origin := range r.Origins {
			digests = append(digests, origin.Index, origin.Manifest)
		}
	}
	slices.Sort(digests)
	return slices.DeleteFunc(slices.Compact(digests), func(d string) bool { return d == "" }), nil
}

func locked(l *lock.File, config string) bool {
	for i := range l.Images {
		for _, p := range l.Images[i].Platforms {
			if p.Config == config {
				return true
			}
		}
	}
	return false
}

// openQueue connects to Valkey, and waits for one that isn't there yet.
func (o *runnerOptions) openQueue(ctx context.Context) (*queue.Queue, error) {
	qo, err := o.settings.queueOptions()
	if err != nil {
		return nil, err
	}
	if qo.Lease, err = o.settings.duration(envLease); err != nil {
		return nil, err
	}
	qo.Log = o.Log
	for {
		q, err := queue.Open(ctx, qo)
		if err == nil || !conn.Passing(err) {
			return q, err
		}
		o.Log.Warn("Valkey can't be reached: trying again", "error", err)
		select {
		case <-time.After(2 * time.Second):
		case <-ctx.Done():
			return nil, err
		}
	}
}
