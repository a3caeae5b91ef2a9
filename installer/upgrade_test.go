package installer

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quavon/quavon/installer/phase"
)

// gvisor is a phase that brings a version of gVisor, which services run on.
type gvisor struct{ *daemon }

func (g *gvisor) link() string { return filepath.Join(g.lib(), "gvisor") }

func (g *gvisor) Plan(context.Context) ([]phase.Change, error) {
	if now, _ := os.Readlink(g.link()); now == g.target.Version {
		return nil, nil
	}
	return []phase.Change{{Action: phase.Edit, Target: g.link(), Summary: "point it at " + g.target.Version}}, nil
}

func (g *gvisor) Apply(ctx context.Context, tx phase.Tx, show phase.Reporter) error {
	if err := g.daemon.Apply(ctx, tx, show); err != nil {
		return err
	}
	return tx.Symlink(g.target.Version, g.link())
}

// TestFailedUpgrade: when what an upgrade brings doesn't hold, gVisor, settings, images and
// services are those of before, together. A first installation keeps what it could do.
func TestFailedUpgrade(t *testing.T) {
	t.Parallel()
	dir := operator(t)
	broken := errors.New("the test of the sandboxes failed")
	install := func(version string, fails error) []string {
		t.Helper()
		in, s := world(dir, version, nil)
		in.Phases[0] = &gvisor{&daemon{in.Target}}
		s.apply = func(context.Context) error { return fails }
		_, err := in.Install(t.Context())
		if !errors.Is(err, fails) {
			t.Fatalf("%s: %v", version, err)
		}
		return in.View.(*lines).said
	}
	says := func(said []string, want string) {
		t.Helper()
		if !slices.Contains(said, want) {
			t.Errorf("it says %q, not %q", strings.Join(said, "; "), want)
		}
	}
	says(install("v1", broken), "phase compose was taken back; what stands: runtime, secrets, env")
	install("v1", nil)
	before := tree(t, dir)
	says(install("v2", broken), "phase compose was taken back, with runtime")
	after := tree(t, dir)
	maps.DeleteFunc(after, func(path, _ string) bool { return before[path] == "" && strings.Contains(path, "/.quavon/backups/") })
	if d := cmp.Diff(before, after); d != "" {
		t.Errorf("after the failed upgrade: %s", d)
	}
	install("v2", nil)
	if now, err := os.Readlink(filepath.Join(dir, "lib/deep/gvisor")); err != nil || now != "v2" {
		t.Errorf("after the upgrade gVisor is %q: %v", now, err)
	}
}

// asker remembers whether plans were made while nothing may be fetched.
type asker struct {
	phase.Phase
	target *phase.Target
	local  []bool
}

func (a *asker) Plan(ctx context.Context) ([]phase.Change, error) {
	a.local = append(a.local, a.target.Local)
	return a.Phase.Plan(ctx)
}

// TestNothingFetchedBeforeConsent: what is planned before somebody has agreed is planned
// without fetching; and all of it is looked at again before anything is changed.
func TestNothingFetchedBeforeConsent(t *testing.T) {
	t.Parallel()
	install := func(in *Installer) error { _, err := in.Install(t.Context()); return err }
	for _, c := range []struct {
		name string
		yes  bool
		ask  func(context.Context, string) (bool, error)
		do   func(*Installer) error
		want []bool
	}{
		{"a dry run", false, nil, func(in *Installer) error { _, err := in.Plan(t.Context()); return err }, []bool{true}},
		{"--yes", true, nil, install, []bool{false, false}},
		{"nobody to ask", false, nil, install, []bool{true}},
		{"no", false, func(context.Context, string) (bool, error) { return false, nil }, install, []bool{true}},
		{"yes", false, func(context.Context, string) (bool, error) { return true, nil }, install, []bool{true, false, false}},
	} {
		in, _ := world(operator(t), "v1", nil)
		a := &asker{Phase: in.Phases[0], target: in.Target}
		in.Phases[0], in.Yes, in.Ask = a, c.yes, c.ask
		err := c.do(in)
		if !slices.Equal(a.local, c.want) {
			t.Errorf("%s: planned with local %v, want %v: %v", c.name, a.local, c.want, err)
		}
	}
}

// maker is a phase of one act, which fails or not, and remembers when it was undone.
type maker struct {
	name   string
	last   bool
	stays  bool
	fails  error
	undone *[]string
}

func (m *maker) Name() string { return m.name }

func (m *maker) Plan(context.Context) ([]phase.Change, error) {
	return []phase.Change{{Action: phase.Run, Target: m.name, Summary: "make"}}, nil
}

func (m *maker) Apply(_ context.Context, tx phase.Tx, _ phase.Reporter) error {
	return tx.Act(phase.Act{Name: "make", Last: m.last, Stays: m.stays, Keeps: "what was made"}, func() error { return m.fails })
}

func (m *maker) Undo(context.Context, phase.Act, phase.How, phase.Reporter) error {
	*m.undone = append(*m.undone, m.name)
	return nil
}

// TestTakenBackLast: acts are taken back newest first; what starts again with all as it was
// comes at the end.
func TestTakenBackLast(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for last, want := range map[bool][]string{false: {phase.Wait, phase.Compose, phase.Images}, true: {phase.Wait, phase.Images, phase.Compose}} {
		in, _ := world(operator(t), "v1", nil)
		var undone []string
		in.Phases = []phase.Phase{
			&maker{name: phase.Images, undone: &undone}, &maker{name: phase.Compose, last: last, undone: &undone},
			&maker{name: phase.Wait, fails: broken, undone: &undone},
		}
		if _, err := in.Install(t.Context()); !errors.Is(err, broken) || !slices.Equal(undone, want) {
			t.Errorf("last %v: %v %v, want %v", last, err, undone, want)
		}
	}
}

// TestLeftOfAFailure: what a failed phase leaves for the next time is known to be there: an
// uninstall names it, and a purge removes it. What stood before is no other by that.
func TestLeftOfAFailure(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for _, installed := range []bool{false, true} {
		dir := operator(t)
		var undone []string
		fails := func(fails error) *Installer {
			in, _ := world(dir, "v1", nil)
			in.Phases = []phase.Phase{
				&maker{name: phase.Images, stays: true, undone: &undone}, &maker{name: phase.Compose, fails: fails, undone: &undone},
			}
			return in
		}
		if installed {
			if _, err := fails(nil).Install(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := fails(broken).Install(t.Context()); !errors.Is(err, broken) {
			t.Fatal(err)
		}
		undone = nil
		r, err := fails(nil).Uninstall(t.Context(), false)
		want := map[bool][]string{true: {phase.Compose, phase.Images}}[installed]
		if err != nil || !slices.Equal(undone, want) || len(r.Standing) != 1 || r.Standing[0].What != "what was made are kept" {
			t.Errorf("installed before: %v: an uninstall takes back %v and says %v: %v", installed, undone, r.Standing, err)
		}
		undone = nil
		if _, err := fails(nil).Uninstall(t.Context(), true); err != nil || !slices.Contains(undone, phase.Images) {
			t.Errorf("installed before: %v: a purge takes back %v: %v", installed, undone, err)
		}
		if _, err := os.Lstat(filepath.Join(dir, ".quavon")); err == nil {
			t.Errorf("installed before: %v: the journal is left", installed)
		}
	}
}
