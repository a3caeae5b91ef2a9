package smoke_test

import (
	"os"
	"testing"

	"github.com/quavon/quavon/runner"
	"github.com/quavon/quavon/runner/sandbox/runsc"
	"github.com/quavon/quavon/runner/sandbox/sandboxtest"
	"github.com/quavon/quavon/runner/smoke"
	"github.com/quavon/quavon/runner/state"
	"github.com/quavon/quavon/runner/state/statetest"
)

// production is a suite of the backend runsc as every job has it.
func production(t testing.TB) *smoke.Suite {
	t.Helper()
	st, err := state.Open(statetest.Path(t))
	if err != nil {
		t.Fatal(err)
	}
	backend, guest := runsc.New(sandboxtest.Runsc(t), st), sandboxtest.Guest(t)
	r := &runner.Runner{Backend: backend, Guest: guest, Store: st.Path("toolchain"), Spool: st.Path()}
	return &smoke.Suite{
		Runner: r, Backend: backend.Name(), Policies: backend.Policies(), Guest: guest, TempDir: st.Path(),
	}
}

// TestProductionRunsc shows that every probe holds where nothing is weakened.
func TestProductionRunsc(t *testing.T) {
	t.Parallel()
	allHold(t, production(t))
}

func allHold(t *testing.T, s *smoke.Suite) {
	t.Helper()
	r, err := s.Run(t.Context(), smoke.Options{Full: true, Root: os.Geteuid() == 0})
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range r.Results {
		t.Logf("%-16s %-14s %s", x.ID, x.Verdict, x.Why)
		if x.Verdict != smoke.Held && x.Verdict != smoke.NotApplicable {
			t.Errorf("%s: %s: %s", x.ID, x.Verdict, x.Why)
		}
		if testing.Verbose() {
			for _, l := range x.Tried {
				t.Logf("    %-20s %-10s %s", l.Sub, l.Errno, l.Answer)
			}
		}
	}
	t.Logf("%d held in %v", r.Count(smoke.Held), r.Took)
}
